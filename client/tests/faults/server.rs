//! This program as a server in a process of its own.

use farside::server::{Config, Server, Socket};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Before the address at which this program is to serve, and the path of its socket.
const SERVE: &str = "--serve";

/// Does what this program was started for by a test, if it was.
pub(crate) fn perhaps_run(arguments: &[String]) {
    if let [_, serve, address, socket] = arguments
        && serve == SERVE
    {
        serve_until_told(address, socket.into());
    }
}

/// Serves until the standard input ends, as it does when the process that started this one goes.
fn serve_until_told(address: &str, socket: PathBuf) -> ! {
    let config = Config {
        listen: address.parse().unwrap(),
        socket: Socket::At(socket),
        memory: 32 << 20,
        shards: Some(1),
        max_keys: Some(10_000),
        session_lease: Duration::from_secs(2),
        ..Config::default()
    };
    let running = Server::start(config).unwrap();
    println!("{}", running.address());
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read_line(&mut String::new());
    running.shutdown();
    std::process::exit(0);
}

/// A server that ends with this value.
pub(crate) struct Process {
    child: Child,
    address: String,
    /// Its end is the server's.
    input: Option<ChildStdin>,
    /// With the socket, which a killed server leaves behind.
    _folder: TempDir,
}

impl Process {
    /// A server on a free port.
    pub(crate) fn start() -> Self {
        Self::start_at("127.0.0.1:0")
    }

    pub(crate) fn start_at(address: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("farside.sock");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([SERVE, address, socket.to_str().unwrap()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let mut this = Self { child, address: String::new(), input, _folder: folder };
        BufReader::new(output).read_line(&mut this.address).unwrap();
        assert!(!this.address.is_empty(), "the server did not start");
        this.address.truncate(this.address.trim_end().len());
        this
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops it, and returns when each of its threads has.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        let threads = format!("/proc/{}/task", self.child.id());
        while !fs::read_dir(&threads).unwrap().all(|thread| is_stopped(&thread.unwrap().path())) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills it, and returns where it was.
    pub(crate) fn kill(mut self) -> String {
        self.signal(Signal::KILL);
        self.child.wait().unwrap();
        std::mem::take(&mut self.address)
    }
}

fn is_stopped(thread: &Path) -> bool {
    // The state follows the name, which is in parentheses.
    let stat = fs::read_to_string(thread.join("stat")).unwrap();
    stat.rsplit(')').next().unwrap().trim_start().starts_with('T')
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = kill_process(Pid::from_child(&self.child), Signal::CONT);
        let _ = self.child.wait();
    }
}
