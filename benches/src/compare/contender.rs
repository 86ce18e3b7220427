//! A store that takes part: started, empty, to be measured.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::CompareError;
use super::process::{self, Process};
use super::spec::{Spec, Way};
use crate::cli::{Compare, Db};
use crate::plan::Plan;
use crate::run::clock::MonotonicClock;
use crate::run::collector::Observer;
use crate::run::phase::Phase;
use crate::run::{self, Outcome, PhaseError};
use crate::signals::Stop;
use crate::store;
use crate::target::farside::Farside;
use crate::target::papaya::Papaya;
use crate::target::remote::memcached::Memcached;
use crate::target::remote::redis::Redis;
use crate::target::remote::{Protocol, Remote};
use crate::target::{Description, Target};

/// Longest time that a server takes to start.
const START: Duration = Duration::from_secs(20);

/// Between two attempts to reach one that starts.
const ATTEMPT: Duration = Duration::from_millis(20);

/// A target of any type.
trait Measured {
    fn description(&self) -> Description;

    fn run(
        &self,
        phase: &Phase<'_>,
        clock: &MonotonicClock,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, PhaseError>;
}

impl<T: Target> Measured for Arc<T> {
    fn description(&self) -> Description {
        T::description(self)
    }

    fn run(
        &self,
        phase: &Phase<'_>,
        clock: &MonotonicClock,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, PhaseError> {
        run::run(&**self, phase, clock, stop, observer)
    }
}

/// A store that takes part. It goes, with its server, when this is dropped.
pub struct Contender {
    /// What it was called.
    pub spec: Spec,
    /// How its server was started, for people.
    pub started: String,
    /// Whether its memory is that of its records, and not of a process with all else that is in it.
    pub counts_its_own: bool,
    /// Of what its memory is measured, for people.
    pub memory_of: &'static str,
    // Before the server, of which they take leave.
    target: Box<dyn Measured>,
    memory: Box<dyn Fn() -> Option<u64>>,
    _server: Option<Process>,
}

impl Contender {
    /// Starts it, empty, with what it keeps in `folder`.
    ///
    /// # Errors
    /// If it does not start, or a signal comes first.
    pub fn start(
        spec: Spec,
        plan: &Plan,
        flags: &Compare,
        folder: &Path,
        stop: &Stop,
    ) -> Result<Self, CompareError> {
        match spec.db {
            Db::Papaya => Ok(Self::here(spec, Papaya::new())),
            #[cfg(feature = "lmdb")]
            Db::Lmdb => Ok(Self::here(spec, store::lmdb(plan).map_err(Box::new)?)),
            #[cfg(not(feature = "lmdb"))]
            Db::Lmdb => Err(store::StoreError::NotBuilt.into()),
            Db::Farside => farside(spec, plan, flags, folder, stop),
            Db::Redis => redis(spec, flags, folder, stop),
            Db::Memcached => memcached(spec, plan, flags, folder, stop),
        }
    }

    fn here<T: Target + 'static>(spec: Spec, target: T) -> Self {
        Self {
            spec,
            started: "a part of this process".to_owned(),
            counts_its_own: false,
            memory_of: "growth of this process",
            target: Box::new(Arc::new(target)),
            memory: Box::new(|| resident("self")),
            _server: None,
        }
    }

    /// The store and the way to it.
    #[must_use]
    pub fn description(&self) -> Description {
        self.target.description()
    }

    /// Bytes that it uses now, if that can be told.
    #[must_use]
    pub fn memory(&self) -> Option<u64> {
        (self.memory)()
    }

    /// Runs a phase on it.
    ///
    /// # Errors
    /// As [`run::run`].
    pub fn run(
        &self,
        phase: &Phase<'_>,
        clock: &MonotonicClock,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, PhaseError> {
        self.target.run(phase, clock, stop, observer)
    }
}

/// Starts the server that `arguments` of this program run, and waits until `connect` reaches it.
fn start<T>(
    spec: Spec,
    arguments: &[OsString],
    folder: &Path,
    stop: &Stop,
    connect: impl Fn() -> Result<T, String>,
) -> Result<(T, Process), CompareError> {
    let failed = |why: String| CompareError::Start { spec, why };
    let log = folder.join("log");
    let mut server = Process::start(arguments, &log).map_err(|error| failed(error.to_string()))?;
    let began = Instant::now();
    loop {
        if stop.signal().is_some() {
            return Err(CompareError::Interrupted);
        }
        let reached = connect();
        if let Some(said) = server.last_words() {
            return Err(failed(said));
        }
        match reached {
            Ok(target) => return Ok((target, server)),
            Err(error) if began.elapsed() > START => return Err(failed(error)),
            Err(_) => std::thread::sleep(ATTEMPT),
        }
    }
}

fn farside(
    spec: Spec,
    plan: &Plan,
    flags: &Compare,
    folder: &Path,
    stop: &Stop,
) -> Result<Contender, CompareError> {
    let address = format!("127.0.0.1:{}", process::free_port()?);
    let memory = plan.table_memory()?;
    let keys = plan.workload.records.saturating_add(plan.workload.expected_inserts());
    let arguments = [
        "serve".into(),
        "--listen".into(),
        address.clone().into(),
        "--socket".into(),
        folder.join("farside.sock").into(),
        "--memory".into(),
        memory.to_string().into(),
        "--max-keys".into(),
        keys.to_string().into(),
    ];
    let transport = match spec.way {
        Way::Shm => farside::TransportChoice::Shm,
        _ => farside::TransportChoice::Tcp,
    };
    let (target, server) = start(spec, &arguments, folder, stop, || {
        let client =
            farside::Client::builder().transport(transport).deadline(flags.deadline).name("farside-bench");
        let client = match flags.hint_memory {
            Some(memory) => client.hint_memory(usize::try_from(memory.as_u64()).unwrap_or(usize::MAX)),
            None => client,
        };
        Farside::connect(client.address(&address)).map_err(|error| error.to_string())
    })?;
    let target = Arc::new(target);
    let asked = Arc::clone(&target);
    Ok(Contender {
        spec,
        started: format!("1 server thread, {} MiB", memory >> 20),
        counts_its_own: true,
        memory_of: "records and index",
        target: Box::new(target),
        memory: Box::new(move || asked.memory()),
        _server: Some(server),
    })
}

fn redis(spec: Spec, flags: &Compare, folder: &Path, stop: &Stop) -> Result<Contender, CompareError> {
    let (address, mut arguments) = match spec.way {
        Way::Unix => {
            let socket = folder.join("redis.sock");
            let arguments = vec!["--port".into(), "0".into(), "--unixsocket".into(), socket.clone().into()];
            (format!("unix:{}", socket.display()), arguments)
        }
        _ => {
            let port = process::free_port()?.to_string();
            (format!("127.0.0.1:{port}"), words(&["--bind", "127.0.0.1", "--port", &port]))
        }
    };
    arguments.extend(words(&["--save", "", "--appendonly", "no", "--io-threads", "1", "--dir"]));
    arguments.push(folder.into());
    remote::<Redis>(spec, "1 thread, nothing saved", &address, &arguments, flags, folder, stop)
}

fn memcached(
    spec: Spec,
    plan: &Plan,
    flags: &Compare,
    folder: &Path,
    stop: &Stop,
) -> Result<Contender, CompareError> {
    let (address, mut arguments) = match spec.way {
        Way::Unix => {
            let socket = folder.join("memcached.sock");
            (format!("unix:{}", socket.display()), vec!["-s".into(), socket.into()])
        }
        _ => {
            let port = process::free_port()?.to_string();
            (format!("127.0.0.1:{port}"), words(&["-l", "127.0.0.1", "-p", &port]))
        }
    };
    // Its user matters to root alone, as whom it does not run unasked. Without room it is to fail, not to drop records.
    let megabytes = ((plan.table_memory()? >> 20) * 2).max(64).to_string();
    arguments.extend(words(&["-t", "1", "-u", "root", "-c", "2048", "-M", "-m", &megabytes]));
    let started = format!("1 worker thread, {megabytes} MiB, no eviction");
    remote::<Memcached>(spec, &started, &address, &arguments, flags, folder, stop)
}

fn remote<P: Protocol>(
    spec: Spec,
    started: &str,
    address: &str,
    arguments: &[OsString],
    flags: &Compare,
    folder: &Path,
    stop: &Stop,
) -> Result<Contender, CompareError> {
    let program = process::find(spec.programs).ok_or(CompareError::Missing(spec))?;
    let guarded = process::guarded(&program, arguments);
    let (target, server) = start(spec, &guarded, folder, stop, || {
        Remote::<P>::connect(address, flags.deadline).map_err(|error| error.to_string())
    })?;
    let pid = target.facts().and_then(|facts| facts.pid);
    Ok(Contender {
        spec,
        started: started.to_owned(),
        counts_its_own: false,
        memory_of: "growth of its process",
        target: Box::new(Arc::new(target)),
        memory: Box::new(move || resident(&pid?.to_string())),
        _server: Some(server),
    })
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// Whether what `spec` needs is there.
///
/// # Errors
/// If not.
pub fn check(spec: Spec, plan: &Plan) -> Result<(), CompareError> {
    store::check_workload(plan, spec.db)?;
    if !spec.programs.is_empty() && process::find(spec.programs).is_none() {
        return Err(CompareError::Missing(spec));
    }
    Ok(())
}

/// Bytes of memory of a process, by its number.
fn resident(pid: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_process_is_told() {
        assert!(resident("self").is_some_and(|bytes| bytes > 1 << 20));
        assert_eq!(resident("nobody"), None);
    }
}
