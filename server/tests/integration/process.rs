//! The binary: its exit codes, its files, its signals.

use farside_protocol::wire::{Hello, PREFACE, Request, Rights, Wants};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn command(runtime: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farside-server"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env_clear().env("XDG_RUNTIME_DIR", runtime.path());
    command
}

/// A started server, killed with the test.
struct Process {
    child: Child,
    facts: serde_json::Value,
}

impl Process {
    fn start(runtime: &TempDir, arguments: &[&str]) -> Self {
        Self::start_logging_to(Stdio::piped(), runtime, arguments)
    }

    fn start_logging_to(log: Stdio, runtime: &TempDir, arguments: &[&str]) -> Self {
        let usual = ["--json", "-p", "0", "--memory", "8MiB"];
        let mut child = command(runtime, &[&usual, arguments].concat()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        Self { child, facts: serde_json::from_str(&line).unwrap() }
    }

    fn fact(&self, name: &str) -> &str {
        self.facts[name].as_str().unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end of the process; returns its code, `None` if a signal ended it.
    fn end(mut self) -> Option<i32> {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < deadline, "it has not ended in 5 s");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a server that cannot start.
fn refused(runtime: &TempDir, arguments: &[&str]) -> (i32, String) {
    let Output { status, stderr, .. } = command(runtime, arguments).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stderr).unwrap())
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn a_signal_ends_it_and_nothing_is_left() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let runtime = tempfile::tempdir().unwrap();
        let process = Process::start(&runtime, &[]);
        assert!(Path::new(process.fact("socket")).starts_with(runtime.path()));
        assert!(Path::new(process.fact("socket")).exists());
        let connection = TcpStream::connect(process.fact("address")).unwrap();
        process.signal(signal);
        assert_eq!(process.end(), Some(code));
        assert!(is_empty(runtime.path()));
        drop(connection);
    }
}

#[test]
fn the_socket_of_a_killed_server_is_replaced_and_that_of_a_live_one_is_not() {
    let runtime = tempfile::tempdir().unwrap();
    let path = runtime.path().join("own.sock");
    let arguments = ["--shm-socket", path.to_str().unwrap()];
    let killed = Process::start(&runtime, &arguments);
    killed.signal(Signal::KILL);
    assert_eq!(killed.end(), None);
    assert!(path.exists());
    let process = Process::start(&runtime, &arguments);
    let (code, message) = refused(&runtime, &[&["-p", "0"][..], &arguments].concat());
    assert_eq!(code, 1);
    assert!(message.contains("another server is listening"), "{message}");
    process.signal(Signal::TERM);
    assert_eq!(process.end(), Some(143));
    assert!(is_empty(runtime.path()));
}

#[test]
fn a_log_that_cannot_be_written_costs_nothing() {
    let full = || Stdio::from(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let (reader, gone) = std::io::pipe().unwrap();
    drop(reader);
    for log in [full(), gone.into()] {
        let runtime = tempfile::tempdir().unwrap();
        let process = Process::start_logging_to(log, &runtime, &["--threads", "2"]);
        for _ in 0..8 {
            // What is logged as a fault: both threads get some.
            let mut garbage = TcpStream::connect(process.fact("address")).unwrap();
            garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
            let _ = garbage.read_to_end(&mut Vec::new());
        }
        for _ in 0..4 {
            let mut client = TcpStream::connect(process.fact("address")).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let mut preface = [0; PREFACE.len()];
            client.read_exact(&mut preface).expect("it is served");
            assert_eq!(preface, PREFACE);
        }
        process.signal(Signal::TERM);
        assert_eq!(process.end(), Some(143));
    }
    let runtime = tempfile::tempdir().unwrap();
    let wrong = command(&runtime, &["--memory", "1"]).stderr(full()).status().unwrap();
    assert_eq!(wrong.code(), Some(2));
}

#[test]
fn a_taken_port_is_an_error() {
    let runtime = tempfile::tempdir().unwrap();
    let process = Process::start(&runtime, &[]);
    let (_, port) = process.fact("address").rsplit_once(':').unwrap();
    let (code, message) = refused(&runtime, &["-p", port, "--memory", "8MiB"]);
    assert_eq!(code, 1);
    assert!(message.contains("another program has this port"), "{message}");
}

#[test]
fn wrong_usage_is_exit_code_2_and_says_what_to_do() {
    let runtime = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = runtime.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (typo, tokens) = (file("typo.toml", "memroy = \"1GiB\""), file("tokens", "secret"));
    for (arguments, says) in [
        (&["--frobnicate"][..], "--frobnicate"),
        (&["--memory", "8KiB"], "at least"),
        (&["--memory", "lots"], "lots"),
        (&["--listen", "0.0.0.0"], "--token-file"),
        (&["--config", &typo], "did you mean `memory`?"),
        (&["--config", "/nonexistent"], "/nonexistent"),
        (&["--token-file", &tokens], "chmod 600"),
        (&["--token-file", "/nonexistent"], "/nonexistent"),
        (&["--session-lease", "1ms"], "session lease"),
        (&["--memory", "99999999999999999999"], "less than 16EiB"),
        (&["--memory", "0"], "at least 8256 bytes"),
    ] {
        let (code, message) = refused(&runtime, arguments);
        assert_eq!(code, 2, "{arguments:?}: {message}");
        assert!(message.contains(says), "{arguments:?}: {message}");
    }
}

#[test]
fn a_filter_for_the_log_that_is_none_is_wrong_usage() {
    let runtime = tempfile::tempdir().unwrap();
    let mut command = command(&runtime, &["-p", "0", "--memory", "8MiB"]);
    let output = command.env("FARSIDE_LOG", "!!nonsense[").output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("FARSIDE_LOG"), "{message}");
}

#[test]
fn absurdly_many_connections_are_no_reason_to_allow_few() {
    let runtime = tempfile::tempdir().unwrap();
    let process = Process::start(&runtime, &["--max-connections", "18446744073709551615"]);
    process.signal(Signal::TERM);
    let mut child = process;
    let log = std::io::read_to_string(child.child.stderr.take().unwrap()).unwrap();
    assert!(log.contains("ulimit -n"), "{log}");
    assert_eq!(child.end(), Some(143));
}

#[test]
fn a_table_in_a_folder_has_one_server_after_the_other_however_they_end() {
    let (runtime, shm) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
    let folder = shm.path().join("table");
    let arguments = ["--region-dir", folder.to_str().unwrap()];
    let of_table = [&["--json", "-p", "0"][..], &arguments].concat();
    for signal in [Signal::KILL, Signal::TERM, Signal::KILL] {
        let process = Process::start(&runtime, &arguments);
        let (code, message) = refused(&runtime, &of_table);
        assert_eq!(code, 1, "{message}");
        let pid = format!("by process {} (farside-server)", process.child.id());
        assert!(message.contains(&pid) || message.contains("is another server's:"), "{message}");
        process.signal(signal);
        process.end();
    }
    let (code, message) = refused(&runtime, &[&of_table[..], &["--memory", "9MiB"]].concat());
    assert_eq!(code, 2);
    assert!(message.contains("leave --memory out"), "{message}");
    let (code, message) = refused(&runtime, &[&of_table[..], &["--huge-pages", "on"]].concat());
    assert_eq!(code, 2);
    assert!(message.contains("hugetlbfs"), "{message}");
}

#[test]
fn a_path_too_long_for_a_socket_leaves_nothing() {
    let runtime = tempfile::tempdir().unwrap();
    let long = runtime.path().join("x".repeat(100));
    fs::create_dir(&long).unwrap();
    let output = command(&runtime, &["-p", "0"]).env("XDG_RUNTIME_DIR", &long).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("--shm-socket PATH"), "{message}");
    assert!(is_empty(&long));
}

#[test]
fn a_line_of_the_log_in_json_has_each_field_once() {
    let runtime = tempfile::tempdir().unwrap();
    let mut process = Process::start(&runtime, &["--log-format", "json"]);
    for (words, is_hello) in [(&b"\x01\0\0\0\x7f\0\0\0\0\0\0\0\0\0\0\0x"[..], false), (b"", true)] {
        let mut client = TcpStream::connect(process.fact("address")).unwrap();
        client.write_all(&PREFACE).unwrap();
        if is_hello {
            let hello = Hello { token: b"", rights: Rights::Read, wants: Wants::Messages, name: "test" };
            let mut frames = Vec::new();
            Request::Hello(hello).encode(1, &mut frames);
            Request::Hello(hello).encode(2, &mut frames);
            client.write_all(&frames).unwrap();
        }
        client.write_all(words).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        client.read_to_end(&mut Vec::new()).unwrap();
    }
    process.signal(Signal::TERM);
    let log = std::io::read_to_string(process.child.stderr.take().unwrap()).unwrap();
    for says in ["handshake refused", "a client sent what is no request"] {
        let line = log.lines().find(|line| line.contains(says)).unwrap_or_else(|| panic!("{says}: {log}"));
        assert_eq!(line.matches("\"message\"").count(), 1, "{line}");
        assert!(line.contains("\"reason\""), "{line}");
    }
}

#[test]
fn what_it_says_at_its_start_is_a_fact_a_line() {
    let runtime = tempfile::tempdir().unwrap();
    let process = Process::start(&runtime, &["--log-format", "json", "--huge-pages", "off", "--shards", "3"]);
    process.signal(Signal::TERM);
    let mut child = process;
    let log = std::io::read_to_string(child.child.stderr.take().unwrap()).unwrap();
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let fact =
        |name: &str| lines.iter().find_map(|line| line.get(name)).unwrap_or_else(|| panic!("{name}: {log}"));
    assert_eq!(fact("address"), child.fact("address"));
    assert_eq!(fact("socket"), child.fact("socket"));
    assert_eq!(fact("shards"), 3);
    assert_eq!(fact("pages"), "ordinary pages");
    assert_eq!(fact("authority"), "coherent");
    assert_eq!(child.end(), Some(143));
}
