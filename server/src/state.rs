//! What all threads of a server share.

use crate::budget::Budget;
use crate::fault::Faults;
use crate::region_dir::{DirLock, Recovered};
use crate::session::{Session, Sessions};
use crate::shard::Shard;
use crate::stats::{Counters, Threads};
use crate::sweep::{SweepCounts, Sweeper};
use crate::token::Tokens;
use crossbeam_epoch::Collector;
use farside_protocol::Authority;
use farside_protocol::wire::Rights;
use farside_transport::Denied;
use farside_transport::shm::Shm;
use farside_transport::verbs::{Listener, Own};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The server.
pub(crate) struct State {
    /// Drawn at random at the start.
    pub(crate) instance: u128,
    /// The running kernel's boot id: who has the same one can share memory.
    pub(crate) host: String,
    pub(crate) socket: Option<PathBuf>,
    /// Where queue pairs connect, if there is RDMA.
    pub(crate) rdma: Option<Listener>,
    pub(crate) tokens: Option<Tokens>,
    /// The most that a client may do to the memory itself.
    pub(crate) memory_rights: Rights,
    pub(crate) lease: Duration,
    pub(crate) shards: Box<[Arc<Shard>]>,
    /// Where the table lies, if it outlives the server.
    pub(crate) region_dir: Option<DirLock>,
    /// What was found there, if it was not new.
    pub(crate) recovered: Option<Recovered>,
    pub(crate) collector: Collector,
    pub(crate) sessions: Sessions,
    pub(crate) connections: Connections,
    /// For large requests that have begun to come in.
    pub(crate) budget: Budget,
    pub(crate) sweeper: Sweeper,
    pub(crate) sweeps: SweepCounts,
    /// One for each thread that serves connections.
    pub(crate) counters: Box<[Counters]>,
    pub(crate) faults: Faults,
    pub(crate) threads: Threads,
    pub(crate) started: Instant,
    pub(crate) stop: Stop,
}

/// Tells every thread to come to its end.
#[derive(Default)]
pub(crate) struct Stop {
    begun: AtomicBool,
    /// Notified when it begins.
    pub(crate) notify: Arc<Notify>,
}

impl Stop {
    pub(crate) fn begin(&self) {
        self.begun.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }
}

/// How many connections there are on each thread, and how many there may be in all.
pub(crate) struct Connections {
    of_worker: Box<[AtomicUsize]>,
    max: usize,
}

/// One connection's place among those that may be, with the thread that serves it.
pub(crate) struct Place {
    state: Arc<State>,
    worker: usize,
}

impl Place {
    pub(crate) fn worker(&self) -> usize {
        self.worker
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.state.connections.of_worker[self.worker].fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connections {
    pub(crate) fn new(workers: usize, max: usize) -> Self {
        Self { of_worker: (0..workers).map(|_| AtomicUsize::new(0)).collect(), max }
    }

    /// How many there are.
    pub(crate) fn now(&self) -> usize {
        self.of_worker.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// A place for one more connection, on the thread with the fewest, unless there are as many as may be.
    pub(crate) fn take_place(&self, state: &Arc<State>) -> Option<Place> {
        // Only the accepting thread adds, so nobody can take the last place in between.
        if self.now() >= self.max {
            return None;
        }
        let fewest = |worker: &usize| self.of_worker[*worker].load(Ordering::Relaxed);
        let worker = (0..self.of_worker.len()).min_by_key(fewest).expect("there is one worker at least");
        self.of_worker[worker].fetch_add(1, Ordering::Relaxed);
        Some(Place { state: state.clone(), worker })
    }
}

impl State {
    /// Ends a session whose connection has ended, which is the fence of one that shared memory.
    pub(crate) fn end_session(&self, session: Arc<Session>) {
        tracing::debug!(session = session.id, "session ended");
        if session.is_one_sided() {
            self.sweeper.clear_away(session);
        } else {
            // Its requests ran on this side, to their ends.
            self.sessions.forget(session.id);
        }
    }

    /// This server's memory as a fabric for plans that run in it, on one thread.
    pub(crate) fn fabric(&self) -> Own {
        let shm = Shm::new(self.shards.iter().map(|shard| shard.region.clone()), Denied::default());
        let is_the_devices = self.shards[0].superblock.authority == Authority::Nic;
        Own::new(shm, self.rdma.clone().filter(|_| is_the_devices))
    }
}
