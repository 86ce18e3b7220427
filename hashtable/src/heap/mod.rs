//! The server's side of a shard's memory: who may write which block, and when it may be used again.
//!
//! ```text
//!          lease              report: published
//!  Free ----------> Leased -----------------------> Published
//!   ^                 |     resolve: reachable          |
//!   |                 | report: retired, returned       | report: retired
//!   |                 | resolve: unreachable            | sweep: not reached
//!   |                 v                                 |
//!   |  free        Quarantined <------------------------'
//!   +----- Draining <---' due, Q later
//!   '- or Worn, when the block's counts are used up
//! ```
//! A life, a block with its lease count, goes this way once; at the next lease the block starts another one. A
//! life is *out* while it is leased or published. Nothing here touches the memory itself, does I/O or reads a
//! clock: time is an argument, and one that goes back counts as the latest seen.
//!
//! Reports come from clients. They are believed where the design says so and ignored otherwise, never an error:
//! late and repeated ones are normal. A hostile one can retire what is still in use, which is no more than the same
//! client could do by one-sided writes; so the caller passes on reports only of sessions that may make those.
//!
//! | file | what |
//! |---|---|
//! | `extents` | the common pool |
//! | `chunk`, `chunks` | blocks of one class; the heap cut into chunks |
//! | `quarantine` | rule T1 |
//! | `sessions` | who holds leases |
//! | `lease` | leases, and what becomes of them when their session ends |
//! | `report` | rule T6 |
//! | `sweep` | published blocks that nothing leads to any more |
//! | `ledger` | what must outlive the heap |
//! | `recovery` | a heap made anew from that |
//! | `usage`, `check` | the books, and that they add up |

mod check;
mod chunk;
mod chunks;
mod extents;
mod lease;
mod ledger;
mod quarantine;
mod recovery;
mod report;
mod sessions;
mod sweep;
#[cfg(test)]
mod tests;
mod usage;

pub use lease::{Finding, LeaseError, Orphan};
pub use ledger::{Ledger, blank};
pub use recovery::{LedgerError, Recovery};
pub use report::{Ignored, Report};
pub use sessions::{SESSIONS_MAX, SessionError};
pub use sweep::SweepProgress;
pub use usage::{Blocks, Usage};

use alloc::vec::Vec;
use chunk::State;
use chunks::{Chunks, Place};
use farside_protocol::{Class, Geometry, Life};
use quarantine::Quarantine;
use sessions::Sessions;
use sweep::Sweep;

/// The memory of one shard.
///
/// The owner serializes calls. Each takes time in proportion to its batch, but for the cases that say otherwise.
/// Order of calls: [`Heap::open_session`], then [`Heap::lease`] and [`Heap::report`] at will, then
/// [`Heap::end_session`] and a [`Heap::resolve`] for each orphan. Meanwhile, when [`Heap::next_due_ns`] has come,
/// [`Heap::due`] and later [`Heap::free`]; and now and then a sweep, see [`Heap::begin_mark`].
#[derive(Debug)]
pub struct Heap {
    chunks: Chunks,
    quarantine: Quarantine,
    sessions: Sessions,
    sweep: Sweep,
    ignored: Ignored,
    /// Latest time seen.
    now_ns: u64,
}

impl Heap {
    /// The memory of a new shard, all of it free. Retired blocks rest for `quarantine_ns`.
    ///
    /// # Panics
    /// If `quarantine_ns` is 0.
    pub fn new(geometry: Geometry, quarantine_ns: u64) -> Self {
        Self::over(Chunks::new(geometry), quarantine_ns)
    }

    fn over(chunks: Chunks, quarantine_ns: u64) -> Self {
        assert!(quarantine_ns > 0, "without a quarantine readers would meet reused blocks");
        Self {
            chunks,
            quarantine: Quarantine::new(quarantine_ns),
            sessions: Sessions::default(),
            sweep: Sweep::default(),
            ignored: Ignored::default(),
            now_ns: 0,
        }
    }

    /// When [`Heap::due`] will next have something; `None`: nothing rests.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.quarantine.next_due_ns()
    }

    /// Appends at most `max` lives whose quarantine is over to `lives`, in no order. The caller hands them to
    /// [`Heap::free`] as soon as no reader of its own can still hold a reference into them: quarantine protects
    /// only readers that keep rule T2's deadline. If `max` came, there may be more.
    ///
    /// `now_ns` is taken as it is: it may come from a clock that lags behind the one which stamped the retirements,
    /// as those readers' clock does, and must not be ahead of it.
    pub fn due(&mut self, now_ns: u64, max: usize, lives: &mut Vec<Life>) {
        self.advance(now_ns);
        for _ in 0..max {
            let Some(life) = self.quarantine.pop_due(now_ns) else { return };
            let (place, state) = self.chunks.current(life).expect("a resting block has no later life");
            debug_assert_eq!(state, State::Quarantined);
            self.chunks.change(place, State::Draining);
            lives.push(life);
        }
    }

    /// Makes lives that came from [`Heap::due`] ready to be leased anew. Others among them are left alone.
    pub fn free(&mut self, lives: &[Life]) {
        for &life in lives {
            if let Some((place, State::Draining)) = self.chunks.current(life) {
                self.chunks.free(place, self.now_ns);
            }
        }
    }

    /// Bytes by what they are used for.
    pub fn usage(&self) -> Usage {
        let pool = self.chunks.pool.bytes();
        let mut usage = Usage { capacity: self.chunks.capacity(), free: pool, ..Usage::default() };
        for class in Class::all() {
            let (blocks, size) = (self.blocks(class), class.size() as u64);
            usage.free += blocks.free * size;
            usage.leased += blocks.leased * size;
            usage.published += blocks.published * size;
            usage.quarantined += blocks.quarantined * size;
        }
        usage.unusable = usage.capacity - usage.used() - usage.quarantined - usage.free;
        usage
    }

    /// Blocks of one class.
    pub fn blocks(&self, class: Class) -> Blocks {
        self.chunks.supplies[class.index()].blocks
    }

    /// What was ignored since the heap was made.
    pub fn ignored(&self) -> Ignored {
        self.ignored
    }

    fn advance(&mut self, now_ns: u64) -> u64 {
        self.now_ns = self.now_ns.max(now_ns);
        self.now_ns
    }

    /// Retires a life that is out: it rests from `now_ns` on.
    fn quarantine(&mut self, place: Place, from: State, now_ns: u64) {
        let chunk = self.chunks.chunk(place.chunk);
        let (class, life) = (chunk.class, chunk.life(place.index));
        if let State::Leased { by } = from {
            self.sessions.give_up(by, class.size() as u64);
        }
        self.chunks.change(place, State::Quarantined);
        self.quarantine.push(class, life, now_ns);
    }

    /// Notes that a leased life is reachable. It counts as seen by a sweep that is under way.
    fn publish(&mut self, place: Place, by: sessions::SessionSlot) {
        let size = self.chunks.chunk(place.chunk).class.size();
        self.sessions.give_up(by, size as u64);
        self.chunks.change(place, State::Published { mark: self.sweep.mark() });
    }
}
