//! `farside-bench compare`: what it starts, what it says, and that nothing of it stays behind.

#[path = "../../client/tests/environment/mod.rs"]
mod environment;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Small records, each read checked.
const SMALL: &str = "-p recordcount=500 -p operationcount=2000 -p fieldlength=10 --verify";

fn command(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farside-bench"));
    command.arg("compare").args(arguments.split_whitespace());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn table(arguments: &str) -> String {
    let output = command(arguments).output().expect("the program starts");
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stderr), text(&output.stdout));
    text(&output.stdout)
}

/// The JSON report of a comparison that must succeed.
fn report(arguments: &str) -> Value {
    serde_json::from_str(&table(&format!("{arguments} --json -"))).expect("nothing but JSON")
}

fn contenders(report: &Value) -> &Vec<Value> {
    report["contenders"].as_array().expect("contenders")
}

/// A comparison that must fail for the lack, or the fault, of what is in `folder`, which is all of its search path.
fn with_path(folder: &Path, arguments: &str) -> Output {
    command(arguments).env("PATH", folder).output().expect("the program starts")
}

#[test]
fn the_same_work_is_done_on_each_and_told_in_one_table() {
    let report = report(&format!("farside:shm farside:tcp papaya -w a {SMALL}"));
    let names: Vec<_> = contenders(&report).iter().map(|contender| contender["name"].clone()).collect();
    assert_eq!(names, ["farside:shm", "farside:tcp", "papaya"]);
    for contender in contenders(&report) {
        assert_eq!(contender["run"]["operations"], 2000, "{contender}");
        assert_eq!(contender["run"]["kinds"][0]["done"], contenders(&report)[0]["run"]["kinds"][0]["done"]);
        assert!(contender["ratio"].as_f64() > Some(0.0));
    }
    let [shm, tcp, _] = &contenders(&report)[..] else { panic!("three") };
    assert_eq!(shm["ratio"], 1.0);
    // 100 B of value, 23 or 24 of key, a record's head of 40, in blocks of 64, and a share of the index.
    for farside in [shm, tcp] {
        let bytes = farside["memory"]["bytes_per_key"].as_f64().expect("it tells");
        assert!((170.0..400.0).contains(&bytes), "{bytes}");
    }
    assert!(shm["store"]["transport"].as_str().is_some_and(|path| path.starts_with("shm at 127.0.0.1:")));
    assert!(tcp["store"]["transport"].as_str().is_some_and(|path| path.starts_with("tcp at 127.0.0.1:")));
}

#[test]
fn stores_take_turns_and_a_workload_that_inserts_is_done_once() {
    let timed = "farside:shm papaya -p recordcount=500 --duration 1s --verify";
    let said = table(&format!("{timed} -w f --rounds 2"));
    assert!(said.contains("; 2 turns of 0.5 s each\n") && said.contains("  READ p50  "), "{said}");
    assert!(said.contains("RMW p99  memory/key\nfarside:shm "), "{said}");
    // More records than a second's inserts, for which a table of that size has room.
    let report = report(&format!("{timed} -p recordcount=20000 -w e -p maxscanlength=10 --rounds 2"));
    assert_eq!((&report["turns"], &report["turn_s"]), (&1.into(), &1.0.into()));
    assert!(contenders(&report)[0]["run"]["kinds"][1]["records"].as_u64() > Some(0));
}

#[test]
fn servers_that_are_installed_are_compared() {
    for (store, program) in [("redis", "redis-server"), ("memcached", "memcached")] {
        let is_there = std::env::var_os("PATH")
            .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()));
        if !is_there {
            environment::skip("servers_that_are_installed_are_compared", program, "not on the PATH");
            continue;
        }
        for (workload, batch) in [("a", 1), ("d", 1), ("f", 16)] {
            let stores = format!("{store}:unix {store}:tcp papaya");
            let report = report(&format!("{stores} -w {workload} --batch {batch} {SMALL} --deadline 30s"));
            for contender in &contenders(&report)[..2] {
                let run = &contender["run"];
                assert_eq!((&run["operations"], &contender["succeeded"]), (&2000.into(), &true.into()));
                assert!(run["server_cpu_ns"].is_u64(), "{store} tells its processor time");
                assert!(contender["memory"]["bytes_per_key"].is_f64());
            }
        }
    }
}

#[test]
fn what_is_not_installed_is_told_with_its_package_or_left_out() {
    let nothing = tempfile::tempdir().expect("a temporary directory");
    let output = with_path(nothing.path(), &format!("papaya memcached:tcp {SMALL}"));
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{said}");
    assert!(
        said.contains("memcached:tcp needs memcached") && said.contains("apt-get install memcached"),
        "{said}"
    );

    let output = with_path(nothing.path(), &format!("papaya redis:unix valkey:tcp {SMALL} --skip-missing"));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("!!! SKIPPED redis:unix: redis:unix needs redis-server or valkey-server"),
        "{said}"
    );
    assert!(said.contains("!!! SKIPPED valkey:tcp") && !text(&output.stdout).contains("valkey"));

    let output = with_path(nothing.path(), "redis:unix --skip-missing");
    assert_eq!(output.status.code(), Some(1), "there is nothing left");
}

/// A program that plays `redis-server`.
fn fake(folder: &Path, script: &str) {
    let path = folder.join("redis-server");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("it is written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it may be run");
}

#[test]
fn a_server_that_does_not_start_is_told_with_what_it_said() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    fake(folder.path(), "echo out of order >&2; exit 3");
    let output = with_path(folder.path(), &format!("redis:unix papaya {SMALL}"));
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{said}");
    assert!(said.contains("redis:unix does not start: out of order"), "{said}");
}

#[test]
fn wrong_usage_exits_with_2() {
    for (arguments, message) in [
        ("farside", "there are farside:shm, farside:tcp, redis:unix"),
        ("memcached:unx", "did you mean memcached:unix?"),
        ("redis:unix -w e", "redis cannot run this workload, for it scans"),
        ("papaya -w q", "unknown workload"),
        ("papaya --client-count 2", "a comparison is made by one process"),
    ] {
        let output = command(arguments).output().expect("the program starts");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {said}");
        assert!(said.contains(message), "{arguments}: {said}");
    }
}

/// All processes: number, parent's number, and whether it is one that has ended and nobody has asked after.
fn processes() -> Vec<(i32, i32, bool)> {
    let folders = fs::read_dir("/proc").expect("every Linux has it").filter_map(Result::ok);
    let stat = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Behind the name, which may hold anything.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let (state, parent) = (fields.next()?, fields.next()?.parse().ok()?);
        Some((pid, parent, state == "Z"))
    };
    folders.filter_map(|folder| stat(folder.file_name().to_str()?.parse().ok()?)).collect()
}

fn children_of(parent: i32) -> Vec<i32> {
    processes().into_iter().filter(|&(_, of, _)| of == parent).map(|(pid, ..)| pid).collect()
}

fn runs(pid: i32) -> bool {
    processes().iter().any(|&(running, _, has_ended)| running == pid && !has_ended)
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        sleep(Duration::from_millis(10));
    }
}

/// Starts an endless comparison, and waits until it has started as many processes below it as it should.
fn endless(arguments: &str, path: Option<&Path>, below: impl Fn(i32) -> Vec<i32>) -> (Child, Vec<i32>) {
    let mut command = command(&format!("{arguments} -p recordcount=200 --duration 10m"));
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let pid = child.id() as i32;
    let mut servers = Vec::new();
    wait_until("no server starts", || {
        servers = below(pid);
        !servers.is_empty()
    });
    (child, servers)
}

#[test]
fn signals_end_it_and_its_servers() {
    for (signal, code) in [(Signal::INT, Some(130)), (Signal::TERM, Some(143)), (Signal::KILL, None)] {
        let (child, servers) = endless("farside:tcp papaya", None, children_of);
        kill_process(Pid::from_child(&child), signal).expect("it runs");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), code, "{}", text(&output.stderr));
        for server in servers {
            wait_until("its server runs on", || !runs(server));
        }
    }
}

#[test]
fn a_server_of_others_ends_too_when_it_is_killed() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    // Nothing that anyone can connect to.
    fake(folder.path(), "exec /bin/sleep 1000");
    for signal in [Signal::INT, Signal::KILL] {
        let of_its_guard = |pid| children_of(pid).into_iter().flat_map(children_of).collect();
        let (mut child, servers) = endless("redis:tcp papaya", Some(folder.path()), of_its_guard);
        kill_process(Pid::from_child(&child), signal).expect("it runs");
        child.wait().expect("it ends");
        for server in servers {
            wait_until("its server runs on", || !runs(server));
        }
    }
}
