//! The data path: what runs for each operation.

use crate::capabilities::{AtomicScope, Capabilities, Denied};
use crate::channel::Lifeline;
use crate::clock;
use crate::fabric::{Buffers, Fabric, Lane, Posted};
use crate::region::{Access, AccessError, Region};
use farside_hashtable::{Chain, Lost, Step};
use std::sync::Arc;

/// The shards of one server in this process's memory.
#[derive(Clone, Debug)]
pub struct Shm {
    regions: Box<[Arc<Region>]>,
    capabilities: Capabilities,
    /// The session by which the memory came; none in the server itself.
    session: Option<Arc<Lifeline>>,
}

impl Shm {
    /// The fabric over the server's own `regions`, in the order of the shards, without what is `denied`.
    pub fn new(regions: impl IntoIterator<Item = Arc<Region>>, denied: Denied) -> Self {
        Self::over(regions, denied, None)
    }

    /// The fabric over regions that came with a session, and are not touched any more once that has ended.
    pub(super) fn of_session(
        regions: impl IntoIterator<Item = Arc<Region>>,
        denied: Denied,
        session: Arc<Lifeline>,
    ) -> Self {
        Self::over(regions, denied, Some(session))
    }

    fn over(
        regions: impl IntoIterator<Item = Arc<Region>>,
        denied: Denied,
        session: Option<Arc<Lifeline>>,
    ) -> Self {
        let regions: Box<[_]> = regions.into_iter().collect();
        let writable = regions.iter().all(|region| region.access() == Access::ReadWrite);
        let capabilities = Capabilities {
            read: true,
            write: writable,
            atomics: if writable { AtomicScope::Global } else { AtomicScope::None },
            ordered: true,
        };
        Self { regions, capabilities: capabilities.without(denied), session }
    }

    /// The regions, in the order of the shards.
    pub fn regions(&self) -> &[Arc<Region>] {
        &self.regions
    }

    /// Reads a word of each cache line of `len` bytes at `at`, for a READ that comes soon: the memory of several is
    /// waited for once if they were touched before.
    #[inline]
    pub fn touch(&self, shard: usize, at: u64, len: usize) {
        if let Some(region) = self.regions.get(shard) {
            for line in (at..at + len as u64).step_by(64) {
                let _ = std::hint::black_box(region.load(line));
            }
        }
    }

    /// Whether the session stands, as far as is known.
    #[inline]
    pub fn is_intact(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.is_intact())
    }

    #[inline]
    fn execute(&self, lane: &mut ShmLane, shard: usize, chain: &mut Chain) -> Result<(), Refusal> {
        let region = self.regions.get(shard).ok_or(Refusal::NoSuchShard)?;
        for step in chain {
            match *step {
                Step::Read { at, len, to } => {
                    let (to, len) = (to as usize, len as usize);
                    let into = lane.buffers.incoming.get_mut(to..).and_then(|into| into.get_mut(..len));
                    region.read(at, into.ok_or(Refusal::Buffer)?)?;
                }
                Step::Write { at, len } => {
                    region.write(at, lane.buffers.outgoing.get(..len as usize).ok_or(Refusal::Buffer)?)?;
                }
                Step::CompareSwap { at, expect, new, ref mut found } => {
                    *found = region.compare_swap(at, expect, new)?;
                }
            }
        }
        Ok(())
    }
}

/// Why a chain cannot be executed: none of these can happen to a plan that is right.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("there is no such shard")]
    NoSuchShard,
    #[error("a READ or WRITE is longer than the buffer that was reserved for it")]
    Buffer,
    #[error(transparent)]
    Access(#[from] AccessError),
}

#[cold]
fn refuse(refusal: &Refusal) -> Lost {
    tracing::error!("a step on shared memory was refused: {refusal}; this is a defect of the client");
    Lost
}

impl Fabric for Shm {
    type Lane = ShmLane;

    #[inline]
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn open_lane(&self) -> ShmLane {
        ShmLane::default()
    }

    #[inline]
    fn post(&self, lane: &mut ShmLane, shard: usize, chain: &mut Chain) -> Posted {
        if !self.is_intact() {
            return Posted::Done(Err(Lost));
        }
        let outcome = self.execute(lane, shard, chain).map_err(|refusal| refuse(&refusal));
        // What came after the end of the session was done to memory that may have been let go. (This look comes after the
        // chain: its last step is a READ or a compare-and-swap, and a fence is behind both.)
        Posted::Done(outcome.and_then(|()| if self.is_intact() { Ok(()) } else { Err(Lost) }))
    }

    fn poll(&self, _lane: &mut ShmLane, _chain: &mut Chain) -> Option<Result<(), Lost>> {
        unreachable!("a chain on shared memory is never pending")
    }

    fn abandon(&self, _lane: &mut ShmLane) {
        unreachable!("a lane of shared memory is never in flight")
    }

    fn poll_fence(&self, _shard: usize) -> Option<Result<(), Lost>> {
        Some(if self.is_intact() { Ok(()) } else { Err(Lost) })
    }

    #[inline]
    fn now(&self) -> u64 {
        clock::coarse_ns()
    }

    fn fine_ns(&self) -> u64 {
        clock::fine_ns()
    }

    #[inline]
    fn wall_ms(&self) -> u64 {
        clock::wall_ms()
    }
}

/// The buffers of one operation.
#[derive(Default, Debug)]
pub struct ShmLane {
    buffers: Buffers,
}

impl Lane for ShmLane {
    #[inline]
    fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    #[inline]
    fn buffers_mut(&mut self) -> &mut Buffers {
        &mut self.buffers
    }

    #[inline]
    fn in_flight(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
