//! The `farside` command: what it prints, and its exit codes.

use crate::ways::Way;
use farside::{Embedded, Session};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

struct Shell {
    farside: Embedded,
    transport: &'static str,
}

impl Shell {
    fn new(transport: &'static str) -> Self {
        Self { farside: Way::Shm.start(), transport }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_farside"));
        command.env("FARSIDE_SERVER", self.farside.address()).env("FARSIDE_TRANSPORT", self.transport);
        command
    }

    fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Run {
        Run::of(self.command().args(arguments).output().unwrap())
    }

    fn words(&self, line: &str) -> Run {
        self.run(line.split_whitespace())
    }

    fn run_with_input(&self, line: &str, input: &[u8]) -> Run {
        let mut command = self.command();
        command.args(line.split_whitespace());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        Run::of(child.wait_with_output().unwrap())
    }
}

#[derive(Debug)]
struct Run {
    code: Option<i32>,
    out: Vec<u8>,
    err: String,
}

impl Run {
    fn of(output: Output) -> Self {
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        Self { code: output.status.code(), out: output.stdout, err }
    }

    /// The output of a run that ended well and had nothing to complain of.
    fn ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{self:?}");
        String::from_utf8(self.out).unwrap()
    }

    fn json(self) -> serde_json::Value {
        serde_json::from_slice(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Checks the exit code and that the standard error says `says`.
    fn fails(self, code: i32, says: &str) {
        assert!(self.code == Some(code) && self.err.contains(says), "{code}, {says}: {self:?}");
    }
}

#[test]
fn what_cannot_be_told_is_told_by_the_exit_code() {
    let shell = Shell::new("tcp");
    for (line, code) in [("get nothing", 1), ("--server 127.0.0.1:1 get k", 1), ("bogus", 2)] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let status = shell.command().args(line.split_whitespace()).stderr(full).status().unwrap();
        assert_eq!(status.code(), Some(code), "{line}");
    }
}

#[test]
fn values_go_in_and_come_out_as_they_are() {
    for transport in ["shm", "tcp"] {
        let shell = Shell::new(transport);
        assert_eq!(shell.words("put k v").ok(), "");
        assert_eq!(shell.words("get k").ok(), "v");

        let binary: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        assert_eq!(shell.run_with_input("put binary -", &binary).ok(), "");
        assert_eq!(shell.words("get binary").out, binary);
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::write(&from, &binary[7..]).unwrap();
        assert_eq!(shell.words(&format!("put file --file {}", from.display())).ok(), "");
        assert_eq!(shell.words(&format!("get file --out {}", to.display())).ok(), "");
        assert_eq!(fs::read(&to).unwrap(), &binary[7..]);

        let key = OsStr::from_bytes(b"\xff key");
        assert_eq!(shell.run([OsStr::new("put"), key, OsStr::new("")]).ok(), "");
        assert_eq!(shell.run([OsStr::new("get"), key]).ok(), "");
    }
}

#[test]
fn versions_guard_changes() {
    let shell = Shell::new("auto");
    shell.words("put k one").ok();
    let first = shell.words("get k --version").ok().trim().to_owned();
    assert_eq!(first.len(), 16);
    let second = shell.words(&format!("cas k {first} two")).ok().trim().to_owned();
    assert_eq!(second, shell.words("get k --version").ok().trim());
    shell.words(&format!("cas k {first} three")).fails(1, &second);
    shell.words(&format!("cas none {first} three")).fails(1, "is absent");
    shell.words(&format!("del k --if-version {first}")).fails(1, &second);
    shell.words("put k x --if-absent").fails(1, "has a value already");
    assert_eq!(shell.words("get k").ok(), "two");
    assert_eq!(shell.words("del k none").ok(), "");
    shell.words("get k").fails(1, "no value under the key k");
    assert_eq!(shell.words("put k x --if-absent --ttl 1h").ok(), "");
}

#[test]
fn json_is_for_programs() {
    let shell = Shell::new("auto");
    let put = shell.words("put k v --json").json();
    let get = shell.words("--json get k").json();
    assert_eq!(get["value"], serde_json::json!({"base64": "dg==", "text": "v"}));
    assert_eq!((&get["found"], &get["version"]), (&true.into(), &put["version"]));
    assert_eq!(shell.words("--json get none").json()["found"], false);
    assert_eq!(shell.words("--json incr n 5").json()["counter"], 5);
    assert_eq!(shell.words("get n --json").json()["counter"], 5);
    assert!(shell.words("--json stats").json().as_object().unwrap().len() > 5);
    let ping = shell.words("--json ping -c 3 --interval 1ms").json();
    assert_eq!((&ping["pings"], &ping["failed"]), (&3.into(), &0.into()));
    let doctor = shell.words("--json doctor").json();
    assert!(doctor["checks"].as_array().unwrap().iter().any(|check| check["name"] == "memfd"));
    let error = shell.words("--json incr k").json();
    assert_eq!(error["error"], "invalid");
}

#[test]
fn counters_count() {
    let shell = Shell::new("tcp");
    assert_eq!(shell.words("incr n").ok(), "1\n");
    assert_eq!(shell.words("incr n -5").ok(), "-4\n");
    shell.words("put text abc").ok();
    shell.words("incr text").fails(1, "counter");
    shell.words("incr n 9223372036854775807").ok();
    shell.words("incr n 9223372036854775807").fails(1, "range of a signed 64-bit integer");
}

#[test]
fn a_scan_prints_keys() {
    let shell = Shell::new("shm");
    assert_eq!(shell.words("scan").ok(), "");
    for key in ["user:1", "user:2", "stock:1"] {
        shell.run(["put", key, "two\nlines"]).ok();
    }
    let mut users: Vec<_> = shell.words("scan user:").ok().lines().map(String::from).collect();
    users.sort();
    assert_eq!(users, ["user:1", "user:2"]);
    assert_eq!(shell.words("scan stock --values").ok(), "stock:1\ttwo\\nlines\n");
    assert_eq!(shell.words("scan --max 2").ok().lines().count(), 2);
    assert!(shell.words("scan --at user:1").ok().contains("user:1\n"));
    shell.run(["scan", "--at", ""]).fails(2, "the key is empty");
    let found = shell.words("--json scan stock --values").json();
    assert_eq!((&found["key"]["text"], &found["value"]["text"]), (&"stock:1".into(), &"two\nlines".into()));
}

#[test]
fn what_is_active_is_told() {
    let shell = Shell::new("auto");
    let stats = shell.words("stats").ok();
    assert!(stats.starts_with("transport") && stats.contains("shm at ") && stats.contains("farside_keys"));
    let ping = shell.words("ping -c 2 --interval 1ms --transport tcp").ok();
    assert!(ping.contains("transport tcp at ") && ping.contains("2 pings, 0 failed\nround trip in us: min "));
    let doctor = shell.words("doctor").ok();
    assert!(doctor.contains("this transport is not in this build"), "{doctor}");
    assert!(doctor.contains("ok    server         shm at "), "{doctor}");
}

#[test]
fn bad_input_says_what_is_wrong_and_what_to_do() {
    let shell = Shell::new("auto");
    shell.run(["get", ""]).fails(2, "the key is empty; a key has 1 to 4096 bytes");
    let long = "k".repeat(4097);
    shell.run(["get", &long]).fails(2, "the key has 4097 bytes");
    shell.run(["put", &long, "v"]).fails(2, "the key has 4097 bytes");
    shell.run(["put", &long[1..], "v"]).ok();
    shell.run_with_input("put k -", &vec![0; (16 << 20) + 1]).fails(2, "longer than 16777216 bytes");
    shell.words("put k --file /nonexistent/file").fails(2, "/nonexistent/file");
    shell.words("get k --out /nonexistent/file").fails(1, "no value under the key k");
    shell.words("put k v").ok();
    shell.words("get k --out /nonexistent/file").fails(1, "cannot write /nonexistent/file");
    shell.words("--server 127.0.0.1:1 get k").fails(1, "start farside-server");
    shell.words("--server host:port get k").fails(2, "a port is a number");
    shell.words("--server a,b get k").fails(2, "this build takes the address of one");
    shell.words("--transport bogus get k").fails(2, "use auto, shm, verbs or tcp");
    shell.words("ping --interval 400000000000years").fails(2, "longer than 100 years");
    let denied = shell.command().env("FARSIDE_DENY", "atomics").args(["get", "k"]).output().unwrap();
    Run::of(denied).fails(2, "`atomics`");
    shell.words("--transport verbs get k").fails(1, "the server uses no RDMA device");
    shell.words("--transport fabric get k").fails(2, "this build has no transport `fabric`");
    shell.words("--token-file /nonexistent/file get k").fails(2, "/nonexistent/file");
    shell.words("--transport tcp --require one-sided-reads get k").fails(1, "one-sided-reads is required");
    for usage in
        ["", "bogus", "get", "put k", "get k --bogus", "--transport bogus get k", "put k v --ttl soon"]
    {
        assert_eq!(shell.words(usage).code, Some(2), "{usage}");
    }
}

#[test]
fn a_variable_that_is_empty_counts_as_unset() {
    let shell = Shell::new("auto");
    let mut command = shell.command();
    for name in ["FARSIDE_TRANSPORT", "FARSIDE_TOKEN_FILE", "FARSIDE_DEADLINE", "FARSIDE_DENY"] {
        command.env(name, "");
    }
    assert_eq!(Run::of(command.args(["incr", "n"]).output().unwrap()).ok(), "1\n");
    let mut elsewhere = shell.command();
    let run = Run::of(elsewhere.env("FARSIDE_SERVER", "").arg("stats").output().unwrap());
    assert!(run.code == Some(0) || run.err.contains(farside::DEFAULT_ADDRESS), "{run:?}");
}

#[test]
fn a_signal_ends_ping_with_its_figures() {
    let shell = Shell::new("tcp");
    let mut watcher = shell.farside.session().unwrap();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        // At first the connection over which the watcher asked where the memory is may still be counted.
        while figure(&mut watcher, "farside_sessions{transport=\"tcp\"}") > 0 {
            thread::sleep(Duration::from_millis(5));
        }
        let mut command = shell.command();
        let child =
            command.args(["ping", "-c", "0", "--interval", "10ms"]).stdout(Stdio::piped()).spawn().unwrap();
        while figure(&mut watcher, "farside_sessions{transport=\"tcp\"}") == 0 {
            thread::sleep(Duration::from_millis(5));
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("transport tcp at ") && text.contains(" pings, "), "{text}");
    }
}

fn figure(session: &mut Session, name: &str) -> u64 {
    let statistics = session.server_stats().unwrap();
    statistics.iter().find(|figure| figure.name == name).unwrap().value.parse().unwrap()
}
