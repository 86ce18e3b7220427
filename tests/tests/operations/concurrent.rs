//! Many clients at once on a few keys of one live server, also while the link to it fails; what they were told must be
//! linearizable.
//!
//! Whom the scheduler lets run when is no part of the seed, so a failure comes again only by chance. It prints the
//! operations that contradict each other.

use crate::target::{
    Answer, Batches, SHM, SHM_WITHOUT_ATOMICS, TCP, VERBS, VERBS_WITHOUT_ATOMICS, Way, bytes, connect,
    rdma_devices, serve,
};
use farside::{Embedded, Error, ErrorKind};
use farside_tests::content::Content;
use farside_tests::history::{History, Invocation, Recorder, Response};
use farside_tests::linearizability::check;
use farside_tests::operation::{Operation, Outcome, Time, Version};
use futures_util::future::join_all;
use pollster::block_on;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::HashMap;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// Two on which everything happens, and one that only counts.
const KEYS: [&str; 3] = ["hot", "warm", COUNTER];
const COUNTER: &str = "counter";
const COUNTER_AT: usize = 2;

/// Operations of a batch.
const TOGETHER_MAX: usize = 8;

const OPERATIONS: usize = 500;
/// In a guest, which is slow.
const OPERATIONS_OVER_RDMA: usize = 200;

/// Operations under way together of each client that a thread has.
const AT_ONCE: usize = 3;

/// A client with its program, drawn as it goes, and its record.
struct Caller<'a, T> {
    target: T,
    began: &'a Instant,
    number: u32,
    random: SmallRng,
    recorder: Recorder<&'static str, Content>,
    /// The last version of each key that this client was told.
    seen: HashMap<&'static str, Version>,
    published: u32,
}

impl<'a, T: Batches> Caller<'a, T> {
    fn new(target: T, number: u32, began: &'a Instant) -> Self {
        Self {
            target,
            began,
            number,
            random: SmallRng::seed_from_u64(number.into()),
            recorder: Recorder::new(number),
            seen: HashMap::new(),
            published: 0,
        }
    }

    /// Calls for as long as `goes_on`, asked with the number of the call, says so.
    async fn run(mut self, goes_on: impl Fn(usize) -> bool) -> Recorder<&'static str, Content> {
        let mut key = KEYS[0];
        for _ in (0..).take_while(|number| goes_on(*number)) {
            // Stays with a key for some operations, so that records supersede each other quickly.
            if self.random.random_bool(0.2) {
                key = KEYS[self.random.random_range(0..KEYS.len())];
            }
            // Lets the others run who take longer, that all work at the same time to the end.
            if self.random.random_bool(0.1) {
                thread::yield_now();
            }
            if self.random.random_bool(0.1) {
                self.perform_together().await;
            } else {
                let operation = self.draw(key);
                self.perform(key, operation).await;
            }
        }
        self.recorder
    }

    async fn perform(&mut self, key: &'static str, operation: Operation<Content>) {
        let call = self.recorder.call(self.now(), key, operation.clone());
        let told = self.target.perform(key.as_bytes(), &operation).await;
        self.record(call, key, told);
    }

    /// GETs or PUTs of several keys, some of them the same.
    async fn perform_together(&mut self) {
        let gets = self.random.random_bool(0.5);
        let keys: Vec<_> = (0..self.random.random_range(1..=TOGETHER_MAX))
            .map(|_| KEYS[self.random.random_range(0..if gets { KEYS.len() } else { COUNTER_AT })])
            .collect();
        let operations: Vec<_> =
            (keys.iter())
                .map(|_| {
                    if gets {
                        Operation::Get
                    } else {
                        Operation::Put { value: self.value(), expires_at: None }
                    }
                })
                .collect();
        let now = self.now();
        let calls: Vec<_> = (keys.iter().zip(&operations))
            .map(|(key, operation)| self.recorder.call(now, *key, operation.clone()))
            .collect();
        let told = if gets {
            self.target.get_together(&keys).await
        } else {
            let values = operations.iter().map(|operation| match operation {
                Operation::Put { value, .. } => bytes(value),
                _ => unreachable!("all of them are PUTs"),
            });
            self.target.put_together(&keys.iter().copied().zip(values).collect::<Vec<_>>()).await
        };
        for ((call, key), told) in calls.into_iter().zip(keys).zip(told) {
            self.record(call, key, told);
        }
    }

    fn record(&mut self, call: Invocation, key: &'static str, told: Result<Answer, Error>) {
        let response = match told {
            Ok(answer) => Response::Done(answer.outcome),
            Err(error) if error.kind() == ErrorKind::Indeterminate => Response::Indeterminate,
            Err(_) => Response::Failed,
        };
        let now = self.now();
        if let Response::Done(
            Outcome::Found { version: Some(version), .. } | Outcome::Stored { version: Some(version) },
        ) = response
        {
            self.seen.insert(key, version);
        }
        self.recorder.respond(call, now, response);
    }

    fn now(&self) -> Time {
        self.began.elapsed().as_nanos() as Time
    }

    fn draw(&mut self, key: &'static str) -> Operation<Content> {
        let chosen = self.random.random_range(0..if key == COUNTER { 8 } else { 20 });
        match (chosen, self.seen.get(key)) {
            (0..3, _) => Operation::Get,
            (3, _) => Operation::Delete,
            (4..8, _) => Operation::FetchAdd { delta: 1 },
            (8..11, _) => Operation::PutIfAbsent { value: self.value(), expires_at: None },
            (11..15, Some(&expected)) => {
                Operation::CompareExchange { expected, value: self.value(), expires_at: None }
            }
            _ => Operation::Put { value: self.value(), expires_at: None },
        }
    }

    /// A value that no other publication stores, of one size class or another; parts of two values are none.
    fn value(&mut self) -> Content {
        self.published += 1;
        let stamp = [self.number.to_le_bytes(), self.published.to_le_bytes()].concat();
        let len = self.random.random_range(8..600);
        Content::Bytes(stamp.into_iter().cycle().take(len).collect())
    }
}

#[test]
fn what_concurrent_clients_are_told_is_linearizable() {
    check_callers(
        &serve(None),
        &[SHM, SHM, SHM, SHM_WITHOUT_ATOMICS, SHM_WITHOUT_ATOMICS, TCP, TCP],
        &[TCP, TCP, SHM, SHM_WITHOUT_ATOMICS],
        OPERATIONS,
    );
}

/// The table's authority is the device, or, where that has no atomics, the processor.
#[test]
fn what_concurrent_clients_over_rdma_are_told_is_linearizable() {
    for device in rdma_devices("linearizability over RDMA") {
        check_callers(
            &serve(Some(device)),
            &[VERBS, VERBS, VERBS, VERBS_WITHOUT_ATOMICS, SHM, TCP],
            &[VERBS, VERBS_WITHOUT_ATOMICS, SHM, TCP],
            OPERATIONS_OVER_RDMA,
        );
    }
}

/// Checks what callers of a server are told who come by `sessions` and `clients` and make so many calls each.
fn check_callers(farside: &Embedded, sessions: &[Way], clients: &[Way], operations: usize) {
    let history = record_callers(farside, sessions, clients, |number| number < operations);
    assert_eq!(show(&history), 0, "nothing keeps an operation from its end");
    check(&history).unwrap_or_else(|failure| panic!("{failure}"));
}

/// Records what is told to threads with a session over one of `sessions` each, and to threads with a client over one of
/// `clients` each, for as long as `goes_on` says so, which is asked before each call with its caller's number of calls.
pub(crate) fn record_callers(
    farside: &Embedded,
    sessions: &[Way],
    clients: &[Way],
    goes_on: impl Fn(usize) -> bool + Sync,
) -> History<&'static str, Content> {
    let (began, start) = (&Instant::now(), &Barrier::new(sessions.len() + clients.len()));
    let goes_on = &goes_on;
    // Connected beforehand: whoever waits at the barrier does not fail.
    let shared = connect(farside, sessions[0]);
    let sessions = sessions.iter().enumerate().map(|(number, way)| {
        // Two sessions of one client share more than two of two clients do.
        let client = if number < 2 { shared.clone() } else { connect(farside, *way) };
        client.session().unwrap()
    });
    let sessions = sessions.collect::<Vec<_>>();
    let clients = clients.iter().map(|way| connect(farside, *way)).collect::<Vec<_>>();

    let mut recorders = thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut numbers = 0..;
        for session in sessions {
            let caller = Caller::new(session, numbers.next().unwrap(), began);
            threads.push(scope.spawn(|| {
                start.wait();
                vec![block_on(caller.run(goes_on))]
            }));
        }
        for client in clients {
            let callers: Vec<_> = (numbers.by_ref().take(AT_ONCE))
                .map(|number| Caller::new(client.clone(), number, began))
                .collect();
            threads.push(scope.spawn(|| {
                start.wait();
                block_on(join_all(callers.into_iter().map(|caller| caller.run(goes_on))))
            }));
        }
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    // What is left in the end is part of the history.
    let mut last = Caller::new(farside.session().unwrap(), u32::MAX, began);
    KEYS.iter().for_each(|key| block_on(last.perform(key, Operation::Get)));
    recorders.push(last.recorder);

    History::from_recorders(recorders)
}

/// Prints what was reported how often. Returns how many operations did not report.
pub(crate) fn show(history: &History<&'static str, Content>) -> usize {
    let mut counts = HashMap::new();
    for entry in history.keys().flat_map(|(_, entries)| entries) {
        let outcome = match &entry.response {
            Response::Done(outcome) => Ok(outcome),
            Response::Indeterminate => Err("indeterminate"),
            Response::Failed => Err("failed"),
        };
        let told = outcome.map_or_else(
            |error| error,
            |outcome| match outcome {
                Outcome::Stored { version: None } => "absorbed",
                Outcome::Stored { .. } => match entry.operation {
                    Operation::Put { .. } => "put",
                    Operation::PutIfAbsent { .. } => "put as it was absent",
                    _ => "exchanged",
                },
                Outcome::Found { .. } => "found",
                Outcome::NotFound => "not found",
                Outcome::Exists => "exists",
                Outcome::Mismatch => "mismatch",
                Outcome::Added { .. } => "added",
                Outcome::NotACounter => "not a counter",
                Outcome::Deleted | Outcome::Absent => "deleted",
            },
        );
        *counts.entry(told).or_insert(0) += 1;
    }
    println!("{} operations: {counts:?}", history.len());
    ["indeterminate", "failed"].into_iter().filter_map(|told| counts.get(told)).sum()
}
