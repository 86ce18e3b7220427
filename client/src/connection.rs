//! An open session with a server: its channel, and over shared memory its shards.

use crate::core::{Arrival, Inbox, Leased, Link, OneSided, Refusal, Report};
use crate::error::{Error, Result};
use crate::task::Deadline;
use farside_protocol::wire::{Request, Response, Rights, ScanPosition, Welcome};
use farside_protocol::{Class, ErrorKind, KeyHash, SlotIndex};
use farside_transport::channel::{Answer, CallError, Channel, IoThread};
use farside_transport::selection::Active;
use farside_transport::shm::Shm;
use farside_transport::verbs::Connector;
use farside_transport::{Capabilities, Fabric as _};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The deadline of requests that nobody waits for. A lease that was given after the client stopped waiting for it
/// would be lost to both until the session ends.
const UNATTENDED: Duration = Duration::from_secs(3600);

/// How long the end of a connection waits for the server to have taken what it was told last.
const PARTING: Duration = Duration::from_millis(250);

/// How a server's memory is reached.
pub(crate) enum Attached {
    /// It is mapped.
    Shm(Shm),
    /// Each core connects a queue pair.
    Verbs(Arc<Connector>),
}

impl Attached {
    pub(crate) fn capabilities(&self) -> Capabilities {
        match self {
            Self::Shm(shm) => shm.capabilities(),
            Self::Verbs(connector) => connector.capabilities(),
        }
    }

    #[inline]
    fn is_intact(&self) -> bool {
        match self {
            Self::Shm(shm) => shm.is_intact(),
            Self::Verbs(connector) => connector.is_intact(),
        }
    }
}

/// A server within reach.
pub(crate) struct Reach {
    /// Its memory, unless only its CPU can be asked.
    pub(crate) memory: Option<Attached>,
    pub(crate) channel: Channel,
    /// Why there is not a better transport, for each that there might have been.
    pub(crate) why_not: Vec<String>,
}

/// Fields in the order in which they go: the memory is unmapped before the channel closes.
pub(crate) struct Connection {
    memory: Option<Attached>,
    /// Why another session is to be opened, once a queue pair has failed.
    failed: OnceLock<String>,
    active: Active,
    welcome: Arc<Welcome>,
    address: Box<str>,
    /// Whether the server was told something that nobody waits for.
    reported: AtomicBool,
    channel: Arc<Channel>,
    thread: Arc<IoThread>,
}

impl Connection {
    pub(crate) fn new(reach: Reach, active: Active, address: Box<str>, thread: Arc<IoThread>) -> Self {
        let Reach { memory, channel, .. } = reach;
        let (welcome, channel) = (channel.welcome(), Arc::new(channel));
        let (failed, reported) = (OnceLock::new(), AtomicBool::new(false));
        Self { memory, failed, active, welcome, address, reported, channel, thread }
    }

    /// Whether it reaches the server's memory.
    pub(crate) fn reaches_memory(&self) -> bool {
        self.memory.is_some()
    }

    /// The one-sided half of a core, if this connection reaches the memory. While a queue pair connects this `waits`, or
    /// there is none yet; if that fails the connection is broken.
    pub(crate) fn one_sided(&self, hint_bytes: usize, waits: bool) -> Option<OneSided> {
        let link = match self.memory.as_ref()? {
            Attached::Shm(shm) => Link::over_shm(shm.clone()),
            Attached::Verbs(connector) => {
                match if waits { connector.open().map(Some) } else { connector.open_soon() } {
                    Ok(verbs) => Link::over_verbs(verbs?),
                    Err(error) => {
                        self.fail(error.to_string());
                        return None;
                    }
                }
            }
        };
        Some(OneSided::new(link, &self.welcome.shards, self.welcome.memory_rights, hint_bytes))
    }

    /// Whether it is known to be broken for good. (Where only the CPU is asked the channel connects anew by itself.)
    #[inline]
    pub(crate) fn is_broken(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| !memory.is_intact()) || self.failed.get().is_some()
    }

    /// Notes that a queue pair of it failed.
    #[cold]
    pub(crate) fn fail(&self, why: String) {
        // The first to fail says why.
        let _ = self.failed.set(why);
    }

    /// How often its channel connected anew.
    pub(crate) fn reconnects(&self) -> u64 {
        self.channel.reconnects()
    }

    #[inline]
    pub(crate) fn may_update(&self) -> bool {
        self.welcome.rights == Rights::ReadWrite
    }

    /// Which table it leads to: a server that was restarted has another one.
    pub(crate) fn table_id(&self) -> u128 {
        self.welcome.shards[0].table_id
    }

    /// Where `key` belongs in the table: its home line.
    pub(crate) fn place_of(&self, key: &[u8]) -> ScanPosition {
        let shards = &self.welcome.shards;
        let hash = KeyHash::of(key, shards[0].seed);
        let shard = hash.shard(shards.len());
        let geometry = shards[shard].geometry;
        let SlotIndex(slot) = geometry.window(hash.home_line(geometry.lines()));
        ScanPosition { shard: shard as u32, slot }
    }

    pub(crate) fn active(&self) -> &Active {
        &self.active
    }

    /// Sends a request, at once and not when the future is polled, and returns its answer.
    pub(crate) fn call(
        &self,
        request: &Request<'_>,
        deadline: &Deadline,
    ) -> impl Future<Output = Result<Answer, CallError>> + use<> {
        self.channel.call(request, deadline.instant())
    }

    /// Asks for `count` blocks of `class` to be written by `queue_pair`, which come to `inbox`.
    pub(crate) fn lease(
        self: &Arc<Self>,
        shard: usize,
        class: Class,
        count: u16,
        queue_pair: u32,
        inbox: &Arc<Inbox>,
    ) {
        let request = Request::Lease { shard: shard as u32, class, queue_pair, count };
        let call = self.channel.call(&request, Instant::now() + UNATTENDED);
        let (inbox, channel) = (Arc::clone(inbox), Arc::downgrade(&self.channel));
        self.thread.spawn(async move {
            let leased = leased(call.await);
            if let Err(Arrival { leased: Ok(Leased { lives: returned, .. }), .. }) =
                inbox.put(Arrival { shard, class, leased })
                && let Some(channel) = channel.upgrade()
            {
                post(&channel, Report { shard, returned, ..Report::default() });
            }
        });
    }

    /// Tells the server about blocks.
    pub(crate) fn report(&self, report: Report) {
        self.reported.store(true, Ordering::Relaxed);
        post(&self.channel, report);
    }

    /// The connection is known to be broken.
    pub(crate) fn gone(&self) -> Error {
        Error::Unavailable {
            address: self.address.clone(),
            reason: format!(
                "the connection broke{}, and there was no other by the deadline; is the server running?",
                self.failed.get().map(|why| format!(" ({why})")).unwrap_or_default()
            )
            .into(),
        }
    }

    /// What a failed call means for its operation.
    pub(crate) fn call_error(&self, error: CallError, deadline: &Deadline) -> Error {
        match error {
            CallError::Answered { kind, message } => Error::Server { kind, message },
            // It waited for a connection, and not for the server.
            CallError::Deadline(_) if !self.channel.is_up() => self.gone(),
            CallError::Deadline(_) => deadline.error(),
            CallError::Indeterminate { cause } => Error::Indeterminate((*cause).into()),
            CallError::Unavailable { cause } => {
                Error::Unavailable { address: self.address.clone(), reason: (*cause).into() }
            }
            CallError::TooLarge(error) => Error::Size(error),
            error @ (CallError::Malformed(_) | CallError::TooManyBlocks(_)) => Error::Rejected {
                kind: error.kind(),
                address: self.address.clone(),
                reason: error.to_string().into(),
            },
        }
    }

    /// The server's answer belongs to another request.
    pub(crate) fn nonsense(&self) -> Error {
        Error::Rejected {
            kind: ErrorKind::Incompatible,
            address: self.address.clone(),
            reason: "the server's answer does not belong to the request; use builds of the same version"
                .into(),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.reported.load(Ordering::Relaxed) && !self.is_broken() {
            // Answers come in order: with this one the reports have been taken. If it does not come the server
            // finds out by itself.
            let _ = self.channel.call_blocking(&Request::Ping, Instant::now() + PARTING);
        }
    }
}

/// What is not reported the server finds out when the session ends, or in its sweep.
fn post(channel: &Channel, report: Report) {
    let Report { shard, published, retired, returned } = report;
    let request = Request::Report { shard: shard as u32, published, retired, returned };
    let _ = channel.post(&request, Instant::now() + UNATTENDED);
}

fn leased(outcome: Result<Answer, CallError>) -> Result<Leased, Refusal> {
    let answer = outcome.map_err(|error| match error {
        CallError::Answered { kind: ErrorKind::Refused, .. } => Refusal::TooMany,
        CallError::Answered { kind, message } => Refusal::Failed(Error::Server { kind, message }),
        // Who needs a block finds the connection broken, or asks again.
        _ => Refusal::Later(Duration::from_millis(1)),
    })?;
    match answer.response() {
        Ok(Response::Leased { lives, keys, .. }) if !lives.is_empty() => Ok(Leased { lives, keys }),
        Ok(Response::Leased { retry_ms: 0, .. }) => Err(Refusal::Full),
        Ok(Response::Leased { retry_ms, .. }) => Err(Refusal::Later(Duration::from_millis(retry_ms.into()))),
        _ => Err(Refusal::Failed(Error::Server {
            kind: ErrorKind::Incompatible,
            message: "the answer to a request for blocks makes no sense".into(),
        })),
    }
}
