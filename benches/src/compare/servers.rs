//! How each server is started: empty, with one thread, where nobody else meets it.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::CompareError;
use super::contender::{Contender, resident};
use super::process::{self, Process};
use super::spec::{Spec, Way};
use crate::cli::Compare;
use crate::plan::Plan;
use crate::signals::Stop;
use crate::target::farside::Farside;
use crate::target::remote::memcached::Memcached;
use crate::target::remote::redis::Redis;
use crate::target::remote::{Protocol, Remote};

/// Longest time that a server takes to start.
const START: Duration = Duration::from_secs(20);

/// Between two attempts to reach one that starts.
const ATTEMPT: Duration = Duration::from_millis(20);

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

/// Starts it.
pub(super) fn farside(
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

/// Starts it.
pub(super) fn redis(
    spec: Spec,
    flags: &Compare,
    folder: &Path,
    stop: &Stop,
) -> Result<Contender, CompareError> {
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

/// Starts it.
pub(super) fn memcached(
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
