//! The command as people use it: exit codes, messages, outputs, signals.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A run of the reference that is over in no time.
const SMALL: &str = "--db papaya -p recordcount=200 -p operationcount=2000 -p fieldlength=10 --verify";

fn command(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farside-bench"));
    command.args(arguments.split_whitespace());
    command
}

fn bench(arguments: &str) -> Output {
    command(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_workload_runs_and_verifies() {
    for workload in ["a", "b", "c", "d", "e", "f"] {
        let output = bench(&format!("{SMALL} --workload {workload} --threads 2"));
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let table = text(&output.stdout);
        assert!(table.contains("load: 200 operations") && table.contains("run: 2,000 operations"), "{table}");
        assert!(table.contains(", 0 wrong\n"), "{table}");
        assert!(
            output.stderr.is_empty(),
            "no progress bar where there is no terminal: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn a_standard_error_that_is_full_costs_nothing() {
    for (arguments, code) in [("--json /nowhere/at/all".into(), 2), (format!("{SMALL} --json -"), 0)] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("every Linux has it");
        let output = command(&arguments).stderr(full).output().expect("the program starts");
        assert_eq!(output.status.code(), Some(code), "{arguments}");
        assert_eq!(code == 0, output.stdout.starts_with(b"{"), "{arguments}");
    }
}

#[test]
fn wrong_usage_exits_with_2_and_says_what_to_do() {
    for (arguments, message) in [
        ("--thread 2", "unexpected argument '--thread'"),
        ("--workload q", "unknown workload \"q\"; there are a, b, c, d, e and f"),
        ("--workload e -p scanlengthdistribution=latest", "expected one of uniform, zipfian"),
        ("-p recordcont=1", "did you mean \"recordcount\"?"),
        ("-p readproportion=1", "the proportions add up to 1.5, not 1"),
        ("--json - --csv -", "cannot both go to standard output"),
        ("--csv src/x --ycsb src/../src/x", "--csv and --ycsb cannot both go to src/../src/x"),
        ("--csv x --hdr ./x", "--csv and --hdr cannot both go to ./x"),
        ("run --warmup 400000000000years", "longer than 100 years"),
        ("-p recordcount=18446744073709551615", "recordcount=18446744073709551615 is more than"),
        ("-p recordcount=281474976710656 -p fieldlength=1000000", "no memory holds"),
        ("--batch 4096 -p fieldcount=1 -p fieldlength=16777216", "of buffers, more than 8 GiB"),
        ("--json /nowhere/at/all", "cannot create /nowhere/at/all"),
        ("run --db papaya", "starts empty"),
        ("--db redis -w e", "redis has no scan that begins at a key"),
        ("--db memcached -w e", "memcached has no scan that begins at a key"),
        ("--db memcached -p zeropadding=300", "keys of up to 304 bytes are too long for memcached"),
        ("--db redis --memory 1GiB", "are for --db farside"),
        ("--db papaya --transport shm", "are for --db farside"),
        ("merge /nowhere/at/all", "cannot read /nowhere/at/all"),
    ] {
        let output = bench(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {said}");
        assert!(said.contains(message), "{arguments}: {said}");
        assert!(output.stdout.is_empty(), "{arguments} must not begin");
    }
}

#[test]
fn a_slip_in_a_workload_file_is_found_by_its_line() {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    writeln!(file, "# mine\nrecordcount=10\noperationcount=10\nreadpropotion=1").expect("it is written");
    let output = bench(&format!("-P {}", file.path().display()));
    let expected = format!(
        "error: {} line 4: unknown property \"readpropotion\"; did you mean \"readproportion\"?\n",
        file.path().display()
    );
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(2), expected));
}

#[test]
fn standard_output_holds_one_form_and_the_table_makes_room() {
    let output = bench(&format!("{SMALL} --json -"));
    assert_eq!(output.status.code(), Some(0));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("nothing but JSON");
    assert_eq!(report["phases"][1]["operations"], 2000);
    assert_eq!(report["succeeded"], true);
    assert!(text(&output.stderr).starts_with("farside-bench "));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut child = command(&format!("{SMALL} --json -"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a start");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn processes_that_share_a_run_merge_into_one() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let report = |index: u32| -> PathBuf { directory.path().join(format!("{index}.json")) };
    for index in 0..2 {
        let path = report(index);
        // Each process has its own map here, so each loads only its part and misses the other's.
        let shared = "--db papaya -p recordcount=200 -p operationcount=2000 --client-count 2";
        let output = bench(&format!("{shared} --client-index {index} --json {}", path.display()));
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    let merged = directory.path().join("merged.json");
    let files = format!("{} {}", report(0).display(), report(1).display());
    let output = bench(&format!("merge {files} --json {}", merged.display()));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("run: 2,000 operations"), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("2 of 2 processes merged"));
    let merged: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(merged).expect("it was written")).expect("JSON");
    let kinds = merged["phases"][1]["kinds"].as_array().expect("kinds");
    let ended: u64 = kinds
        .iter()
        .map(|kind| kind["done"].as_u64().unwrap_or(0) + kind["not_found"].as_u64().unwrap_or(0))
        .sum();
    assert_eq!(ended, 2000);

    // In place of one of its inputs, which a refusal leaves as it was.
    let kept = std::fs::read(report(0)).expect("it is there");
    assert_eq!(bench(&format!("merge {0} {0} --json {0}", report(0).display())).status.code(), Some(2));
    assert_eq!(std::fs::read(report(0)).expect("it is there"), kept);
    let output = bench(&format!("merge {files} --json {}", report(0).display()));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let replaced: serde_json::Value =
        serde_json::from_slice(&std::fs::read(report(0)).expect("it is there")).expect("JSON");
    assert_eq!(replaced, merged);

    let twice = bench(&format!("merge {0} {0}", report(0).display()));
    assert_eq!(twice.status.code(), Some(2));
    assert!(text(&twice.stderr).contains("two reports are of process 0"));
}

/// Starts an endless run, and waits until its HDR log shows that it is under way.
fn endless(log: &Path) -> Child {
    let child = command(&format!("--db papaya -p recordcount=200 --duration 10m --hdr {}", log.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let started = Instant::now();
    while std::fs::metadata(log).map_or(0, |log| log.len()) == 0
        && started.elapsed() < Duration::from_secs(60)
    {
        std::thread::sleep(Duration::from_millis(50));
    }
    child
}

#[test]
fn signals_end_a_run_that_still_reports() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let child = endless(&directory.path().join("log.hdr"));
        let pid = Pid::from_child(&child);
        kill_process(pid, signal).expect("it runs");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains("interrupted: these are the figures up to then"));
    }
}

#[test]
fn a_signal_while_the_server_starts_leaves_nothing_behind() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let files = || std::fs::read_dir(directory.path()).expect("a directory").count();
    // So much memory that its server takes a while to start, with its socket there from the beginning.
    let child = command("--memory 1GiB -p recordcount=1000 --duration 10m")
        .env("XDG_RUNTIME_DIR", directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let started = Instant::now();
    while files() == 0 && started.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_micros(100));
    }
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert_eq!(files(), 0);
}
