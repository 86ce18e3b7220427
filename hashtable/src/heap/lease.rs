//! Leases, and what becomes of them when their session ends.

use super::chunk::State;
use super::chunks::Chunks;
use super::{Heap, SessionError};
use alloc::vec::Vec;
use farside_protocol::limits::TAG_PERIOD;
use farside_protocol::{Class, Life};

/// A log of leases is left alone up to this many stale ones.
const LOG_SLACK: usize = 64;

/// Why there is no lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LeaseError {
    /// No block of the class is free now, but some are on their way.
    #[error(
        "no block of this size is free now; ask again when the first one's quarantine is over, at {until_ns} ns"
    )]
    Quarantined {
        /// When the first of them passes its quarantine. If that is not after now, it waits only for the caller's
        /// [`Heap::free`].
        until_ns: u64,
    },
    /// No block of the class is free or on its way, and no memory can be given to the class.
    #[error("memory for blocks of this size is used up; delete keys, or give the shard more memory")]
    Full,
    /// The session was never opened, or has ended.
    #[error("the session is not open, so nothing can be leased to it; open a new one")]
    NoSession,
}

/// A block that an ended session left behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Orphan {
    /// Its life.
    pub life: Life,
    /// Its class: how much there is to read.
    pub class: Class,
}

/// What a walk of the index found out about an orphan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finding {
    /// A chain leads to its record: the session had published it.
    Reachable,
    /// No chain does, and no tentative word of it is left.
    Unreachable,
}

impl Heap {
    /// Opens the session that its server numbers `session`.
    pub fn open_session(&mut self, session: u64) -> Result<(), SessionError> {
        self.sessions.open(session)
    }

    /// Leases up to `max` blocks of `class` to a session and appends their lives to `lives`, at least one if `max`
    /// is not 0. How much one session may hold is for the caller to limit, see [`Heap::leased_bytes`].
    ///
    /// When the pool runs out, chunks of other classes that have been empty for long enough are recycled: O(1) for
    /// each chunk ever cut, but not for each call.
    pub fn lease(
        &mut self,
        session: u64,
        class: Class,
        max: usize,
        now_ns: u64,
        lives: &mut Vec<Life>,
    ) -> Result<(), LeaseError> {
        let now_ns = self.advance(now_ns);
        let by = self.sessions.find_live(session).ok_or(LeaseError::NoSession)?;
        let ripe_ns = now_ns.checked_sub(self.quarantine.rest_ns().saturating_mul(TAG_PERIOD));
        let before = lives.len();
        lives.extend((0..max).map_while(|_| self.chunks.lease(class, by, ripe_ns)));
        let leased = &lives[before..];
        if leased.is_empty() && max > 0 {
            return Err(self.refusal(class, now_ns));
        }
        let holder = self.sessions.get_mut(by);
        holder.blocks += leased.len();
        holder.bytes += (leased.len() * class.size()) as u64;
        holder.log.extend(leased);
        if holder.log.len() > 2 * holder.blocks + LOG_SLACK {
            holder.log.retain(|&life| is_leased(&self.chunks, life));
        }
        Ok(())
    }

    fn refusal(&self, class: Class, now_ns: u64) -> LeaseError {
        let resting = self.quarantine.of(class);
        match resting.front() {
            _ if self.blocks(class).quarantined > resting.len() as u64 => {
                LeaseError::Quarantined { until_ns: now_ns }
            }
            Some(first) => LeaseError::Quarantined { until_ns: first.until_ns },
            None => LeaseError::Full,
        }
    }

    /// Bytes leased to a session; 0 for one that is unknown.
    pub fn leased_bytes(&self, session: u64) -> u64 {
        self.sessions.find(session).map_or(0, |slot| self.sessions.get(slot).bytes)
    }

    /// Ends a session, after its fence (rule T5), and returns the blocks still leased to it: nobody else can have
    /// written them, and their records may or may not be reachable. They stay as they are until each is
    /// [resolved](Heap::resolve). Called again, it returns those that are not; for an unknown session, none.
    pub fn end_session(&mut self, session: u64) -> Vec<Orphan> {
        let Some(slot) = self.sessions.find(session) else { return Vec::new() };
        let log = &self.sessions.get(slot).log;
        let orphans = log.iter().filter(|&&life| is_leased(&self.chunks, life)).map(|&life| {
            let place = self.chunks.locate(life.block).expect("a leased block has an entry");
            Orphan { life, class: self.chunks.chunk(place.chunk).class }
        });
        let orphans = orphans.collect();
        self.sessions.end(slot);
        orphans
    }

    /// Settles what became of an orphan, by a check of the index that began after its session's fence. What is
    /// unreachable rests from now on, as readers may have come by its tentative word until the check (rule T6).
    /// Returns false, and does nothing, unless `life` is leased to an ended session: another client that won the
    /// slot past a reachable orphan may have retired it meanwhile.
    pub fn resolve(&mut self, life: Life, finding: Finding, now_ns: u64) -> bool {
        let now_ns = self.advance(now_ns);
        match self.chunks.current(life) {
            Some((place, from @ State::Leased { by })) if self.sessions.get(by).ended => {
                match finding {
                    Finding::Reachable => self.publish(place, by),
                    Finding::Unreachable => self.quarantine(place, from, now_ns),
                }
                true
            }
            _ => false,
        }
    }
}

/// Whether a session still holds the lease of a life: the one in whose log it stands, as a life is leased once.
pub(super) fn is_leased(chunks: &Chunks, life: Life) -> bool {
    matches!(chunks.current(life), Some((_, State::Leased { .. })))
}
