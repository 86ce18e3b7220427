//! This program as a server in a process of its own.

use crate::rdma;
use crate::ways::Way;
use farside::server::{Config, Server, Socket};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Before the address at which this program is to serve, the path of its socket, the address of its RDMA device or
/// nothing, the milliseconds of a session's lease, and the folder of its table or nothing.
const SERVE: &str = "--serve";

/// Before why there is no server, in place of its address.
const REFUSED: char = '!';

const FREE_PORT: &str = "127.0.0.1:0";
const LEASE: Duration = Duration::from_secs(10);

/// Does what this program was started for by a test, if it was.
pub(crate) fn perhaps_run(arguments: &[String]) {
    if let [_, serve, address, socket, rdma, lease_ms, region_dir] = arguments
        && serve == SERVE
    {
        let rdma = (!rdma.is_empty()).then(|| SocketAddr::new(rdma.parse().unwrap(), 0));
        let memory_windows = rdma.is_some() && rdma::memory_windows();
        let session_lease = Duration::from_millis(lease_ms.parse().unwrap());
        serve_until_told(
            address,
            Config {
                socket: Socket::At(socket.into()),
                rdma,
                memory_windows,
                session_lease,
                region_dir: (!region_dir.is_empty()).then(|| region_dir.into()),
                ..Config::default()
            },
        );
    }
}

/// Serves until the standard input ends, as it does when the process that started this one goes.
fn serve_until_told(address: &str, config: Config) -> ! {
    let config = Config {
        listen: address.parse().unwrap(),
        memory: Some(32 << 20),
        shards: Some(1),
        max_keys: Some(10_000),
        ..config
    };
    let running = match Server::start(config) {
        Ok(running) => running,
        Err(error) => {
            println!("{REFUSED}{error}");
            std::process::exit(1);
        }
    };
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
    /// A server on a free port, for clients that come by `way`.
    pub(crate) fn start(way: Way) -> Self {
        Self::spawn(way, FREE_PORT, LEASE, None)
    }

    pub(crate) fn start_at(way: Way, address: &str) -> Self {
        Self::spawn(way, address, LEASE, None)
    }

    /// A server whose table lies in the folder `region_dir`; at a free port if `address` is `None`.
    pub(crate) fn start_on(way: Way, address: Option<&str>, region_dir: &Path) -> Self {
        Self::spawn(way, address.unwrap_or(FREE_PORT), LEASE, Some(region_dir))
    }

    /// A server that ends sessions when they have been silent for `lease`.
    pub(crate) fn start_with_lease(way: Way, lease: Duration) -> Self {
        Self::spawn(way, FREE_PORT, lease, None)
    }

    fn spawn(way: Way, address: &str, lease: Duration, region_dir: Option<&Path>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("farside.sock");
        let device = way.device().map(|device| device.to_string()).unwrap_or_default();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([SERVE, address, socket.to_str().unwrap(), &device, &lease.as_millis().to_string()])
            .arg(region_dir.unwrap_or(Path::new("")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let mut this = Self { child, address: String::new(), input, _folder: folder };
        BufReader::new(output).read_line(&mut this.address).unwrap();
        assert!(
            !this.address.is_empty() && !this.address.starts_with(REFUSED),
            "no server: {}",
            this.address
        );
        this.address.truncate(this.address.trim_end().len());
        this
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Stops it, and returns when each of its threads has.
    pub(crate) fn stop(&self) {
        stop(&self.child);
    }

    pub(crate) fn go_on(&self) {
        signal(&self.child, Signal::CONT);
    }

    /// Kills it, and returns where it was.
    pub(crate) fn kill(mut self) -> String {
        signal(&self.child, Signal::KILL);
        self.child.wait().unwrap();
        std::mem::take(&mut self.address)
    }
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Stops a process, and returns when each of its threads has.
pub(crate) fn stop(child: &Child) {
    signal(child, Signal::STOP);
    let threads = format!("/proc/{}/task", child.id());
    while !fs::read_dir(&threads).unwrap().all(|thread| is_stopped(&thread.unwrap().path())) {
        thread::sleep(Duration::from_millis(1));
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
