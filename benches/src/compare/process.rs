//! Servers that live no longer than this process, however it ends.
//!
//! Each is started by a process of this same program that waits for the end of its standard input, which is a pipe from
//! here, and then kills the server. The kernel closes the pipe when this process ends, by panic, signal or otherwise.
//! Both are in a process group of their own, so that a Ctrl-C is for this process alone.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use farside::server::{Config, Server, Socket};

use crate::cli::{Guard, Serve};

/// Between two looks at a server.
const LOOK: Duration = Duration::from_millis(10);

/// What is shown of the log of a server that did not start, bytes.
const LOG_SHOWN: usize = 600;

/// A server and the process that guards it.
#[derive(Debug)]
pub struct Process {
    guard: Child,
    pipe: Option<ChildStdin>,
    log: PathBuf,
}

impl Process {
    /// Starts this program with `arguments`, which end when their standard input does; what it says goes to `log`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start<I: AsRef<OsStr>>(arguments: impl IntoIterator<Item = I>, log: &Path) -> io::Result<Self> {
        let file = File::create(log)?;
        let mut guard = Command::new(std::env::current_exe()?)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(0)
            .spawn()?;
        let pipe = guard.stdin.take();
        Ok(Self { guard, pipe, log: log.to_owned() })
    }

    /// What it said, if it has ended.
    pub fn last_words(&mut self) -> Option<String> {
        let status = self.guard.try_wait().ok()??;
        let log = std::fs::read(&self.log).unwrap_or_default();
        let shown = String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_SHOWN)..]).trim().to_owned();
        Some(if shown.is_empty() { status.to_string() } else { shown })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.pipe.take();
        // One that does not end by itself is ended below; there is nobody to tell.
        let _ = self.guard.wait();
    }
}

/// The program of one of these names that is on the search path.
#[must_use]
pub fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names
        .iter()
        .find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|program| program.is_file()))
}

/// A port of the loopback address that was free just now.
///
/// # Errors
/// If there is none.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Waits on a thread for the end of the standard input.
fn until_input_ends() -> thread::JoinHandle<()> {
    thread::spawn(|| {
        let mut nothing = [0; 64];
        while io::stdin().lock().read(&mut nothing).is_ok_and(|read| read > 0) {}
    })
}

/// Runs a server until it ends, or the standard input does.
///
/// # Errors
/// If it cannot be started.
pub fn guard(Guard { program }: &Guard) -> io::Result<ExitCode> {
    let [program, arguments @ ..] = &program[..] else { return Ok(ExitCode::FAILURE) };
    let mut server = Command::new(program).args(arguments).stdin(Stdio::null()).spawn()?;
    let input = until_input_ends();
    loop {
        if server.try_wait()?.is_some() {
            return Ok(ExitCode::FAILURE);
        }
        if input.is_finished() {
            server.kill()?;
            server.wait()?;
            return Ok(ExitCode::SUCCESS);
        }
        thread::sleep(LOOK);
    }
}

/// Runs a Farside server until the standard input ends.
///
/// # Errors
/// If it cannot be started.
pub fn serve(flags: &Serve) -> io::Result<ExitCode> {
    let server = Server::start(Config {
        listen: flags.listen,
        socket: Socket::At(flags.socket.clone()),
        memory: Some(flags.memory),
        max_keys: Some(flags.max_keys),
        threads: Some(1),
        ..Config::default()
    })
    .map_err(io::Error::other)?;
    // It cannot panic, and if it did the input would be over too.
    let _ = until_input_ends().join();
    server.shutdown();
    Ok(ExitCode::SUCCESS)
}

/// The arguments that run `program` under guard.
#[must_use]
pub fn guarded(program: &Path, arguments: &[OsString]) -> Vec<OsString> {
    ["guard", "--"]
        .map(OsString::from)
        .into_iter()
        .chain([program.into()])
        .chain(arguments.iter().cloned())
        .collect()
}
