//! The thread that keeps the table tidy: it clears away what dead clients left, frees blocks whose quarantine is
//! over, and sweeps the index slowly. When nothing changes it sleeps, without a timer.

use crate::pass::{Found, Pass, Tools};
use crate::remains::Remains;
use crate::session::Session;
use crate::state::State;
use crate::stats::Role;
use crate::thread;
use farside_transport::clock::wall_ms;
use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between the end of a pass and the beginning of the next, if something has changed; and when memory has run out.
const REST: Duration = Duration::from_secs(10);
const REST_IN_HURRY: Duration = Duration::from_secs(1);

/// How much longer a pass rests after each step than the step took: it has 2 % of a processor, in hurry 20 %.
const PACE: u32 = 49;
const PACE_IN_HURRY: u32 = 4;

/// How often blocks are freed that nobody has asked for.
const RELEASE_EVERY: Duration = Duration::from_secs(1);

/// The clock is looked at this often at least while some key expires far in the future.
const EXPIRY_MAX: Duration = Duration::from_secs(3600);

enum Order {
    /// Something has changed.
    Wake,
    /// A session that shared memory has ended.
    ClearAway(Arc<Session>),
    Stop,
}

/// The other threads' end: what they tell the sweep.
pub(crate) struct Sweeper {
    orders: Sender<Order>,
    /// Whether something has changed since the last pass began.
    changed: AtomicBool,
    /// Whether memory has run out since the last pass began.
    hurry: AtomicBool,
}

impl Sweeper {
    /// With what its thread will need.
    pub(crate) fn new() -> (Self, Orders) {
        let (orders, receiver) = mpsc::channel();
        (Self { orders, changed: AtomicBool::new(false), hurry: AtomicBool::new(false) }, Orders(receiver))
    }

    /// Blocks or slots have changed. Called often.
    pub(crate) fn changed(&self) {
        self.raise(&self.changed);
    }

    /// Memory has run out: perhaps there is some to be found.
    pub(crate) fn hurry(&self) {
        self.raise(&self.hurry);
    }

    /// Has the remains of a session cleared away that shared memory, now that its connection has ended.
    pub(crate) fn clear_away(&self, session: Arc<Session>) {
        self.order(Order::ClearAway(session));
    }

    pub(crate) fn stop(&self) {
        self.order(Order::Stop);
    }

    fn raise(&self, flag: &AtomicBool) {
        // Read first: all threads read it, and it is rarely news.
        if !flag.load(Ordering::Relaxed) && !flag.swap(true, Ordering::AcqRel) {
            self.order(Order::Wake);
        }
    }

    fn order(&self, order: Order) {
        // Fails only if the sweep has ended, as it does when the server does.
        let _ = self.orders.send(order);
    }
}

/// What the thread of the sweep is told.
pub(crate) struct Orders(Receiver<Order>);

/// What sweeps have done since the start.
#[derive(Default)]
pub(crate) struct SweepCounts {
    passes: AtomicU64,
    expired: AtomicU64,
    forwarded: AtomicU64,
    damaged: AtomicU64,
    lost: AtomicU64,
    unsettled: AtomicU64,
    /// Blocks that ended sessions had not accounted for.
    orphans: AtomicU64,
}

impl SweepCounts {
    fn add(&self, found: &Found) {
        for (count, more) in [
            (&self.passes, 1),
            (&self.expired, found.expired),
            (&self.forwarded, found.forwarded),
            (&self.damaged, found.damaged),
            (&self.lost, found.lost),
            (&self.unsettled, found.unsettled),
        ] {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }

    pub(crate) fn add_orphans(&self, count: u64) {
        self.orphans.fetch_add(count, Ordering::Relaxed);
    }

    /// Their names in the statistics, with their values.
    pub(crate) fn list(&self) -> [(&'static str, u64); 7] {
        [
            ("farside_sweep_passes_total", &self.passes),
            ("farside_sweep_expired_total", &self.expired),
            ("farside_sweep_forwarded_total", &self.forwarded),
            ("farside_sweep_damaged_total", &self.damaged),
            ("farside_sweep_lost_blocks_total", &self.lost),
            ("farside_sweep_unsettled_slots_total", &self.unsettled),
            ("farside_orphan_blocks_total", &self.orphans),
        ]
        .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }
}

/// Starts the thread.
pub(crate) fn spawn(state: Arc<State>, orders: Orders, grace: Duration) -> io::Result<JoinHandle<()>> {
    thread::spawn(state, "farside-sweep".into(), Role::Upkeep, move |state| {
        Sweep::new(state, grace).run(&orders.0);
    })
}

struct Sweep {
    tools: Tools,
    /// An expired key is deleted when it has been expired for so long.
    grace: Duration,
    remains: Vec<Remains>,
    next_release: Instant,
    pass: Option<Pass>,
    /// When the pass under way takes its next step.
    next_step: Instant,
    /// Between the steps of the pass under way: so many times the time of a step.
    pace: u32,
    last_pass_ended: Instant,
    /// When a pass is worth its while although nothing has changed: some key will have been expired for long enough.
    next_expiry: Option<Instant>,
}

impl Sweep {
    fn new(state: Arc<State>, grace: Duration) -> Self {
        let now = Instant::now();
        Self {
            tools: Tools::new(state, grace),
            grace,
            remains: Vec::new(),
            next_release: now,
            pass: None,
            next_step: now,
            pace: PACE,
            last_pass_ended: now,
            next_expiry: None,
        }
    }

    fn run(mut self, orders: &Receiver<Order>) {
        loop {
            let order = match self.next_due() {
                Some(due) => orders.recv_timeout(due.saturating_duration_since(Instant::now())),
                None => orders.recv().map_err(RecvTimeoutError::from),
            };
            match order {
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Order::ClearAway(session)) => self.remains.push(Remains::of(session)),
                Ok(Order::Wake) | Err(RecvTimeoutError::Timeout) => {}
            }
            let now = Instant::now();
            self.clear_away(now);
            if self.next_release <= now {
                self.release(now);
            }
            if self.pass_due().is_some_and(|due| due <= now) {
                self.sweep(now);
            }
        }
    }

    /// When there is something to do, if nothing is ordered before.
    fn next_due(&self) -> Option<Instant> {
        let remains = self.remains.iter().map(|remains| remains.due).min();
        let resting = self.tools.state.shards.iter().any(|shard| shard.heap.lock().next_due_ns().is_some());
        let release = resting.then_some(self.next_release);
        [remains, release, self.pass_due()].into_iter().flatten().min()
    }

    /// When the pass goes on, or one begins; `None`: there is no reason for one.
    fn pass_due(&self) -> Option<Instant> {
        if self.pass.is_some() {
            return Some(self.next_step);
        }
        let sweeper = &self.tools.state.sweeper;
        let hurry = sweeper.hurry.load(Ordering::Acquire).then(|| self.last_pass_ended + REST_IN_HURRY);
        let rested = self.last_pass_ended + REST;
        let changed = sweeper.changed.load(Ordering::Acquire).then_some(rested);
        let expiry = self.next_expiry.map(|expiry| expiry.max(rested));
        [hurry, changed, expiry].into_iter().flatten().min()
    }

    fn clear_away(&mut self, now: Instant) {
        for remains in mem::take(&mut self.remains) {
            let is_due = remains.due <= now && !self.tools.state.stop.has_begun();
            let left = if is_due { remains.clear_away(&mut self.tools) } else { Some(remains) };
            self.remains.extend(left);
        }
    }

    /// Frees what nobody has asked for, so that the figures are true and the memory may change its use.
    fn release(&mut self, now: Instant) {
        for shard in &self.tools.state.shards {
            shard.release_due(&self.tools.epoch);
        }
        self.next_release = now + RELEASE_EVERY;
    }

    /// Begins a pass, or takes the next step of the one under way.
    fn sweep(&mut self, began: Instant) {
        let state = self.tools.state.clone();
        let mut pass = self.pass.take().unwrap_or_else(|| {
            // What changes from now on may be missed by this pass.
            state.sweeper.changed.store(false, Ordering::Release);
            let hurry = state.sweeper.hurry.swap(false, Ordering::AcqRel);
            self.pace = if hurry { PACE_IN_HURRY } else { PACE };
            Pass::begin(&state)
        });
        if !pass.step(&mut self.tools) {
            self.next_step = Instant::now() + began.elapsed() * self.pace;
            self.pass = Some(pass);
            return;
        }
        self.last_pass_ended = Instant::now();
        state.sweeps.add(&pass.found);
        let found = pass.found;
        tracing::debug!(?found, "swept");
        if found.unsettled > 0 {
            state.sweeper.changed();
        }
        self.next_expiry = found.expires_first_ms.map(|expires_ms| {
            let wait = Duration::from_millis(expires_ms.saturating_sub(wall_ms()));
            self.last_pass_ended + wait.min(EXPIRY_MAX) + self.grace
        });
    }
}
