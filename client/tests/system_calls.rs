//! The warm path of a session makes no system call: GETs never, updates none between the batches in which the server
//! is asked for blocks and told about them; bringing slots forward, which comes once in 64 updates, is among them.
//!
//! This program is started anew under `strace`, which sees all that the thread of the session asks of the kernel, waits
//! for locks that others hold included. (A lock that is free is taken without the kernel.) The server's threads are not
//! traced. Look-ups of paths that do not exist mark in the trace where something begins and ends.

mod environment;

use farside::server::Config;
use farside::{Client, Embedded, Operation, Session};
use libtest_mimic::{Arguments, Failed, Trial};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

const TEST: &str = "the_warm_path_makes_no_system_call";
/// Asks this program to be the one that is traced.
const TRACED: &str = "run-the-warm-path";

const KEYS: u64 = 100;
const VALUE: [u8; 100] = [7; 100];
const GETS: u64 = 1000;
/// Rounds of updates, and updates of each. About half of the rounds are without a batch.
const ROUNDS: usize = 100;
const UPDATES: u64 = 30;
/// A session asks for more blocks when it has this many left, a quarter of the largest batch.
const BLOCKS_LOW: u64 = 64;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(TRACED) {
        run_traced();
        return ExitCode::SUCCESS;
    }
    let trial = Trial::test(TEST, || {
        the_warm_path_makes_no_system_call();
        Ok::<(), Failed>(())
    });
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
}

fn mark(what: &str) {
    assert!(fs::metadata(format!("/farside-mark/{what}")).is_err(), "the path of a mark exists");
}

fn marked(name: &str, what: impl FnOnce()) {
    mark(&format!("{name}.begin"));
    what();
    mark(&format!("{name}.end"));
}

fn run_traced() {
    let config = Config { memory: Some(64 << 20), shards: Some(1), ..Config::default() };
    let farside = Embedded::start(config, Client::builder()).unwrap();
    let mut session = farside.session().unwrap();
    let mut buffer = Vec::new();
    for key in 0..KEYS {
        session.put(key.to_le_bytes(), VALUE).unwrap();
    }
    let misses = |session: &Session| session.stats()[Operation::Get].counts.hint_misses;
    // Hints find room for all keys after a few rounds.
    loop {
        let before = misses(&session);
        for key in 0..KEYS {
            session.get_into(key.to_le_bytes(), &mut buffer).unwrap();
        }
        if misses(&session) == before {
            break;
        }
    }
    marked("gets", || {
        for get in 0..GETS {
            let key = (get % KEYS).to_le_bytes();
            assert!(session.get(key).unwrap().is_some());
            assert!(session.get_into(key, &mut buffer).unwrap().is_some());
        }
    });
    settle(&mut session);
    for round in 0..ROUNDS {
        let before = requests(&session);
        marked(&format!("updates-{round}"), || {
            for key in 0..UPDATES {
                session.put(key.to_le_bytes(), VALUE).unwrap();
            }
        });
        if requests(&session) != before {
            mark(&format!("updates-{round}.batch"));
            settle(&mut session);
        }
    }
    assert!(session.stats().forwards > ROUNDS as u64, "slots were brought forward");
    // Shows that the trace shows something.
    marked("ping", || {
        session.ping().unwrap();
    });
}

fn requests(session: &Session) -> u64 {
    session.stats().lease_requests + session.stats().reports
}

/// Updates until no blocks are on their way: after as many as were left when it asked for more, a session has them or
/// has waited for them.
fn settle(session: &mut Session) {
    loop {
        let before = requests(session);
        for update in 0..=BLOCKS_LOW {
            session.put((update % KEYS).to_le_bytes(), VALUE).unwrap();
        }
        if requests(session) == before {
            break;
        }
    }
}

/// What the thread asked of the kernel between the marks of `name`.
fn calls<'a>(trace: &'a str, name: &str) -> Vec<&'a str> {
    let is_mark = |line: &str, which| line.contains(&format!("/farside-mark/{name}.{which}\""));
    let mut lines = trace.lines().skip_while(|line| !is_mark(line, "begin"));
    assert!(lines.next().is_some(), "{name} does not begin in the trace:\n{trace}");
    let calls: Vec<_> = lines.take_while(|line| !is_mark(line, "end")).collect();
    // Lines of signals and exits are no calls.
    calls.into_iter().filter(|line| !line.starts_with("---") && !line.starts_with("+++")).collect()
}

fn the_warm_path_makes_no_system_call() {
    let works = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    match works {
        Ok(output) if output.status.success() => {}
        Ok(output) => return environment::skip(TEST, "strace", &String::from_utf8_lossy(&output.stderr)),
        Err(error) => return environment::skip(TEST, "strace", &error.to_string()),
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(&folder.path().join("trace"));

    assert_ne!(calls(&trace, "ping"), [""; 0], "a question to the server takes system calls");
    assert_eq!(calls(&trace, "gets"), [""; 0], "of {GETS} GETs, lent and copied");
    let quiet = (0..ROUNDS).map(|round| format!("updates-{round}"));
    let quiet: Vec<_> =
        quiet.filter(|name| !trace.contains(&format!("/farside-mark/{name}.batch\""))).collect();
    assert!(quiet.len() > ROUNDS / 4, "{} of {ROUNDS} rounds without a batch", quiet.len());
    for name in quiet {
        assert_eq!(calls(&trace, &name), [""; 0], "{name}: of {UPDATES} updates");
    }
}

/// Runs the warm path under strace, which writes to `path`, without its other threads.
fn trace(path: &Path) -> String {
    let traced = Command::new("strace")
        .args(["-s", "256", "-o", path.to_str().unwrap()])
        .arg(std::env::current_exe().unwrap())
        .arg(TRACED)
        .output()
        .unwrap();
    assert!(traced.status.success(), "{}", String::from_utf8_lossy(&traced.stderr));
    fs::read_to_string(path).unwrap()
}
