//! `farside-server`: starts a server and runs it until a signal ends it.
#![forbid(unsafe_code)]
// They panic when their stream is gone.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod settings;

use clap::Parser;
use farside_server::{RegionError, Running, Server, StartError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use settings::{Cli, LogFormat, Settled};
use std::env::VarError;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

const FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;
/// By convention a program that a signal ended reports 128 and the signal's number.
const BY_SIGNAL: u8 = 128;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let json = cli.json;
    let Settled { mut config, device, log_format } = match cli.settle() {
        Ok(settled) => settled,
        Err(error) => return complain(&error, WRONG_USAGE),
    };
    let filter = match log_filter() {
        Ok(filter) => filter,
        Err(error) => {
            say(format_args!("FARSIDE_LOG is wrong: {error}; write for instance `debug` or `warn`"));
            return ExitCode::from(WRONG_USAGE);
        }
    };
    log_to_stderr(log_format, filter);
    if let Some(device) = device {
        match device.address() {
            Ok(address) => config.rdma = Some((address, 0).into()),
            Err(error) => return complain(&StartError::Rdma(error), FAILED),
        }
    }
    let signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return complain(&error, FAILED),
    };
    allow_connections(config.max_connections);
    let running = match Server::start(config) {
        Ok(running) => running,
        Err(error @ (StartError::Config(_) | StartError::Region(RegionError::Contradiction { .. }))) => {
            return complain(&error, WRONG_USAGE);
        }
        Err(error) => return complain(&error, FAILED),
    };
    if json && let Err(error) = print_facts(&running) {
        return complain(&error, FAILED);
    }
    let signal = signals.wait(running.failed());
    match signal {
        Some(number) => tracing::info!(signal = number, "ending"),
        None => say("a thread of the server panicked, which is a defect: the server ends"),
    }
    running.shutdown();
    ExitCode::from(signal.map_or(FAILED, |number| BY_SIGNAL + number))
}

fn complain(error: &dyn std::error::Error, code: u8) -> ExitCode {
    say(error);
    ExitCode::from(code)
}

/// Tells the user, or nobody if the standard error is gone.
fn say(what: impl Display) {
    let _ = writeln!(io::stderr(), "farside-server: {what}");
}

fn log_filter() -> Result<EnvFilter, Box<dyn std::error::Error>> {
    match std::env::var("FARSIDE_LOG") {
        Ok(text) if !text.is_empty() => Ok(EnvFilter::try_new(text)?),
        Ok(_) | Err(VarError::NotPresent) => Ok(EnvFilter::new("info")),
        Err(error) => Err(error.into()),
    }
}

fn log_to_stderr(format: LogFormat, filter: EnvFilter) {
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(io::stderr().is_terminal())
        // It would report a log that cannot be written to the same place, and panic when that fails too.
        .log_internal_errors(false)
        .with_writer(io::stderr);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}

/// Raises this process's limit of descriptors as far as it may, for so many connections and what else there is.
fn allow_connections(connections: usize) {
    let needed = (connections as u64).saturating_add(256);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return;
    }
    let current = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limit });
    if raised.is_err() || current < needed {
        tracing::warn!(
            needed,
            "this process may open fewer files than --max-connections asks for; raise `ulimit -n`"
        );
    }
}

fn print_facts(running: &Running) -> io::Result<()> {
    let facts = serde_json::json!({
        "address": running.address().to_string(),
        "socket": running.socket(),
        "metrics": running.metrics_address().map(|address| address.to_string()),
        "pid": std::process::id(),
        "version": env!("CARGO_PKG_VERSION"),
    });
    writeln!(io::stdout().lock(), "{facts}")
}

/// The signals that end the server, caught from before it starts, so that none leaves files behind.
struct Signals {
    runtime: tokio::runtime::Runtime,
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let entered = runtime.enter();
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        drop(entered);
        Ok(Self { runtime, interrupt, terminate })
    }

    /// Blocks until one comes, and returns its number; `None`: `failed` came first.
    fn wait(mut self, failed: impl Future<Output = ()>) -> Option<u8> {
        let signal = self.runtime.block_on(async {
            tokio::select! {
                _ = self.interrupt.recv() => Some(SignalKind::interrupt()),
                _ = self.terminate.recv() => Some(SignalKind::terminate()),
                () = failed => None,
            }
        });
        signal.map(|signal| signal.as_raw_value() as u8)
    }
}
