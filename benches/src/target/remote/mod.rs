//! Stores that are compared with, behind a socket: one blocking connection for each thread.
//!
//! The clients are our own, for the figures are to be those of the servers: a library's client copies and allocates for
//! each answer, which costs more than some of what is compared here. What a client of ours has to say and to
//! understand are a few commands ([`Protocol`]).

pub mod memcached;
pub mod redis;
mod wire;

#[cfg(test)]
mod tests;

use std::io;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::scanned::Scanned;
use super::{Answer, Counts, Description, ErrorKind, Link, Reply, ServerCpu, Session, SessionError, Target};
pub use wire::{Address, Wire};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The connection broke, or nothing came in time.
    #[error("{0}")]
    Io(io::Error),
    /// What came is none of the protocol's answers.
    #[error("it answered \"{0}\", which no server of this kind does: check the address and --db")]
    Nonsense(String),
    /// The server says no; the connection goes on.
    #[error("it answered: {1}")]
    Refusal(ErrorKind, String),
}

impl Fault {
    /// Of bytes that should not have come.
    #[must_use]
    pub fn nonsense(bytes: &[u8]) -> Self {
        let shown = &bytes[..bytes.len().min(60)];
        Self::Nonsense(shown.escape_ascii().to_string())
    }

    /// The kind for a request that `writes`, or not.
    fn kind(&self, writes: bool) -> ErrorKind {
        match self {
            Self::Refusal(kind, _) => *kind,
            Self::Nonsense(_) => ErrorKind::Incompatible,
            Self::Io(_) if writes => ErrorKind::Indeterminate,
            Self::Io(error) if error.kind() == io::ErrorKind::WouldBlock => ErrorKind::Deadline,
            Self::Io(_) => ErrorKind::Unavailable,
        }
    }
}

/// What a server tells of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Its name and version.
    pub version: String,
    /// Tells it from any other that takes its place.
    pub instance: String,
    /// Its process.
    pub pid: Option<u32>,
    /// Processor time it has used.
    pub cpu: Duration,
}

/// What is said on the wire.
pub trait Protocol: std::fmt::Debug + Send + Sync + 'static {
    /// The store, as given to `--db`.
    const STORE: &'static str;
    /// Its usual port.
    const PORT: u16;
    /// In words.
    const NAME: &'static str;

    /// Asks for facts.
    ///
    /// # Errors
    /// If there is no good answer.
    fn facts(wire: &mut Wire) -> Result<Facts, Fault>;

    /// Puts a request for the values of `keys` into `out`.
    fn ask_values(keys: &[Vec<u8>], out: &mut Vec<u8>);

    /// Takes their values from `wire`.
    ///
    /// # Errors
    /// If there is no good answer to all of them.
    fn take_values(
        wire: &mut Wire,
        keys: &[Vec<u8>],
        values: &mut [Vec<u8>],
        answers: &mut [Answer],
    ) -> Result<(), Fault>;

    /// Puts a request for the value of `key` into `out`.
    fn ask_value(key: &[u8], out: &mut Vec<u8>);

    /// Takes it from `wire`.
    ///
    /// # Errors
    /// If there is no good answer.
    fn take_value(wire: &mut Wire, key: &[u8], value: &mut Vec<u8>) -> Result<Answer, Fault>;

    /// Puts a request to store into `out`.
    fn ask_to_store(key: &[u8], value: &[u8], out: &mut Vec<u8>);

    /// Takes the answer to that from `wire`.
    ///
    /// # Errors
    /// If it is not stored.
    fn take_stored(wire: &mut Wire) -> Result<(), Fault>;
}

/// A server.
#[derive(Debug)]
pub struct Remote<P> {
    address: Address,
    deadline: Duration,
    facts: Facts,
    asking: Mutex<Option<Wire>>,
    reconnects: AtomicU64,
    protocol: PhantomData<P>,
}

impl<P: Protocol> Remote<P> {
    /// The one at `address`, of which no operation waits longer than `deadline` for the next piece of an answer.
    ///
    /// # Errors
    /// If it does not answer as a server of this kind does.
    pub fn connect(address: &str, deadline: Duration) -> Result<Self, SessionError> {
        let address = Address::parse(address, P::PORT);
        let asked = Wire::connect(&address, deadline).and_then(|mut wire| Ok((P::facts(&mut wire)?, wire)));
        let (facts, wire) = asked.map_err(|fault| Self::unreachable(&address, &fault))?;
        Ok(Self {
            address,
            deadline,
            facts,
            asking: Mutex::new(Some(wire)),
            reconnects: AtomicU64::new(0),
            protocol: PhantomData,
        })
    }

    fn unreachable(address: &Address, fault: &Fault) -> SessionError {
        let is_absent = matches!(fault, Fault::Io(error)
            if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound));
        let advice =
            if is_absent { ": nothing listens there, start it or name another with --server" } else { "" };
        SessionError(format!("cannot use the {} server at {address}: {fault}{advice}", P::STORE))
    }

    /// What the server tells of itself now; none if it does not answer.
    pub fn facts(&self) -> Option<Facts> {
        let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        if asking.is_none() {
            *asking = Wire::connect(&self.address, self.deadline).ok();
        }
        let facts = P::facts(asking.as_mut()?);
        if facts.is_err() {
            *asking = None;
        }
        facts.ok()
    }
}

impl<P: Protocol> Target for Remote<P> {
    type Session<'a> = RemoteSession<'a, P>;

    fn description(&self) -> Description {
        Description {
            store: P::STORE.to_owned(),
            version: self.facts.version.clone(),
            place: format!("at {}", self.address),
            transport: match &self.address {
                Address::Tcp(_) => format!("{} over TCP, two-sided", P::NAME),
                Address::Unix(_) => format!("{} over a Unix socket, two-sided", P::NAME),
            },
            device: None,
            authority: None,
            counts_fabric: false,
        }
    }

    fn session(&self) -> Result<Self::Session<'_>, SessionError> {
        let wire = Wire::connect(&self.address, self.deadline)
            .map_err(|fault| Self::unreachable(&self.address, &fault))?;
        Ok(RemoteSession { remote: self, wire: Some(wire), failure: None })
    }

    fn server_cpu(&self) -> Option<ServerCpu> {
        Some(ServerCpu { serving: self.facts()?.cpu, upkeep: Duration::ZERO })
    }

    fn link(&self) -> Link {
        Link {
            reconnects: self.reconnects.load(Ordering::Relaxed),
            instance: self.facts().map(|facts| facts.instance),
        }
    }
}

/// One thread's connection.
#[derive(Debug)]
pub struct RemoteSession<'a, P> {
    remote: &'a Remote<P>,
    /// None once it broke.
    wire: Option<Wire>,
    failure: Option<String>,
}

impl<P: Protocol> RemoteSession<'_, P> {
    /// What `talk` comes to, over a connection that is made again if the last one broke.
    fn talk<T>(
        &mut self,
        writes: bool,
        talk: impl FnOnce(&mut Wire) -> Result<T, Fault>,
    ) -> Result<T, ErrorKind> {
        if self.wire.is_none() {
            match Wire::connect(&self.remote.address, self.remote.deadline) {
                Ok(wire) => {
                    self.wire = Some(wire);
                    self.remote.reconnects.fetch_add(1, Ordering::Relaxed);
                }
                Err(fault) => {
                    self.failure = Some(format!("cannot connect to {} again: {fault}", self.remote.address));
                    return Err(ErrorKind::Unavailable);
                }
            }
        }
        let outcome = talk(self.wire.as_mut().expect("connected above"));
        outcome.map_err(|fault| {
            self.failure = Some(format!("{} at {}: {fault}", P::STORE, self.remote.address));
            if !matches!(fault, Fault::Refusal(..)) {
                self.wire = None;
            }
            fault.kind(writes)
        })
    }
}

impl<P: Protocol> Session for RemoteSession<'_, P> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Reply {
        let answer = self.talk(false, |wire| {
            P::ask_value(key, &mut wire.out);
            wire.send()?;
            P::take_value(wire, key, value)
        });
        Reply { answer: answer.unwrap_or_else(Answer::Failed), counts: Counts::default() }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Reply {
        let stored = self.talk(true, |wire| {
            P::ask_to_store(key, value, &mut wire.out);
            wire.send()?;
            P::take_stored(wire)
        });
        let answer = stored.map_or_else(Answer::Failed, |()| Answer::Done);
        Reply { answer, counts: Counts::default() }
    }

    fn get_many(&mut self, keys: &[Vec<u8>], values: &mut [Vec<u8>], answers: &mut [Answer]) -> Counts {
        let taken = self.talk(false, |wire| {
            P::ask_values(keys, &mut wire.out);
            wire.send()?;
            P::take_values(wire, keys, values, answers)
        });
        if let Err(kind) = taken {
            answers.fill(Answer::Failed(kind));
        }
        Counts::default()
    }

    fn put_many(&mut self, keys: &[Vec<u8>], values: &[Vec<u8>], answers: &mut [Answer]) -> Counts {
        let mut refused = None;
        let taken = self.talk(true, |wire| {
            for (key, value) in keys.iter().zip(values) {
                P::ask_to_store(key, value, &mut wire.out);
            }
            wire.send()?;
            for answer in &mut *answers {
                *answer = match P::take_stored(wire) {
                    Ok(()) => Answer::Done,
                    Err(Fault::Refusal(kind, text)) => {
                        refused = Some(text);
                        Answer::Failed(kind)
                    }
                    Err(fault) => return Err(fault),
                };
            }
            Ok(())
        });
        if let Err(kind) = taken {
            answers.fill(Answer::Failed(kind));
        } else if refused.is_some() {
            self.failure = refused;
        }
        Counts::default()
    }

    /// Never called: a job that scans is refused (see [`crate::store::check_workload`]).
    fn scan(&mut self, _key: &[u8], _length: usize, _found: &mut Scanned) -> Reply {
        self.failure = Some(format!("{} has no scan that begins at a key", P::STORE));
        Reply { answer: Answer::Failed(ErrorKind::Invalid), counts: Counts::default() }
    }

    fn last_failure(&self) -> Option<String> {
        self.failure.clone()
    }
}
