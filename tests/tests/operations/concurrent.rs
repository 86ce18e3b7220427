//! Many clients at once on a few keys of one live server; what they were told must be linearizable.
//!
//! Whom the scheduler lets run when is no part of the seed, so a failure comes again only by chance. It prints the
//! operations that contradict each other.

use crate::target::{SHM, SHM_WITHOUT_ATOMICS, TCP, Target, Way, connect};
use farside::server::Config;
use farside::{Client, Embedded};
use farside_tests::content::Content;
use farside_tests::history::{History, Recorder, Response};
use farside_tests::linearizability::check;
use farside_tests::operation::{Operation, Outcome, Time, Version};
use futures_util::future::join_all;
use pollster::block_on;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::HashMap;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// Two on which everything happens, and one that only counts.
const KEYS: [&str; 3] = ["hot", "warm", COUNTER];
const COUNTER: &str = "counter";

const OPERATIONS: usize = 500;

/// Threads with a session each.
const SESSIONS: [Way; 7] = [SHM, SHM, SHM, SHM_WITHOUT_ATOMICS, SHM_WITHOUT_ATOMICS, TCP, TCP];
/// Threads with a client each, whose operations are under way together.
const CLIENTS: [Way; 4] = [TCP, TCP, SHM, SHM_WITHOUT_ATOMICS];
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

impl<'a, T: Target> Caller<'a, T> {
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

    async fn run(mut self) -> Recorder<&'static str, Content> {
        let mut key = KEYS[0];
        for _ in 0..OPERATIONS {
            // Stays with a key for some operations, so that records supersede each other quickly.
            if self.random.random_bool(0.2) {
                key = KEYS[self.random.random_range(0..KEYS.len())];
            }
            // Lets the others run who take longer, that all work at the same time to the end.
            if self.random.random_bool(0.1) {
                thread::yield_now();
            }
            let operation = self.draw(key);
            self.perform(key, operation).await;
        }
        self.recorder
    }

    async fn perform(&mut self, key: &'static str, operation: Operation<Content>) {
        let call = self.recorder.call(self.now(), key, operation.clone());
        let outcome = self.target.perform(key.as_bytes(), &operation).await.outcome;
        let now = self.now();
        if let Outcome::Found { version: Some(version), .. } | Outcome::Stored { version: Some(version) } =
            outcome
        {
            self.seen.insert(key, version);
        }
        self.recorder.respond(call, now, Response::Done(outcome));
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
    // A short quarantine, so that blocks come round within the test.
    let config = Config { memory: 32 << 20, quarantine: Duration::from_millis(20), ..Config::default() };
    let farside = Embedded::start(config, Client::builder()).unwrap();
    let (began, start) = (&Instant::now(), &Barrier::new(SESSIONS.len() + CLIENTS.len()));
    // Connected beforehand: whoever waits at the barrier does not fail.
    let shared = connect(&farside, SHM);
    let sessions = SESSIONS.iter().enumerate().map(|(number, way)| {
        // Two sessions of one client share more than two of two clients do.
        let client = if number < 2 { shared.clone() } else { connect(&farside, *way) };
        client.session().unwrap()
    });
    let (sessions, clients) = (sessions.collect::<Vec<_>>(), CLIENTS.map(|way| connect(&farside, way)));

    let mut recorders = thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut numbers = 0..;
        for session in sessions {
            let caller = Caller::new(session, numbers.next().unwrap(), began);
            threads.push(scope.spawn(|| {
                start.wait();
                vec![block_on(caller.run())]
            }));
        }
        for client in clients {
            let callers: Vec<_> = (numbers.by_ref().take(AT_ONCE))
                .map(|number| Caller::new(client.clone(), number, began))
                .collect();
            threads.push(scope.spawn(|| {
                start.wait();
                block_on(join_all(callers.into_iter().map(Caller::run)))
            }));
        }
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    // What is left in the end is part of the history.
    let mut last = Caller::new(farside.session().unwrap(), u32::MAX, began);
    KEYS.iter().for_each(|key| block_on(last.perform(key, Operation::Get)));
    recorders.push(last.recorder);

    let history = History::from_recorders(recorders);
    show(&history);
    check(&history).unwrap_or_else(|failure| panic!("{failure}"));
}

/// Prints what was reported how often.
fn show(history: &History<&'static str, Content>) {
    let mut counts = HashMap::new();
    for entry in history.keys().flat_map(|(_, entries)| entries) {
        let Response::Done(outcome) = &entry.response else { panic!("{entry}") };
        let told = match outcome {
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
        };
        *counts.entry(told).or_insert(0) += 1;
    }
    println!("{} operations: {counts:?}", history.len());
}
