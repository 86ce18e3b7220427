//! The command against a Farside server in another process.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use farside::server::{Config, Running, Server};
use farside::{Client, Embedded};
use serde_json::Value;

/// Small records, each read checked.
const SMALL: &str = "-p recordcount=500 -p fieldlength=10 --verify";

fn bench(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_farside-bench"))
        .args(arguments.split_whitespace())
        .output()
        .expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The JSON report of a job that must succeed.
fn report(arguments: &str) -> Value {
    let output = bench(&format!("{arguments} --json -"));
    assert_eq!(output.status.code(), Some(0), "{arguments}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("nothing but JSON")
}

fn server() -> Embedded {
    Embedded::start(Config { memory: Some(64 << 20), ..Config::default() }, Client::builder())
        .expect("a server starts")
}

fn kind<'a>(report: &'a Value, operation: &str) -> &'a Value {
    let kinds =
        report["phases"].as_array().and_then(|phases| phases.last()).expect("a phase")["kinds"].as_array();
    kinds.and_then(|kinds| kinds.iter().find(|kind| kind["operation"] == operation)).expect("the operation")
}

fn per_operation(report: &Value, operation: &str, count: &str) -> f64 {
    kind(report, operation)["per_operation"][count].as_f64().expect("a count")
}

#[test]
fn a_warm_get_is_one_read_and_a_warm_update_one_round_trip() {
    let warm = format!("{SMALL} --warmup 1s -p operationcount=20000");
    let reads = report(&format!("-w c {warm}"));
    assert!(
        reads["store"]["transport"].as_str().is_some_and(|path| path.starts_with("shm")),
        "{}",
        reads["store"]
    );
    assert_eq!(reads["store"]["authority"], "coherent");
    assert!(per_operation(&reads, "READ", "reads") < 1.01);
    assert!(per_operation(&reads, "READ", "round_trips") < 1.01);
    assert_eq!(per_operation(&reads, "READ", "two_sided"), 0.0);

    // One thread: what another wrote meanwhile is not warm.
    let updates = report(&format!("-w c {warm} --threads 1 -p readproportion=0 -p updateproportion=1"));
    assert!(per_operation(&updates, "UPDATE", "round_trips") < 1.01);
    assert!(per_operation(&updates, "UPDATE", "writes") < 1.01);
}

#[test]
fn a_cold_insert_takes_three_round_trips() {
    let server = server();
    let report = report(&format!("load --server {} {SMALL}", server.address()));
    assert!(per_operation(&report, "INSERT", "round_trips") <= 3.1);
    assert_eq!(kind(&report, "INSERT")["done"], 500);
}

#[test]
fn every_workload_verifies_over_every_transport() {
    for transport in ["shm", "tcp"] {
        let server = server();
        let to = format!("--server {} --transport {transport}", server.address());
        report(&format!("load {to} {SMALL}"));
        let mut records = 500;
        for workload in ["a", "b", "c", "d", "e", "f"] {
            let changes =
                format!("-p recordcount={records} -p operationcount=1000 -p fieldlength=10 --verify");
            let report = report(&format!("run {to} -w {workload} {changes} --threads 2"));
            assert_eq!(report["phases"][0]["operations"], 1000, "{workload} over {transport}");
            let inserted = if matches!(workload, "d" | "e") {
                kind(&report, "INSERT")["done"].as_u64().expect("a count")
            } else {
                0
            };
            records += inserted;
            if workload == "e" {
                let scans = kind(&report, "SCAN");
                assert!(scans["records"].as_u64() >= scans["done"].as_u64(), "{scans}");
                let two_sided = per_operation(&report, "SCAN", "two_sided");
                assert_eq!(two_sided >= 1.0, transport == "tcp", "{two_sided}");
            } else if transport == "tcp" {
                assert_eq!(per_operation(&report, "READ", "two_sided"), 1.0);
                assert_eq!(per_operation(&report, "READ", "reads"), 0.0);
            }
        }
    }
}

#[test]
fn batches_and_open_loops_verify_too() {
    let batches = report(&format!("{SMALL} -p operationcount=2000 --batch 16"));
    assert_eq!(batches["phases"][1]["operations"], 2000);
    let open = report(&format!("{SMALL} -p operationcount=2000 --target 10000"));
    let read = kind(&open, "READ");
    assert_eq!(read["response"]["count"], read["service"]["count"]);
    assert!(read["response"]["p99"].as_u64() >= read["service"]["p50"].as_u64());
}

#[test]
fn processes_share_a_run_of_inserts() {
    let server = server();
    let to = format!("--server {}", server.address());
    report(&format!("load {to} {SMALL}"));
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = |index: u64| directory.path().join(format!("{index}.json"));
    let share = |index: u64, path: &Path| {
        let changes = "-p recordcount=500 -p operationcount=2000 -p fieldlength=10 --verify";
        bench(&format!(
            "run {to} -w d {changes} --client-count 2 --client-index {index} --json {}",
            path.display()
        ))
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| share(1, &file(1)));
        for output in [share(0, &file(0)), other.join().expect("it ends")] {
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        }
    });
    let merged = report(&format!("merge {} {}", file(0).display(), file(1).display()));
    assert_eq!(merged["phases"][0]["operations"], 2000);
    let inserted = kind(&merged, "INSERT")["done"].as_u64().expect("a count");
    let statistics = server.session().expect("a session").server_stats().expect("statistics");
    let keys =
        statistics.iter().find(|statistic| statistic.name == "farside_keys").expect("the number of keys");
    assert_eq!(keys.value, (500 + inserted).to_string(), "no two processes inserted the same record");
}

#[test]
fn a_store_that_cannot_be_used_as_asked_is_refused_in_words() {
    let server = server();
    for (arguments, code, message) in [
        ("run --server 127.0.0.1:1".to_owned(), 1, "nothing listens at 127.0.0.1:1"),
        ("run --server host:port".to_owned(), 2, "port"),
        (
            format!("run --server {} --transport tcp --require one-sided-reads", server.address()),
            1,
            "one-sided-reads is required",
        ),
        (
            format!("run --server {} --memory 1GiB", server.address()),
            2,
            "--memory is for a server in this process",
        ),
        ("--memory 1KiB".to_owned(), 1, "cannot start the server"),
        ("--db papaya --server here".to_owned(), 2, "papaya is in this process"),
        ("--db redis --server 127.0.0.1:1".to_owned(), 1, "cannot use the redis server at 127.0.0.1:1"),
        (
            format!("--db memcached --deadline 20s --server {}", server.address()),
            1,
            "it closed the connection without an answer",
        ),
        ("--transport pigeon".to_owned(), 2, "pigeon"),
    ] {
        let output = bench(&arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments}: {said}");
        assert!(said.contains(message), "{arguments}: {said}");
    }
}

#[test]
fn records_that_are_not_there_are_told_and_fail_verification() {
    let server = server();
    let run = format!("run --server {} -w c -p recordcount=100 -p operationcount=100", server.address());
    let output = bench(&run);
    assert_eq!(output.status.code(), Some(1), "a run without a load measures nothing");
    assert!(text(&output.stdout).contains("100 not found, 0 failed"), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("no read found anything"), "{}", text(&output.stdout));
    let output = bench(&format!("{run} --verify"));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("the record is absent, although its insert was acknowledged"));
}

#[test]
fn a_store_without_room_fails_the_load() {
    let output = bench("--memory 8MiB -p recordcount=100000 -p operationcount=10");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.contains("INSERT failed: full") && table.contains("given up: an insert failed"), "{table}");
    assert!(!table.contains("run:"), "there is nothing to run on");
}

/// A server at `address`, to be restarted there.
fn server_at(address: &str) -> Running {
    let listen = address.parse().expect("an address");
    Server::start(Config { memory: Some(64 << 20), listen, ..Config::default() }).expect("a server starts")
}

#[test]
fn a_server_that_is_replaced_in_mid_run_is_told() {
    for transport in ["shm", "tcp"] {
        let first = server_at("127.0.0.1:0");
        let address = first.address().to_string();
        let small = "-p recordcount=500 -p fieldlength=10";
        report(&format!("load --server {address} --transport {transport} {small}"));
        let directory = tempfile::tempdir().expect("a temporary directory");
        let log = directory.path().join("log.hdr");
        let run = format!(
            "run --server {address} --transport {transport} {small} -w c --duration 4s --json - --hdr {}",
            log.display()
        );
        let child = Command::new(env!("CARGO_BIN_EXE_farside-bench"))
            .args(run.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let started = Instant::now();
        while !std::fs::read_to_string(&log).is_ok_and(|log| log.contains("run.READ"))
            && started.elapsed() < Duration::from_secs(60)
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        first.shutdown();
        let second = server_at(&address);
        let output = child.wait_with_output().expect("it ends");
        second.shutdown();
        let table = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{transport}: {table}");
        assert!(table.contains("NOT COMPARABLE: the server was replaced"), "{transport}: {table}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("nothing but JSON");
        let phase = &report["phases"][0];
        assert_eq!((&phase["server_replaced"], &phase["comparable"]), (&true.into(), &false.into()));
        assert!(phase["reconnects"].as_u64() >= Some(1), "{transport}: {}", phase["reconnects"]);
    }
}
