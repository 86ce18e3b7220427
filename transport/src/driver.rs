//! Runs plans over a fabric: [`LaneIo`] is the plans' [`Io`], [`drive`] polls a plan to its end.
//!
//! On shared memory every chain completes inside its post, so a plan runs through in one poll and compiles to
//! straight code. On a network [`LaneIo`] answers Pending *without* arranging to be woken: whoever polls polls
//! again, as [`drive`] does.

use crate::fabric::{Fabric, Lane, Posted};
use farside_hashtable::{Chain, Io, Lost, Step};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// What operations did on the fabric.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Chains posted, each one round trip. (On a fabric without order each step is a chain.)
    pub round_trips: u64,
    /// READs posted.
    pub reads: u64,
    /// WRITEs posted.
    pub writes: u64,
    /// Compare-and-swaps posted.
    pub cas: u64,
    /// Bytes that the READs asked for.
    pub bytes_read: u64,
    /// Bytes that the WRITEs carried.
    pub bytes_written: u64,
    /// Pauses before another attempt.
    pub retries: u64,
    /// Chains that gave no completion by the deadline or were lost with the connection.
    pub lost: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.round_trips += other.round_trips;
        self.reads += other.reads;
        self.writes += other.writes;
        self.cas += other.cas;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.retries += other.retries;
        self.lost += other.lost;
    }
}

impl Counts {
    #[inline]
    fn count(&mut self, chain: &Chain) {
        self.round_trips += 1;
        for step in chain {
            match *step {
                Step::Read { len, .. } => {
                    self.reads += 1;
                    self.bytes_read += u64::from(len);
                }
                Step::Write { len, .. } => {
                    self.writes += 1;
                    self.bytes_written += u64::from(len);
                }
                Step::CompareSwap { .. } => self.cas += 1,
            }
        }
    }
}

/// First and longest backoff, as powers of two of a nanosecond: 0.5 us and 1 ms. The first is about the time in
/// which another client finishes what it is at; the last keeps a loser's wait below any deadline in use.
const PAUSE_FIRST_LOG2: u32 = 9;
const PAUSE_LAST_LOG2: u32 = 20;

/// One operation's way to one shard.
///
/// Borrowed parts belong to the session: the lane's buffers and the counts outlive the operation, so that
/// starting one allocates nothing. Dropping it in mid-flight is safe: the fabric keeps the lane's buffers.
#[derive(Debug)]
pub struct LaneIo<'s, F: Fabric> {
    fabric: &'s F,
    lane: &'s mut F::Lane,
    counts: &'s mut Counts,
    shard: usize,
    deadline_ns: u64,
}

impl<'s, F: Fabric> LaneIo<'s, F> {
    /// The way of an operation to `shard` that gives up chains without a completion at `deadline_ns` of
    /// [`Fabric::now`].
    #[inline]
    pub fn new(
        fabric: &'s F,
        lane: &'s mut F::Lane,
        counts: &'s mut Counts,
        shard: usize,
        deadline_ns: u64,
    ) -> Self {
        debug_assert!(!lane.in_flight(), "a lane serves one operation at a time");
        Self { fabric, lane, counts, shard, deadline_ns }
    }

    #[inline]
    fn post(&mut self, chain: &mut Chain) -> Posted {
        self.counts.count(chain);
        let posted = self.fabric.post(self.lane, self.shard, chain);
        self.counts.lost += u64::from(matches!(posted, Posted::Done(Err(Lost))));
        posted
    }

    /// Waits for the chain in flight, to the deadline: a network may never tell.
    async fn completion(&mut self, chain: &mut Chain) -> Result<(), Lost> {
        let mut patience = Patience::default();
        let outcome = poll_fn(|_| {
            if let Some(outcome) = self.fabric.poll(self.lane, chain) {
                return Poll::Ready(outcome);
            }
            if patience.look(self.fabric).is_none_or(|now| now < self.deadline_ns) {
                return Poll::Pending;
            }
            self.fabric.abandon(self.lane);
            Poll::Ready(Err(Lost))
        })
        .await;
        self.counts.lost += u64::from(outcome.is_err());
        outcome
    }

    /// Posts each step as a chain of its own, after the completion of the one before it.
    #[cold]
    async fn run_stepwise(&mut self, chain: &mut Chain) -> Result<(), Lost> {
        for step in chain.iter_mut() {
            let mut single = Chain::from_iter([*step]);
            match self.post(&mut single) {
                Posted::Done(outcome) => outcome?,
                Posted::Pending => self.completion(&mut single).await?,
            }
            *step = single[0];
        }
        Ok(())
    }
}

impl<F: Fabric> Io for LaneIo<'_, F> {
    /// Posts before it is polled: what is done by then leaves nothing for the future to keep.
    #[inline]
    fn run(&mut self, chain: &mut Chain) -> impl Future<Output = Result<(), Lost>> {
        let stepwise = chain.len() > 1 && !self.fabric.capabilities().ordered;
        let posted = if stepwise { Posted::Pending } else { self.post(chain) };
        async move {
            match posted {
                Posted::Done(outcome) => outcome,
                Posted::Pending if stepwise => self.run_stepwise(chain).await,
                Posted::Pending => self.completion(chain).await,
            }
        }
    }

    async fn fence(&mut self) -> Result<(), Lost> {
        poll_fn(|_| match self.fabric.poll_fence(self.shard) {
            Some(outcome) => Poll::Ready(outcome),
            None if self.fabric.now() < self.deadline_ns => Poll::Pending,
            None => Poll::Ready(Err(Lost)),
        })
        .await
    }

    async fn pause(&mut self, attempt: u32) {
        self.counts.retries += 1;
        let began = self.fabric.fine_ns();
        let wait = 1u64 << attempt.saturating_add(PAUSE_FIRST_LOG2).min(PAUSE_LAST_LOG2);
        // Between half of it and all: two clients that collided once would else collide again.
        let jitter = began.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let until = began + wait / 2 + ((jitter * wait) >> 33);
        poll_fn(|_| if self.fabric.fine_ns() < until { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    #[inline]
    fn now(&self) -> u64 {
        self.fabric.now()
    }

    #[inline]
    fn wall_ms(&self) -> u64 {
        self.fabric.wall_ms()
    }

    #[inline]
    fn reserve_incoming(&mut self, len: usize) {
        self.lane.reserve_incoming(len);
    }

    #[inline]
    fn incoming(&self) -> &[u8] {
        self.lane.incoming()
    }

    #[inline]
    fn outgoing(&mut self, len: usize) -> &mut [u8] {
        self.lane.outgoing(len)
    }
}

impl<F: Fabric> Drop for LaneIo<'_, F> {
    #[inline]
    fn drop(&mut self) {
        if self.lane.in_flight() {
            self.fabric.abandon(self.lane);
        }
    }
}

/// Polls for a completion between two looks at the clock, which costs as much.
const POLLS_A_LOOK: u32 = 8;

/// How long completions are polled for before the device is asked to tell: longer than they take, unless something is
/// the matter.
const BUSY_NS: u64 = 300_000;

/// Of who polls in vain.
#[derive(Default)]
struct Patience {
    polls: u32,
    since_ns: Option<u64>,
}

impl Patience {
    /// After another poll in vain: now and then the time, after a rest if it has been long.
    #[inline]
    fn look(&mut self, fabric: &impl Fabric) -> Option<u64> {
        self.polls += 1;
        if !self.polls.is_multiple_of(POLLS_A_LOOK) {
            return None;
        }
        let now = fabric.now();
        if now - *self.since_ns.get_or_insert(now) > BUSY_NS {
            fabric.rest();
        }
        Some(now)
    }
}

/// How often [`drive`] polls before it begins to yield the processor to others between polls.
const SPINS: u32 = 128;

/// Polls `plan` to its end on this thread. It ends by the plan's deadline, at which [`LaneIo`] gives up whatever
/// the plan waits for. On a hot path it is handed over pinned, so that its kilobytes are not moved.
#[inline]
pub fn drive<T>(plan: impl Future<Output = T>) -> T {
    let mut plan = pin!(plan);
    let mut context = Context::from_waker(Waker::noop());
    let mut polls = 0u32;
    loop {
        if let Poll::Ready(outcome) = plan.as_mut().poll(&mut context) {
            return outcome;
        }
        wait(&mut polls);
    }
}

/// Polls several plans over one fabric to their ends on this thread, in turns: what they ask for in one turn is posted
/// together. Each plan goes over a lane of its own. Their answers, in their order.
pub fn drive_together<T, P: Future<Output = T>>(
    fabric: &impl Fabric,
    plans: impl IntoIterator<Item = P>,
) -> Vec<T> {
    let mut plans: Vec<_> = plans.into_iter().map(Box::pin).collect();
    let mut answers: Vec<_> = plans.iter().map(|_| None).collect();
    let mut context = Context::from_waker(Waker::noop());
    let (mut open, mut polls, mut patience) = (plans.len(), 0, Patience::default());
    while open > 0 {
        fabric.hold();
        let open_before = open;
        for (plan, answer) in plans.iter_mut().zip(&mut answers).filter(|(_, answer)| answer.is_none()) {
            if let Poll::Ready(outcome) = plan.as_mut().poll(&mut context) {
                *answer = Some(outcome);
                open -= 1;
            }
        }
        fabric.release();
        if open < open_before {
            (polls, patience) = (0, Patience::default());
        } else {
            patience.look(fabric);
            wait(&mut polls);
        }
    }
    answers.into_iter().map(|answer| answer.expect("none is open")).collect()
}

#[cold]
fn wait(polls: &mut u32) {
    *polls = polls.saturating_add(1);
    if *polls < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
}

#[cfg(test)]
mod tests;
