//! What carries out operations, one at a time: the one-sided half, and the figures. A [`Session`](crate::Session)
//! has one, a [`Client`](crate::Client) a few.

mod inbox;
mod leases;
mod one_sided;
mod scan;
mod way;

pub(crate) use inbox::{Arrival, Inbox, Leased};
pub(crate) use leases::Refusal;
pub(crate) use one_sided::{Link, OneSided, Report};
pub(crate) use scan::ScanStep;
pub(crate) use way::{Steps, Way};

use crate::connection::Connection;
use crate::error::Error;
use crate::scan::Scan;
use crate::stats::{Counts, Operation, Stats};
use crate::task::{Attempt, Outcome, Slice, Task, Together};
use crate::value::Value;
use farside_protocol::wire::{Response, ScanPosition};
use farside_protocol::{Class, Key};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

/// How long an operation waits for a queue pair that is being connected before it asks for it again.
const CONNECTING: Duration = Duration::from_millis(1);

/// Fields in the order in which they go: the memory is unmapped before the connection, whose end tells the server
/// that it is.
pub(crate) struct Core {
    near: Option<OneSided>,
    waits: bool,
    inbox: Arc<Inbox>,
    connection: Arc<Connection>,
    hint_bytes: usize,
    /// How often leases were taken in.
    taken_in: u64,
    /// The shard that the last GET left with something to do.
    due: Option<usize>,
    pub(crate) stats: Stats,
    /// How many operations there had been when it was last looked after.
    looked_after: u64,
    /// The type of the operation at hand, and that type's counts before it.
    began: (Operation, Counts),
}

impl Core {
    /// Over `connection`, with `hint_bytes` of memory for hints. `waits`: whether its callers may be kept while a queue
    /// pair connects.
    pub(crate) fn new(connection: Arc<Connection>, hint_bytes: usize, waits: bool) -> Self {
        Self {
            near: connection.one_sided(hint_bytes, waits),
            waits,
            inbox: Arc::default(),
            taken_in: 0,
            connection,
            hint_bytes,
            due: None,
            stats: Stats::default(),
            looked_after: 0,
            began: (Operation::Get, Counts::default()),
        }
    }

    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Whether leases were taken in since it had been done `times`.
    pub(crate) fn has_taken_in_since(&self, times: u64) -> bool {
        self.taken_in != times
    }

    pub(crate) fn inbox(&self) -> Arc<Inbox> {
        Arc::clone(&self.inbox)
    }

    /// From here [`Core::last_counts`] counts.
    #[inline]
    pub(crate) fn begin(&mut self, operation: Operation) {
        self.began = (operation, self.stats[operation].counts);
    }

    /// What the operation did that was begun last. Kept as a difference: each counter is written once, where it
    /// is counted.
    pub(crate) fn last_counts(&self) -> Counts {
        let (operation, before) = self.began;
        self.stats[operation].counts - before
    }

    /// What the last operation read one-sidedly.
    #[inline]
    pub(crate) fn incoming(&self) -> &[u8] {
        self.near.as_ref().map_or(&[], OneSided::incoming)
    }

    /// Goes over to another connection. What the old session held and owed is the server's to resolve.
    pub(crate) fn rebind(&mut self, connection: &Arc<Connection>) {
        if !Arc::ptr_eq(&self.connection, connection) {
            self.near = None;
            self.near = connection.one_sided(self.hint_bytes, self.waits);
            self.due = None;
            self.inbox.close();
            self.inbox = Arc::default();
            // Who waits for leases of the old one is not to wait for the new one's.
            self.taken_in += 1;
            self.connection = Arc::clone(connection);
        }
    }

    /// Tries `task` in this core, within `slice`, which begins now.
    #[inline]
    pub(crate) fn attempt<'a, T: Task<'a>>(
        &mut self,
        task: &mut T,
        slice: Slice,
        outcome: &mut Outcome<T::Answer>,
    ) -> Attempt {
        if !self.near.as_ref().is_some_and(OneSided::is_intact)
            && let Some(attempt) = self.reach()
        {
            return attempt;
        }
        if task.operation().is_update() {
            if !self.connection.may_update() {
                self.ended(task.operation(), false);
                return outcome.fail(Error::ReadOnly);
            }
            if self.near.as_ref().is_some_and(|near| !near.may_change()) {
                return self.broken();
            }
            self.take_in_leases();
        }
        if let Some(shard) = self.due.take() {
            self.tend(shard, None);
        }
        let Some(near) = &mut self.near else { return Attempt::TwoSided };
        let counts = &mut self.stats[task.operation()].counts;
        let round_trips_before = counts.fabric.round_trips;
        let (attempt, left) = near.attempt(task, slice, self.taken_in, &mut counts.fabric, outcome);
        counts.hint_hits += u64::from(left.hinted);
        counts.judge_hint(left.hinted, counts.fabric.round_trips - round_trips_before);
        self.look_after(task.operation(), left.shard, left.wanted);
        if let Attempt::Done = attempt {
            self.ended(task.operation(), outcome.is_answer());
        }
        attempt
    }

    /// Without a one-sided half that is intact: `None` if there is one now, or none is to be had.
    #[cold]
    fn reach(&mut self) -> Option<Attempt> {
        if self.near.is_some() || self.connection.is_broken() {
            return Some(self.broken());
        }
        if !self.connection.reaches_memory() {
            return None;
        }
        self.near = self.connection.one_sided(self.hint_bytes, self.waits);
        match self.near {
            Some(_) => None,
            None if self.connection.is_broken() => Some(self.broken()),
            None => Some(Attempt::Later(CONNECTING)),
        }
    }

    /// Passes a page of `scan` from `from` on to `each`, within `slice`.
    pub(crate) fn scan(
        &mut self,
        from: ScanPosition,
        scan: &Scan,
        slice: Slice,
        each: impl FnMut(&[u8], Value<&[u8]>),
    ) -> ScanStep {
        if !self.near.as_ref().is_some_and(OneSided::is_intact)
            && let Some(attempt) = self.reach()
        {
            return attempt.into();
        }
        let counts = &mut self.stats[Operation::Scan].counts;
        match &mut self.near {
            Some(near) if near.reads() => near.scan(from, scan, slice, &mut counts.fabric, each),
            _ => {
                counts.two_sided += 1;
                ScanStep::TwoSided
            }
        }
    }

    /// Whether operations of this type gain by [`Core::attempt_together`], and can be.
    pub(crate) fn gains_together(&self, operation: Operation) -> bool {
        self.near.as_ref().is_some_and(|near| {
            near.gains_together() && near.is_intact() && (near.may_change() || !operation.is_update())
        })
    }

    /// Tries `tasks`, which are of one type, at once. What came of each is handed to `done`, with its number and what
    /// it read.
    pub(crate) fn attempt_together<'a, T: Together<'a>>(
        &mut self,
        tasks: &mut [T],
        slice: Slice,
        mut done: impl FnMut(usize, &mut T, Attempt, Outcome<T::Answer>, &[u8]),
    ) {
        let Some(operation) = tasks.first().map(Task::operation) else { return };
        if operation.is_update() {
            if !self.connection.may_update() {
                for (number, task) in tasks.iter_mut().enumerate() {
                    let mut outcome = Outcome::unknown();
                    let attempt = outcome.fail(Error::ReadOnly);
                    self.ended(operation, false);
                    done(number, task, attempt, outcome, &[]);
                }
                return;
            }
            self.take_in_leases();
        }
        let near = self.near.as_mut().expect("it gains from being together");
        let figures = &mut self.stats[operation];
        let mut due = Vec::new();
        near.attempt_together(
            tasks,
            slice,
            self.taken_in,
            |number, task, (attempt, outcome), (left, counts), read| {
                figures.counts.fabric += counts;
                figures.counts.hint_hits += u64::from(left.hinted);
                figures.counts.judge_hint(left.hinted, counts.round_trips);
                if let Attempt::Done = attempt {
                    figures.count += 1;
                    figures.errors += u64::from(!outcome.is_answer());
                }
                if due.last() != Some(&(left.shard, left.wanted)) {
                    due.push((left.shard, left.wanted));
                }
                done(number, task, attempt, outcome, read);
            },
        );
        for (shard, wanted) in due {
            self.look_after(operation, shard, wanted);
        }
    }

    /// After an operation in `shard`, which wants blocks perhaps.
    #[inline]
    fn look_after(&mut self, operation: Operation, shard: usize, wanted: Option<(Class, u16)>) {
        if wanted.is_none() && !self.near.as_ref().is_some_and(|near| near.is_due(shard)) {
            return;
        }
        if operation.is_update() {
            self.tend(shard, wanted);
        } else {
            // Not now: what a GET lends lies where bringing slots forward would read to.
            self.due = Some(shard);
        }
    }

    #[cold]
    fn broken(&self) -> Attempt {
        // The connection may still look well when only this core's queue pair has failed.
        self.connection.fail("a queue pair failed".into());
        Attempt::Broken
    }

    /// Does what is due in `shard`. What was published is reported before blocks are asked for: the server counts
    /// them as held until it is.
    #[cold]
    fn tend(&mut self, shard: usize, wanted: Option<(Class, u16)>) {
        if let Some(near) = &mut self.near
            && let Some(report) = near.tend(shard, wanted.is_some(), &mut self.stats)
        {
            self.report(report);
        }
        if let (Some((class, count)), Some(near)) = (wanted, &self.near) {
            self.stats.lease_requests += 1;
            self.connection.lease(shard, class, count, near.queue_pair(), &self.inbox);
        }
    }

    fn report(&mut self, report: Report) {
        self.stats.reports += 1;
        self.connection.report(report);
    }

    #[inline]
    fn take_in_leases(&mut self) {
        for arrival in self.inbox.take() {
            self.take_in(arrival);
        }
    }

    fn take_in(&mut self, Arrival { shard, class, leased }: Arrival) {
        self.taken_in += 1;
        if let Some(near) = &mut self.near {
            near.lease_arrived(shard, class, leased).into_iter().for_each(|report| self.report(report));
        }
    }

    /// Counts an operation that has ended.
    #[inline]
    pub(crate) fn ended(&mut self, operation: Operation, well: bool) {
        let stats = &mut self.stats[operation];
        stats.count += 1;
        stats.errors += u64::from(!well);
    }

    /// Has the memory of `keys` fetched, which are looked up next, all at once.
    pub(crate) fn touch<'a>(&self, keys: impl Iterator<Item = Key<'a>> + Clone) {
        if let Some(near) = &self.near {
            near.touch(keys);
        }
    }

    /// Takes in the answer to `task`'s request, asked over `connection` at `asked_ns`; `None` if it is no answer to
    /// it.
    pub(crate) fn settle<'a, T: Task<'a>>(
        &mut self,
        task: &mut T,
        response: &Response<'_>,
        asked_ns: u64,
        connection: &Arc<Connection>,
    ) -> Option<T::Answer> {
        // Where a record is in a table that is no more says nothing about the one that this core has gone over to.
        let same = Arc::ptr_eq(&self.connection, connection);
        task.settle(response, asked_ns, self.near.as_mut().filter(|_| same))
    }

    /// Counts a request to the server's CPU.
    pub(crate) fn count_two_sided<'a>(&mut self, task: &impl Task<'a>) {
        self.stats[task.operation()].counts.two_sided += 1;
    }

    /// [`Core::flush`] if there was no operation since the last call.
    pub(crate) fn flush_if_idle(&mut self) {
        let operations = self.stats.operations().map(|(_, stats)| stats.count).sum();
        if mem::replace(&mut self.looked_after, operations) == operations {
            self.flush();
        }
    }

    /// Does all that is owed: brings slots forward, tells the server about blocks.
    pub(crate) fn flush(&mut self) {
        if self.connection.is_broken() {
            return;
        }
        if let Some(near) = &mut self.near {
            near.settle_up(&mut self.stats).into_iter().for_each(|report| self.report(report));
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.flush();
        for arrival in self.inbox.close() {
            self.take_in(arrival);
        }
        if let Some(near) = &mut self.near
            && !self.connection.is_broken()
        {
            near.give_up_all().into_iter().for_each(|report| self.report(report));
        }
    }
}
