//! One connected queue pair: posts chains, and knows of each whether it has completed.

use super::lane::{Registered, VerbsLane};
use super::remote::RemoteShard;
use crate::clock::coarse_ns;
use farside_hashtable::{Chain, Lost, Step};
use farside_verbs_sys::{
    CmId, Completion, LocalSlice, Operation, PostError, QueuePair, SendFlags, SendList, VerbsError,
};
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// Work requests of the longest chain: its steps, of which those longer than the longest message are cut.
const CHAIN_REQUESTS: usize = 16;

/// Work requests of a queue pair that are posted and not completed, of all its lanes.
pub(super) const SEND_REQUESTS: u32 = 512;

/// Work requests that are held back to be posted together, at most. The other half of the places is left to chains that
/// were given up.
const HELD_REQUESTS: usize = SEND_REQUESTS as usize / 2;

/// Work requests of a list for which there is one completion, at most about: so much of it can be dealt with while the
/// device is at the rest.
const SIGNALLED_TOGETHER: usize = 16;

/// Completions that are taken from the device at a time.
const POLL_BATCH: usize = 16;

/// A chain that has not completed for longer is not waited for by the next ones: the connection counts as broken.
const STUCK_NS: u64 = 2_000_000_000;

/// How long [`Queue::rest`] waits for a completion: deadlines are kept to this.
const REST: Duration = Duration::from_millis(1);

/// A chain that was posted and not yet asked for.
struct Posted {
    token: u32,
    since_ns: u64,
    outcome: Option<Result<(), Lost>>,
    /// The memory of a chain that was given up, to be kept until the device is done with it.
    kept: Option<Registered>,
}

/// A connection. Belongs to one thread.
pub(super) struct Queue {
    // Before the memory of chains that were given up: after its end the device touches none of it.
    pair: QueuePair,
    // In the order in which they were posted, and in which they complete.
    posted: RefCell<Vec<Posted>>,
    /// What is held back, and whether more is to be. It carries nothing inline, so it borrows nothing.
    held: RefCell<Option<Box<SendList<'static, HELD_REQUESTS>>>>,
    holds: Cell<bool>,
    next_token: Cell<u32>,
    failed: Cell<bool>,
    // Last: it takes leave of the peer.
    id: CmId,
}

/// Why a chain was not posted.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("a step leaves the shard or its buffer")]
    Bounds,
    #[error(transparent)]
    Post(#[from] PostError),
}

impl Queue {
    pub(super) fn new(pair: QueuePair, id: CmId) -> Self {
        Self {
            pair,
            posted: RefCell::default(),
            held: RefCell::default(),
            holds: Cell::new(false),
            next_token: Cell::new(0),
            failed: Cell::new(false),
            id,
        }
    }

    /// Whether it works, as far as is known.
    #[inline]
    pub(super) fn is_intact(&self) -> bool {
        !self.failed.get() && !self.is_stuck()
    }

    /// WRITEs of at most so many bytes carry them in the request, which spares the device a look at this memory.
    fn inline_len(&self) -> usize {
        self.pair.inline_len_max() as usize
    }

    #[cfg(test)]
    pub(super) fn pair(&self) -> &QueuePair {
        &self.pair
    }

    /// The number of the server's end.
    pub(super) fn peer(&self) -> Result<u32, VerbsError> {
        Ok(self.pair.settings()?.peer)
    }

    /// The device and its port.
    pub(super) fn device(&self) -> String {
        format!("{} port {}", self.pair.domain().context().name(), self.id.port())
    }

    fn is_stuck(&self) -> bool {
        let posted = self.posted.borrow();
        posted.first().is_some_and(|oldest| coarse_ns().saturating_sub(oldest.since_ns) > STUCK_NS)
    }

    /// Posts `chain` to `shard` with one doorbell and one completion, or holds it back.
    pub(super) fn post(&self, lane: &mut VerbsLane, shard: &RemoteShard, chain: &Chain) -> Result<(), Lost> {
        if self.failed.get() || !lane.holds(chain) {
            return Err(Lost);
        }
        let inline_len = if self.holds.get() { 0 } else { self.inline_len() };
        lane.prepare(self.pair.domain(), chain, inline_len).map_err(|error| {
            tracing::error!("{error}");
            Lost
        })?;
        let token = self.next_token.replace(self.next_token.get().wrapping_add(1));
        let posted = if self.holds.get() {
            self.post_held(token, lane, shard, chain)
        } else {
            self.post_now(token, lane, shard, chain)
        };
        if let Err(refusal) = posted {
            // A list that a provider refused may have begun.
            self.fail();
            tracing::error!("a chain was not posted: {refusal}");
            return Err(Lost);
        }
        let posted = Posted { token, since_ns: coarse_ns(), outcome: None, kept: None };
        self.posted.borrow_mut().push(posted);
        lane.flight = Some(token);
        Ok(())
    }

    fn post_now(
        &self,
        token: u32,
        lane: &VerbsLane,
        shard: &RemoteShard,
        chain: &Chain,
    ) -> Result<(), Refusal> {
        let mut list = SendList::<CHAIN_REQUESTS>::new();
        let written = |len| (len <= self.inline_len()).then(|| lane.written(len));
        self.push(&mut list, token, lane, shard, chain, written)?;
        list.signal_last();
        Ok(self.pair.post_send(&mut list)?)
    }

    fn post_held(
        &self,
        token: u32,
        lane: &VerbsLane,
        shard: &RemoteShard,
        chain: &Chain,
    ) -> Result<(), Refusal> {
        let mut held = self.held.borrow_mut();
        let list = held.get_or_insert_default();
        if list.len() + CHAIN_REQUESTS > HELD_REQUESTS {
            list.signal_last();
            self.pair.post_send(list)?;
        }
        self.push(list, token, lane, shard, chain, |_| None)?;
        if list.silent() >= SIGNALLED_TOGETHER {
            list.signal_last();
        }
        Ok(())
    }

    /// From here on chains are held back. What has completed by now is known, and what completes later is not asked for.
    pub(super) fn hold(&self) {
        self.holds.set(true);
        if !self.posted.borrow().is_empty() {
            self.take_completions();
        }
    }

    /// Posts the chains that were held back, with one doorbell.
    pub(super) fn release(&self) {
        self.holds.set(false);
        let mut held = self.held.borrow_mut();
        let Some(list) = held.as_mut() else { return };
        list.signal_last();
        if self.failed.get() {
            list.clear();
        } else if let Err(error) = self.pair.post_send(list) {
            tracing::error!("held chains were not posted: {error}");
            self.fail();
        }
    }

    /// Waits for a completion, for a while, unless what it would be of is still held back.
    pub(super) fn rest(&self) {
        if self.holds.get() || self.posted.borrow().iter().all(|posted| posted.outcome.is_some()) {
            return;
        }
        let completions = self.pair.send_queue();
        let waited = completions.request_event().and_then(|()| {
            // One that came before the request causes no event.
            if self.take_completions() { Ok(true) } else { completions.wait(REST) }
        });
        if let Err(error) = waited {
            tracing::error!("{error}");
            self.fail();
        }
    }

    /// Adds `chain` to `list`, silent, with those bytes of WRITEs in it that `written` has for their length.
    fn push<'a, const N: usize>(
        &self,
        list: &mut SendList<'a, N>,
        token: u32,
        lane: &VerbsLane,
        shard: &RemoteShard,
        chain: &Chain,
        written: impl Fn(usize) -> Option<&'a [u8]>,
    ) -> Result<(), Refusal> {
        let registered = lane.registered.as_ref().ok_or(Refusal::Bounds)?;
        let in_at = VerbsLane::in_at(chain);
        let longest = self.pair.message_len_max() as usize & !7;
        // The lane's memory is kept until the chain has completed, also if it is given up.
        let local = |at, len| registered.slice(at, len).map(LocalSlice::unbound).map_err(|_| Refusal::Bounds);
        for (number, step) in chain.iter().enumerate() {
            let (at, len) = match *step {
                Step::Read { at, len, .. } | Step::Write { at, len } => (at, len as usize),
                Step::CompareSwap { at, .. } => (at, 8),
            };
            let reach = |from: usize, len: usize| {
                let (at, len) = (at + from as u64, len as u64);
                let writes = matches!(step, Step::Write { .. });
                let there = if writes { shard.reach_to_write(at, len) } else { shard.reach(at, len) };
                there.ok_or(Refusal::Bounds)
            };
            for from in (0..len).step_by(longest) {
                let part = longest.min(len - from);
                let remote = reach(from, part)?;
                let operation = match *step {
                    Step::Read { to, .. } => {
                        Operation::Read { into: local(in_at + to as usize + from, part)?, from: remote }
                    }
                    Step::Write { .. } => match written(len) {
                        Some(bytes) => Operation::WriteInline { bytes, to: remote },
                        None => Operation::Write { from: local(VerbsLane::OUT_AT + from, part)?, to: remote },
                    },
                    Step::CompareSwap { expect, new, .. } => Operation::CompareSwap {
                        found: local(VerbsLane::found_at(number), 8)?,
                        at: remote,
                        expect,
                        new,
                    },
                };
                list.push(token, operation, SendFlags::SILENT)?;
            }
        }
        Ok(())
    }

    /// Whether the chain in flight on `lane` has completed.
    pub(super) fn poll(&self, lane: &mut VerbsLane, chain: &mut Chain) -> Option<Result<(), Lost>> {
        let token = lane.flight.expect("asked for a chain that was posted");
        let asks = || !self.holds.get() && self.take_completions();
        let outcome = self.taken(token).or_else(|| asks().then(|| self.taken(token))?)?;
        lane.flight = None;
        let answered = outcome.and_then(|()| lane.collect(chain));
        if outcome.is_ok() && answered.is_err() {
            tracing::warn!(
                "{} completed a chain and has not answered it; its connection is ended",
                self.device()
            );
            self.fail();
        }
        Some(answered)
    }

    /// Takes out what is known of a chain.
    fn taken(&self, token: u32) -> Option<Result<(), Lost>> {
        let mut posted = self.posted.borrow_mut();
        // They complete in order: where the oldest has not, none has.
        posted.first()?.outcome.as_ref()?;
        let number = posted.iter().position(|posted| posted.token == token)?;
        let outcome = posted[number].outcome?;
        posted.remove(number);
        Some(outcome)
    }

    /// Keeps the memory of the chain in flight on `lane` until it has completed.
    pub(super) fn abandon(&self, lane: &mut VerbsLane) {
        let Some(token) = lane.flight.take() else { return };
        let mut posted = self.posted.borrow_mut();
        if let Some(number) = posted.iter().position(|posted| posted.token == token) {
            match posted[number].outcome {
                Some(_) => drop(posted.remove(number)),
                None => posted[number].kept = lane.registered.take(),
            }
        }
    }

    /// The fence: what was posted before executes no more once all of it has completed.
    pub(super) fn poll_fence(&self) -> Option<Result<(), Lost>> {
        self.take_completions();
        if self.failed.get() {
            // Packets may still be on their way, until the server has ended its side.
            return Some(Err(Lost));
        }
        self.posted.borrow().is_empty().then_some(Ok(()))
    }

    /// Whether there were any.
    fn take_completions(&self) -> bool {
        let mut completions = [Completion::EMPTY; POLL_BATCH];
        let count = match self.pair.send_queue().poll(&mut completions) {
            Ok(count) => count,
            Err(error) => {
                tracing::error!("{error}");
                self.fail();
                return true;
            }
        };
        for completion in &completions[..count] {
            self.pair.retire(completion);
            if let Err(status) = completion.result() {
                tracing::debug!("a chain was lost: {status}");
                self.fail();
            } else {
                self.completed(completion.token());
            }
        }
        count > 0
    }

    /// A completion stands for all that was posted before.
    fn completed(&self, token: u32) {
        let mut posted = self.posted.borrow_mut();
        let Some(number) = posted.iter().position(|posted| posted.token == token) else { return };
        for posted in &mut posted[..=number] {
            posted.outcome.get_or_insert(Ok(()));
        }
        // Nobody asks for those that were given up, and the device is done with their memory.
        let mut numbers = 0..;
        posted.retain(|posted| numbers.next() > Some(number) || posted.kept.is_none());
    }

    /// After one error nothing more is carried out, and what was may not be known.
    fn fail(&self) {
        self.failed.set(true);
        for posted in self.posted.borrow_mut().iter_mut() {
            posted.outcome.get_or_insert(Err(Lost));
        }
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("pair", &self.pair)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}
