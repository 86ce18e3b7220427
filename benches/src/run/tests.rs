//! Whole phases, against the reference and against stores that misbehave.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::clock::MonotonicClock;
use super::clock::virtual_clock::VirtualClock;
use super::collector::Observer;
use super::exchange::{Report, SECOND};
use super::phase::{Client, Kind, Phase};
use super::*;
use crate::measure::interval::OperationStats;
use crate::measure::series::Row;
use crate::target::papaya::Papaya;
use crate::target::scanned::Scanned;
use crate::target::{Answer, Counts, Description, ErrorKind, Reply, Session};
use crate::workload::mix::Operation;
use crate::workload::{self, Workload};

struct Nobody;

impl Observer for Nobody {
    fn second(&mut self, _: &Row, _: &Interval) {}
}

fn workload(name: &str, changes: &[&str]) -> Workload {
    let mut properties = workload::standard(name).expect("a standard workload");
    for assignment in changes {
        properties.add_assignment(assignment).expect("a good assignment");
    }
    Workload::from_properties(&properties).expect("a good workload")
}

fn phase(kind: Kind, workload: &Workload) -> Phase<'_> {
    Phase {
        kind,
        workload,
        client: Client::ALONE,
        threads: 1,
        batch: 1,
        target: None,
        warm_up: Duration::ZERO,
        duration: None,
        seed: 42,
        run_id: 7,
    }
}

/// A store of one thread on virtual time, whose answers a test writes: `answer` sees the number of the call, the
/// key, and for a write the value.
struct Scripted<'c, F> {
    clock: &'c VirtualClock,
    service: u64,
    calls: AtomicU64,
    scanned: Mutex<Vec<u8>>,
    answer: F,
}

type Call<'a> = (u64, &'a [u8], Option<&'a [u8]>, &'a mut Vec<u8>);

impl<'c, F: Fn(Call<'_>) -> Answer + Sync> Scripted<'c, F> {
    fn new(clock: &'c VirtualClock, service: u64, answer: F) -> Self {
        Self { clock, service, calls: AtomicU64::new(0), scanned: Mutex::default(), answer }
    }

    fn call(&self, key: &[u8], written: Option<&[u8]>, read: &mut Vec<u8>) -> Answer {
        self.clock.pass(self.service);
        (self.answer)((self.calls.fetch_add(1, Ordering::Relaxed), key, written, read))
    }
}

impl<F: Fn(Call<'_>) -> Answer + Sync> Target for Scripted<'_, F> {
    type Session<'a>
        = &'a Self
    where
        Self: 'a;

    fn description(&self) -> Description {
        Papaya::new().description()
    }

    fn session(&self) -> Result<&Self, SessionError> {
        Ok(self)
    }

    fn server_cpu(&self) -> Option<ServerCpu> {
        let serving = Duration::from_nanos(self.calls.load(Ordering::Relaxed));
        Some(ServerCpu { serving, upkeep: Duration::ZERO })
    }
}

impl<F: Fn(Call<'_>) -> Answer + Sync> Session for &Scripted<'_, F> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Reply {
        Reply { answer: self.call(key, None, value), counts: Counts { reads: 1, ..Counts::default() } }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Reply {
        Reply {
            answer: self.call(key, Some(value), &mut Vec::new()),
            counts: Counts { writes: 1, ..Counts::default() },
        }
    }

    fn get_many(&mut self, keys: &[Vec<u8>], values: &mut [Vec<u8>], answers: &mut [Answer]) -> Counts {
        for ((key, value), answer) in keys.iter().zip(values).zip(answers) {
            *answer = self.call(key, None, value);
        }
        Counts { round_trips: 1, reads: keys.len() as u64, ..Counts::default() }
    }

    fn put_many(&mut self, keys: &[Vec<u8>], values: &[Vec<u8>], answers: &mut [Answer]) -> Counts {
        for ((key, value), answer) in keys.iter().zip(values).zip(answers) {
            *answer = self.call(key, Some(value), &mut Vec::new());
        }
        Counts { round_trips: 1, writes: keys.len() as u64, ..Counts::default() }
    }

    /// Of one record, which it calls by the key it began at.
    fn scan(&mut self, key: &[u8], length: usize, found: &mut Scanned) -> Reply {
        let mut value = std::mem::take(&mut *self.scanned.lock().expect("no test thread panics"));
        let answer = self.call(key, None, &mut value);
        (0..length).for_each(|_| found.push(key, &value));
        *self.scanned.lock().expect("no test thread panics") = value;
        Reply { answer, counts: Counts { reads: length as u64, ..Counts::default() } }
    }
}

fn perform<T: Target, C: Clock>(target: &T, phase: &Phase<'_>, clock: &C) -> Outcome {
    run(target, phase, clock, &AtomicBool::new(false), &mut Nobody).expect("the store opens its sessions")
}

fn stats(outcome: &Outcome, operation: Operation) -> &OperationStats {
    outcome.collected.total.get(operation).expect("the operation is in the mix")
}

#[test]
fn every_workload_verifies_against_the_reference() {
    let clock = MonotonicClock::start();
    for name in ["a", "b", "c", "d", "e", "f"] {
        for batch in [1, 7] {
            let changes = ["recordcount=500", "operationcount=4000", "fieldlength=10", "dataintegrity=true"];
            let workload = workload(name, &changes);
            let papaya = Papaya::new();
            let load = Phase { threads: 2, batch, ..phase(Kind::Load, &workload) };
            let loaded = perform(&papaya, &load, &clock);
            assert_eq!(stats(&loaded, Operation::Insert).done, 500);

            let the_run = Phase { threads: 3, batch, ..phase(Kind::Run, &workload) };
            let outcome = perform(&papaya, &the_run, &clock);
            let total = &outcome.collected.total;
            assert_eq!(total.operations, 4000, "workload {name}, batches of {batch}");
            for (operation, stats) in total.iter() {
                assert_eq!(
                    (stats.not_found, stats.failures(), stats.mismatched),
                    (0, 0, 0),
                    "{name}: {operation}"
                );
            }
            let by_second: u64 = outcome.collected.rows.iter().map(|row| row.operations).sum();
            assert_eq!(by_second, 4000);
            assert!(outcome.collected.ends.iter().all(|end| end.problem.is_none() && !end.gave_up));
        }
    }
}

#[test]
fn halves_of_a_read_modify_write_are_counted_once_more() {
    let clock = MonotonicClock::start();
    let workload = workload("f", &["operationcount=10000"]);
    let papaya = Papaya::new();
    perform(&papaya, &phase(Kind::Load, &workload), &clock);
    let outcome = perform(&papaya, &phase(Kind::Run, &workload), &clock);
    let [read, update, whole] = [Operation::Read, Operation::Update, Operation::ReadModifyWrite]
        .map(|operation| stats(&outcome, operation).done);
    assert_eq!((read, update), (10_000, whole));
    assert!(whole.abs_diff(5000) < 250);
}

#[test]
fn an_open_loop_shows_what_a_stall_did_to_those_behind_it() {
    let clock = VirtualClock::default();
    // 10 us each, 100 us apart; request 1000 takes 100 ms, in which 1000 more fall due.
    let store = Scripted::new(&clock, 10_000, |(call, ..)| {
        if call == 1000 {
            clock.pass(100_000_000);
        }
        Answer::Done
    });
    let workload = workload("c", &["operationcount=10000"]);
    let the_run = Phase { target: Some(10_000), ..phase(Kind::Run, &workload) };
    let outcome = perform(&store, &the_run, &clock);
    let read = stats(&outcome, Operation::Read);
    let response = read.response.as_ref().expect("an open loop");
    assert_eq!((read.done, response.count()), (10_000, 10_000));
    assert!(read.service.quantile(0.999) < 10_100, "one slow request in 10,000 is no p99.9");
    // The backlog shrinks by 90 us a request, so about 1111 requests waited: more than a tenth of all.
    assert!(response.quantile(0.9) > 500_000, "p90 {}", response.quantile(0.9));
    assert!(response.max() > 100_000_000);
}

#[test]
fn operations_that_were_due_but_never_started_are_told() {
    let clock = VirtualClock::default();
    // Each takes 1 ms, but one is due every 100 us for a second.
    let store = Scripted::new(&clock, 1_000_000, |_| Answer::Done);
    let workload = workload("c", &["operationcount=0"]);
    let the_run =
        Phase { target: Some(10_000), duration: Some(Duration::from_secs(1)), ..phase(Kind::Run, &workload) };
    let outcome = perform(&store, &the_run, &clock);
    assert_eq!(outcome.collected.total.operations, 1000);
    assert_eq!(outcome.collected.ends[0].unissued, 9000);
    assert_eq!(outcome.elapsed, Duration::from_secs(1));
    let serving = outcome.server_cpu.expect("the script tells").serving;
    assert_eq!(serving, Duration::from_nanos(1000), "the script says 1 ns a call");
}

#[test]
fn warm_up_is_not_measured_but_its_failures_are_kept() {
    let clock = VirtualClock::default();
    let store = Scripted::new(&clock, 1_000_000, |(call, ..)| {
        if call == 3 { Answer::Failed(ErrorKind::Deadline) } else { Answer::Done }
    });
    let workload = workload("c", &["operationcount=100"]);
    let the_run = Phase { warm_up: Duration::from_millis(500), ..phase(Kind::Run, &workload) };
    let outcome = perform(&store, &the_run, &clock);
    assert_eq!((outcome.collected.total.operations, outcome.collected.warm_up_problems), (100, 1));
    assert!(store.calls.load(Ordering::Relaxed) > 500);
    assert_eq!(stats(&outcome, Operation::Read).counts.reads, 100);
}

#[test]
fn a_run_ends_when_nothing_but_failures_comes() {
    let clock = VirtualClock::default();
    let store = Scripted::new(&clock, 1000, |_| Answer::Failed(ErrorKind::Unavailable));
    let workload = workload("a", &["operationcount=0"]);
    let the_run = phase(Kind::Run, &workload);
    let outcome = perform(&store, &the_run, &clock);
    let [end] = &outcome.collected.ends[..] else { panic!("one thread") };
    assert!(end.gave_up && (5 * SECOND..6 * SECOND).contains(&clock.now()));
    let problem = end.problem.as_ref().expect("the first failure");
    assert!(problem.what.starts_with("unavailable") && problem.key.starts_with("user"), "{problem:?}");
    assert_eq!(stats(&outcome, Operation::Read).service.count(), 0, "latencies are of successes");
}

#[test]
fn a_load_ends_at_its_first_failure() {
    let clock = VirtualClock::default();
    let store =
        Scripted::new(
            &clock,
            1000,
            |(call, ..)| {
                if call == 10 { Answer::Failed(ErrorKind::Full) } else { Answer::Done }
            },
        );
    let workload = workload("a", &[]);
    let load = phase(Kind::Load, &workload);
    let outcome = perform(&store, &load, &clock);
    let insert = stats(&outcome, Operation::Insert);
    assert_eq!((insert.done, insert.failed[ErrorKind::Full as usize]), (10, 1));
}

#[test]
fn a_failed_insert_is_made_again_and_not_read_before() {
    let clock = VirtualClock::default();
    let keys: Mutex<HashMap<Vec<u8>, bool>> = Mutex::default();
    let refused = AtomicU64::new(0);
    let store = Scripted::new(&clock, 1000, |(call, key, written, _)| {
        let mut keys = keys.lock().expect("no test thread panics");
        match written {
            // Every third insert fails once.
            Some(_) if call % 3 == 0 && !keys.contains_key(key) => {
                refused.fetch_add(1, Ordering::Relaxed);
                keys.insert(key.to_vec(), false);
                Answer::Failed(ErrorKind::Deadline)
            }
            Some(_) => {
                keys.insert(key.to_vec(), true);
                Answer::Done
            }
            None => {
                assert_ne!(
                    keys.get(key),
                    Some(&false),
                    "a read of a record whose insert was not acknowledged"
                );
                Answer::Done
            }
        }
    });
    let workload = workload("d", &["operationcount=20000"]);
    let the_run = phase(Kind::Run, &workload);
    let outcome = perform(&store, &the_run, &clock);
    let refused = refused.load(Ordering::Relaxed);
    assert!(refused > 100);
    assert_eq!(stats(&outcome, Operation::Insert).failures(), refused);
    let missing = keys.lock().expect("no test thread panics").values().filter(|&&there| !there).count();
    assert!(missing <= 1, "only the very last one may still be pending, not {missing}");
}

#[test]
fn wrong_old_and_missing_values_are_mismatches() {
    for (fault, text) in [("torn", "not one written"), ("old", "older"), ("absent", "absent")] {
        let clock = VirtualClock::default();
        let values: Mutex<HashMap<Vec<u8>, Vec<Vec<u8>>>> = Mutex::default();
        let store = Scripted::new(&clock, 1000, |(call, key, written, read)| {
            let mut values = values.lock().expect("no test thread panics");
            let history = values.entry(key.to_vec()).or_default();
            if let Some(written) = written {
                history.push(written.to_vec());
                return Answer::Done;
            }
            let at_fault = call > 1500 && history.len() > 2;
            let back = if at_fault && fault == "old" { 2 } else { 1 };
            let value = &history[history.len() - back];
            read.clone_from(value);
            if at_fault && fault == "torn" {
                let middle = value.len() / 2;
                read[middle..].copy_from_slice(&history[0][middle..]);
            }
            if at_fault && fault == "absent" { Answer::NotFound } else { Answer::Done }
        });
        let workload = workload("a", &["recordcount=100", "operationcount=5000", "dataintegrity=true"]);
        perform(&store, &phase(Kind::Load, &workload), &clock);
        let outcome = perform(&store, &phase(Kind::Run, &workload), &clock);
        assert!(stats(&outcome, Operation::Read).mismatched > 100, "{fault}");
        let problem = outcome.collected.ends[0].problem.as_ref().expect("the first mismatch");
        assert!(problem.what.contains(text), "{fault}: {problem:?}");
    }
}

#[test]
fn a_seed_repeats_a_run_key_by_key() {
    let keys_of = |seed| {
        let clock = VirtualClock::default();
        let keys = Mutex::new(Vec::new());
        let store = Scripted::new(&clock, 1000, |(_, key, written, _)| {
            keys.lock().expect("no test thread panics").push((written.is_some(), key.to_vec()));
            Answer::Done
        });
        let workload = workload("a", &[]);
        let the_run = Phase { seed, ..phase(Kind::Run, &workload) };
        perform(&store, &the_run, &clock);
        keys.into_inner().expect("no test thread panics")
    };
    assert_eq!(keys_of(1), keys_of(1));
    assert_ne!(keys_of(1), keys_of(2));
}

#[test]
fn a_store_that_refuses_ends_the_phase_before_it_begins() {
    struct Refusing;
    impl Target for Refusing {
        type Session<'a> = crate::target::papaya::PapayaSession<'a>;
        fn description(&self) -> Description {
            Papaya::new().description()
        }
        fn session(&self) -> Result<Self::Session<'_>, SessionError> {
            Err(SessionError("no server answers at 127.0.0.1:7471".to_owned()))
        }
        fn server_cpu(&self) -> Option<ServerCpu> {
            None
        }
    }
    let workload = workload("a", &[]);
    let the_run = Phase { threads: 3, ..phase(Kind::Run, &workload) };
    let (clock, stop) = (VirtualClock::default(), AtomicBool::new(false));
    let error = run(&Refusing, &the_run, &clock, &stop, &mut Nobody).expect_err("nobody is there");
    assert_eq!(error.to_string(), "no server answers at 127.0.0.1:7471");
}

#[test]
fn the_measuring_path_does_not_allocate() {
    for name in ["a", "d", "e", "f"] {
        for batch in [1, 8] {
            let clock = VirtualClock::default();
            let store = Scripted::new(&clock, 100_000, |(_, _, written, read)| {
                if written.is_none() {
                    read.resize(100, 1);
                }
                Answer::Done
            });
            let workload = workload(name, &["operationcount=50000", "fieldlength=10", "dataintegrity=true"]);
            let the_run = Phase { batch, ..phase(Kind::Run, &workload) };
            let counter = the_run.appends().then(|| AcknowledgedCounter::new(workload.records));
            let task = the_run.tasks(counter.as_ref()).expect("good tasks").pop().expect("one thread");
            let blank = Interval::new(&the_run.mix(), false);
            let (mut exchanges, reports, _returns) = Exchange::new(1, &blank);
            let stop = AtomicBool::new(false);
            let exchange = exchanges.pop().expect("one thread");
            // The values are wrong, so that the first problem is remembered: the one text that is allocated.
            let worker = Worker::new(task, &store, &clock, &stop, exchange);
            let times = Times { start: 0, measure_from: 0, deadline: u64::MAX };
            let allocated = allocation_counter::measure(|| worker.run(times));
            assert!(allocated.count_total <= 8, "workload {name}, batches of {batch}: {allocated:?}");
            let seconds = reports.iter().filter(|report| matches!(report, Report::Interval { .. })).count();
            assert!(seconds >= 2, "the exchange was part of it");
        }
    }
}
