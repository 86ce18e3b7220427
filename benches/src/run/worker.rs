//! One thread of the load generator: prepare a request, wait for its time, time it, note what came of it.
//!
//! Between the two readings of the clock there is nothing but the call under test. The loop neither allocates nor
//! locks; see [`exchange`](super::exchange) for what it does once a second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::clock::Clock;
use super::exchange::Exchange;
use super::inserts::{Inserts, Numbering};
use super::pacing::{Pacing, wait_until};
use super::request::Request;
use crate::generator::KeyChooser;
use crate::generator::random::Random;
use crate::target::scanned::Scanned;
use crate::target::{Answer, Session};
use crate::workload::keys::KeyFormat;
use crate::workload::mix::{Mix, Operation};
use crate::workload::scan::ScanLengths;
use crate::workload::value::{self, Stamp, ValueFormat};
use crate::workload::verify::{Mismatch, Verifier};

/// A run ends when one of its threads has seen nothing but failures for this long, nanoseconds.
const GIVE_UP_AFTER: u64 = 5_000_000_000;

/// Pause after a failed request, so that a store that fails at once is not hammered.
const PAUSE: Duration = Duration::from_millis(1);

/// What a worker is to do.
#[derive(Debug)]
pub struct Task<'a> {
    /// Which kinds of operations.
    pub mix: Mix,
    /// On which records.
    pub chooser: KeyChooser,
    /// With which keys.
    pub keys: KeyFormat,
    /// And which values.
    pub values: ValueFormat,
    /// How many records its scans ask for.
    pub scans: ScanLengths,
    /// This thread's random stream.
    pub random: Random,
    /// Which records it inserts.
    pub inserts: Inserts<'a>,
    /// How records are numbered.
    pub numbering: Numbering,
    /// When requests start.
    pub pacing: Pacing,
    /// Operations in one request.
    pub batch: usize,
    /// Operations to measure; `None` for no end.
    pub quota: Option<u64>,
    /// What marks this thread's writes; none for a load.
    pub origin: Option<u64>,
    /// Whether every read is checked.
    pub verify: bool,
}

/// When a phase begins and ends, on the workers' clock, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// The first request of an open loop is due.
    pub start: u64,
    /// Measuring begins; what ends before is warm-up.
    pub measure_from: u64,
    /// No request starts from here on.
    pub deadline: u64,
}

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// In which kind of operation.
    pub operation: Operation,
    /// On which key.
    pub key: String,
    /// What.
    pub what: String,
}

/// How a worker ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// When its last request ended, nanoseconds on the workers' clock.
    pub at: u64,
    /// Operations of an open loop that were due and never started.
    pub unissued: u64,
    /// The first thing that went wrong.
    pub problem: Option<Problem>,
    /// Whether it ended because it saw nothing but failures.
    pub gave_up: bool,
}

/// One thread at work.
#[derive(Debug)]
pub struct Worker<'a, S, C> {
    task: Task<'a>,
    session: S,
    clock: &'a C,
    stop: &'a AtomicBool,
    exchange: Exchange,
    request: Request,
    verifier: Option<Verifier>,
    /// Operations still to measure.
    left: u64,
    /// Requests made.
    requests: u64,
    /// Requests made that write.
    writes: u64,
    failing_since: Option<u64>,
    gave_up: bool,
    problem: Option<Problem>,
    /// Records whose insert failed: inserted again before new ones, or the newest record known to exist would never
    /// move past them.
    pending: Vec<u64>,
}

impl<'a, S: Session, C: Clock> Worker<'a, S, C> {
    /// Allocates all that the worker will need.
    #[must_use]
    pub fn new(task: Task<'a>, session: S, clock: &'a C, stop: &'a AtomicBool, exchange: Exchange) -> Self {
        Self {
            request: Request::new(
                task.batch,
                &task.keys,
                &task.values,
                if task.mix.reports(Operation::Scan) { task.scans.max() } else { 0 },
            ),
            verifier: task.origin.filter(|_| task.verify).map(Verifier::new),
            left: task.quota.unwrap_or(u64::MAX),
            requests: 0,
            writes: 0,
            failing_since: None,
            gave_up: false,
            problem: None,
            pending: Vec::with_capacity(task.batch),
            task,
            session,
            clock,
            stop,
            exchange,
        }
    }

    /// Works until the quota is done, the deadline has come, someone says stop, or there is no point in going on.
    pub fn run(mut self, times: Times) {
        self.exchange.begin(times.measure_from);
        let mut now = self.clock.now();
        while self.left > 0 && now < times.deadline && !self.gave_up {
            let Some(operation) = self.prepare() else { break };
            let Some(due) = self.wait(times) else { break };
            let start = self.clock.now();
            let delay = start.saturating_sub(due.unwrap_or(start));
            now = self.perform(operation, start, delay);
            self.requests += 1;
            self.conclude(operation, now);
        }
        let unissued = self.unissued(self.clock.now().min(times.deadline).saturating_sub(times.start));
        let Self { exchange, problem, gave_up, .. } = self;
        exchange.end(End { at: now, unissued, problem, gave_up });
    }

    /// Draws the next request and lays out its keys and values. `None` if there is nothing more to do.
    fn prepare(&mut self) -> Option<Operation> {
        let operation = self.task.mix.next(&mut self.task.random);
        let size = self.task.batch.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.request.indexes.clear();
        for _ in 0..size {
            let index = match operation {
                Operation::Insert => self.take_insert()?,
                _ => {
                    let newest = self.task.inserts.newest(self.task.numbering.loaded);
                    self.task.chooser.next(newest, &mut self.task.random)
                }
            };
            self.request.indexes.push(index);
        }
        self.request.records.clear();
        for (index, key) in self.request.indexes.iter().zip(&mut self.request.keys) {
            let record = self.task.numbering.record(*index);
            self.request.records.push(record);
            self.task.keys.write(record, key);
        }
        if operation == Operation::Scan {
            let Self { request, task, .. } = self;
            request.lengths.clear();
            request.lengths.extend((0..request.records.len()).map(|_| task.scans.draw(&mut task.random)));
        }
        if operation.writes() {
            self.writes += 1;
            // All writes of a request carry one stamp: which of two to the same key comes last is the store's choice.
            let stamp = match self.task.origin {
                Some(origin) => Stamp { origin, count: self.writes },
                None => Stamp { origin: 0, count: 0 },
            };
            for (record, value) in self.request.records.iter().zip(&mut self.request.written) {
                value.resize(self.task.values.draw(&mut self.task.random), 0);
                value::fill(value, *record, stamp);
            }
        }
        Some(operation)
    }

    fn take_insert(&mut self) -> Option<u64> {
        loop {
            if let Some(index) = self.pending.pop().or_else(|| self.task.inserts.take()) {
                return Some(index);
            }
            // Either the load is done, or a million records wait for one insert, which ends by its own deadline.
            if matches!(self.task.inserts, Inserts::Load { .. }) || self.stop.load(Ordering::Relaxed) {
                return None;
            }
            self.clock.sleep(PAUSE);
        }
    }

    /// Waits for the request's time and returns it: `Some(None)` in a closed loop. `None` if the phase ends before.
    fn wait(&self, times: Times) -> Option<Option<u64>> {
        let due = match self.task.pacing {
            Pacing::Closed => None,
            Pacing::Open(schedule) => Some(times.start.saturating_add(schedule.due(self.requests))),
        };
        let on_time = due.is_none_or(|due| {
            wait_until(due.min(times.deadline), self.clock, self.stop) && due < times.deadline
        });
        (on_time && !self.stop.load(Ordering::Relaxed)).then_some(due)
    }

    /// Makes the request, which starts `delay` ns late, and notes its figures. Returns when it ended.
    fn perform(&mut self, operation: Operation, start: u64, delay: u64) -> u64 {
        let size = self.request.size();
        match operation {
            Operation::Read => {
                let counts = self.request.get(&mut self.session);
                let end = self.clock.now();
                self.exchange.roll(end);
                self.exchange.note(operation, end - start, delay, counts, &self.request.read_answers[..size]);
                end
            }
            Operation::Scan => {
                let counts = self.request.scan(&mut self.session);
                let end = self.clock.now();
                self.exchange.roll(end);
                self.exchange.note(operation, end - start, delay, counts, &self.request.read_answers[..size]);
                let records: usize = self.request.scanned[..size].iter().map(Scanned::len).sum();
                self.exchange.note_scanned(records as u64);
                end
            }
            Operation::Update | Operation::Insert => {
                let counts = self.request.put(&mut self.session);
                let end = self.clock.now();
                self.exchange.roll(end);
                self.exchange.note(
                    operation,
                    end - start,
                    delay,
                    counts,
                    &self.request.write_answers[..size],
                );
                end
            }
            Operation::ReadModifyWrite => {
                let read = self.request.get(&mut self.session);
                let half = self.clock.now();
                let written = self.request.put(&mut self.session);
                let end = self.clock.now();
                self.exchange.roll(end);
                self.request.join();
                let Request { read_answers, write_answers, whole_answers, .. } = &self.request;
                self.exchange.note(Operation::Read, half - start, delay, read, &read_answers[..size]);
                self.exchange.note(Operation::Update, end - half, delay, written, &write_answers[..size]);
                let mut both = read;
                both += written;
                self.exchange.note(operation, end - start, delay, both, &whole_answers[..size]);
                end
            }
        }
    }

    /// Off the clock: checks what was read, remembers what was written, and decides whether to go on.
    fn conclude(&mut self, operation: Operation, now: u64) {
        let size = self.request.size();
        let mut failed = false;
        let read = match operation {
            Operation::Scan => Some(Operation::Scan),
            Operation::Read | Operation::ReadModifyWrite => Some(Operation::Read),
            Operation::Update | Operation::Insert => None,
        };
        if let Some(read) = read {
            let mut mismatched = 0;
            for item in 0..size {
                failed |= self.conclude_failure(read, item, self.request.read_answers[item]);
                let (wrong, first) =
                    if read == Operation::Scan { self.check_scan(item) } else { self.check(item) };
                mismatched += wrong;
                if let Some(mismatch) = first {
                    self.remember_problem(read, item, &mismatch);
                }
            }
            if mismatched > 0 {
                self.exchange.note_mismatched(read, mismatched);
            }
        }
        if operation.writes() {
            for item in 0..size {
                failed |= self.conclude_write(operation, item);
            }
        }
        self.exchange.note_ended(size as u64);
        if self.exchange.measuring() {
            self.left -= size as u64;
        }
        if failed {
            let is_load = matches!(self.task.inserts, Inserts::Load { .. });
            let since = *self.failing_since.get_or_insert(now);
            self.gave_up = is_load || now - since >= GIVE_UP_AFTER;
            if self.gave_up {
                // What is left of the phase is worth nothing, on the other threads too.
                self.stop.store(true, Ordering::Relaxed);
            }
            self.clock.sleep(PAUSE);
        } else {
            self.failing_since = None;
        }
    }

    /// How many records of a read are wrong, and what is wrong with it.
    fn check(&mut self, item: usize) -> (u64, Option<Mismatch>) {
        let Some(verifier) = &mut self.verifier else { return (0, None) };
        let mismatch = match self.request.read_answers[item] {
            Answer::Done => verifier.check(self.request.records[item], &self.request.read[item]).err(),
            Answer::NotFound => Some(Mismatch::Absent),
            Answer::Failed(_) => None,
        };
        (u64::from(mismatch.is_some()), mismatch)
    }

    /// How many records of a scan are wrong, and what is wrong with the first of them.
    fn check_scan(&mut self, item: usize) -> (u64, Option<Mismatch>) {
        let Some(verifier) = &mut self.verifier else { return (0, None) };
        let scanned = &self.request.scanned[item];
        let more = scanned.len() > self.request.lengths[item];
        let other = match self.request.read_answers[item] {
            // It began at the place of a record that exists.
            Answer::NotFound => Some(Mismatch::Absent),
            Answer::Done | Answer::Failed(_) => more.then_some(Mismatch::TooMany),
        };
        let (mut wrong, mut first) = (u64::from(other.is_some()), other);
        for (key, value) in scanned.iter() {
            if let Err(mismatch) = verifier.check_scanned(&self.task.keys, key, value) {
                wrong += 1;
                first.get_or_insert(mismatch);
            }
        }
        (wrong, first)
    }

    fn conclude_write(&mut self, operation: Operation, item: usize) -> bool {
        let answer = self.request.write_answers[item];
        let done = answer == Answer::Done;
        if done && let Some(verifier) = &mut self.verifier {
            verifier.wrote(self.request.records[item], self.writes);
        }
        if operation == Operation::Insert {
            let index = self.request.indexes[item];
            if done {
                self.task.inserts.acknowledge(index);
            } else {
                self.pending.push(index);
            }
        }
        self.conclude_failure(operation, item, answer)
    }

    fn conclude_failure(&mut self, operation: Operation, item: usize, answer: Answer) -> bool {
        let Answer::Failed(kind) = answer else { return false };
        if self.problem.is_none() {
            let what = self.session.last_failure().unwrap_or_else(|| kind.to_string());
            self.remember_problem(operation, item, &what);
        }
        true
    }

    /// Keeps the first one: what follows is mostly noise.
    fn remember_problem(&mut self, operation: Operation, item: usize, what: &dyn std::fmt::Display) {
        if self.problem.is_none() {
            let key = String::from_utf8_lossy(&self.request.keys[item]).into_owned();
            self.problem = Some(Problem { operation, key, what: what.to_string() });
        }
    }

    /// Operations that were due up to `now`, nanoseconds after the start, and not started, unless the quota is done.
    fn unissued(&self, now: u64) -> u64 {
        match self.task.pacing {
            Pacing::Open(schedule) if self.left > 0 => {
                schedule.due_before(now).saturating_sub(self.requests).saturating_mul(self.task.batch as u64)
            }
            _ => 0,
        }
    }
}
