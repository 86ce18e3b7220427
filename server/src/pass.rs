//! One pass of the sweep over a shard's index: slots that lag are brought forward, keys that expired long ago are
//! deleted, damaged records are dropped, and what nothing leads to any more is retired.

use crate::fault::log_fault;
use crate::shard::{SERVER_SESSION, Shard};
use crate::state::State;
use crossbeam_epoch::LocalHandle;
use farside_hashtable::duties::Duties;
use farside_hashtable::heap::{Report, SweepProgress};
use farside_hashtable::plan::upkeep::{Tally, tend_line};
use farside_protocol::limits::SLOTS_PER_LINE;
use farside_protocol::{Life, SlotIndex, SlotState, SlotWord};
use farside_transport::clock::fine_ns;
use farside_transport::shm::ShmLane;
use farside_transport::verbs::Own;
use farside_transport::{Counts, Fabric, LaneIo, drive};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a step of a pass takes about: it is looked at the clock after so many lines.
const STEP: Duration = Duration::from_millis(1);
const LINES_BETWEEN_LOOKS: u64 = 32;

/// How long the slots of one line may take.
const LINE: Duration = Duration::from_millis(500);

/// Blocks that are looked at in a step when the lost ones are retired, with the heap locked.
const BLOCKS_PER_STEP: usize = 4096;

/// What a sweep works with.
pub(crate) struct Tools {
    pub(crate) state: Arc<State>,
    pub(crate) fabric: Own,
    pub(crate) lane: ShmLane,
    pub(crate) counts: Counts,
    pub(crate) epoch: LocalHandle,
    /// An expired key is deleted when it has been expired for so long that every client's clock agrees.
    grace_ms: u64,
    duties: Duties,
    visited: Vec<Life>,
}

impl Tools {
    pub(crate) fn new(state: Arc<State>, grace: Duration) -> Self {
        let fabric = state.fabric();
        Self {
            lane: fabric.open_lane(),
            counts: Counts::default(),
            epoch: state.collector.register(),
            grace_ms: grace.as_millis() as u64,
            duties: Duties::default(),
            visited: Vec::new(),
            fabric,
            state,
        }
    }
}

/// How far a pass has come, and what it found.
#[derive(Debug)]
pub(crate) struct Pass {
    shard: usize,
    phase: Phase,
    pub(crate) found: Found,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Lines before this one are tended; `complete` unless some slot of theirs could not be looked at.
    Tending {
        line: u64,
        complete: bool,
    },
    Retiring,
}

const START: Phase = Phase::Tending { line: 0, complete: true };

/// What a pass found in all shards.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Found {
    pub(crate) keys: u64,
    pub(crate) expired: u64,
    pub(crate) forwarded: u64,
    pub(crate) damaged: u64,
    /// Published records that nothing led to any more.
    pub(crate) lost: u64,
    /// Slots that changed too often to be looked at.
    pub(crate) unsettled: u64,
    /// When the first of the keys that are left expires, milliseconds of the Unix epoch.
    pub(crate) expires_first_ms: Option<u64>,
}

impl Pass {
    /// At the beginning.
    pub(crate) fn begin(state: &State) -> Self {
        state.shards[0].heap.lock().begin_mark();
        Self { shard: 0, phase: START, found: Found::default() }
    }

    /// Goes on for about [`STEP`]. Returns whether the pass is over.
    pub(crate) fn step(&mut self, tools: &mut Tools) -> bool {
        let shard = tools.state.shards[self.shard].clone();
        match self.phase {
            Phase::Tending { line, complete } => {
                let unsettled = self.found.unsettled;
                let next = self.tend(tools, &shard, line);
                let complete = complete && self.found.unsettled == unsettled;
                self.phase = match next {
                    Some(line) => Phase::Tending { line, complete },
                    None if complete => Phase::Retiring,
                    // What seems unreachable might be reachable from a slot that was not looked at.
                    None => return self.next_shard(&tools.state),
                };
            }
            Phase::Retiring => match shard.heap.lock().finish_mark(fine_ns(), BLOCKS_PER_STEP) {
                SweepProgress::More => {}
                SweepProgress::Done { retired } => {
                    self.found.lost += retired;
                    return self.next_shard(&tools.state);
                }
            },
        }
        false
    }

    fn next_shard(&mut self, state: &State) -> bool {
        self.shard += 1;
        self.phase = START;
        match state.shards.get(self.shard) {
            Some(shard) => {
                shard.heap.lock().begin_mark();
                false
            }
            None => true,
        }
    }

    /// Tends lines from `line` on; `None` if they were the last.
    fn tend(&mut self, tools: &mut Tools, shard: &Shard, mut line: u64) -> Option<u64> {
        let began = Instant::now();
        let geometry = shard.superblock.geometry;
        let lines = u64::from(geometry.slots()) / SLOTS_PER_LINE as u64;
        while line < lines && (!line.is_multiple_of(LINES_BETWEEN_LOOKS) || began.elapsed() < STEP) {
            let first = SlotIndex((line * SLOTS_PER_LINE as u64) as u32);
            if leads_somewhere(shard, first) {
                let tally = self.tend_line(tools, shard, first);
                self.note(&tools.state, tally, first);
            }
            line += 1;
        }
        let mut heap = shard.heap.lock();
        tools.visited.drain(..).for_each(|life| heap.mark(life));
        let Duties { retired, published, .. } = &mut tools.duties;
        heap.report(SERVER_SESSION, &Report { retired, published, returned: &[] }, fine_ns());
        retired.clear();
        published.clear();
        (line < lines).then_some(line)
    }

    fn tend_line(&self, tools: &mut Tools, shard: &Shard, first: SlotIndex) -> Tally {
        let _pinned = tools.epoch.pin();
        let deadline_ns = tools.fabric.now() + LINE.as_nanos() as u64;
        let mut io = LaneIo::new(&tools.fabric, &mut tools.lane, &mut tools.counts, self.shard, deadline_ns);
        let (duties, visited) = (&mut tools.duties, &mut tools.visited);
        let visit = |life| visited.push(life);
        drive(tend_line(&mut io, &shard.table, first, tools.grace_ms, duties, visit))
            .unwrap_or(Tally { unsettled: SLOTS_PER_LINE as u32, ..Tally::default() })
    }

    fn note(&mut self, state: &State, tally: Tally, first: SlotIndex) {
        let found = &mut self.found;
        found.keys += u64::from(tally.keys);
        found.expired += u64::from(tally.expired);
        found.forwarded += u64::from(tally.forwarded);
        found.damaged += u64::from(tally.damaged);
        found.unsettled += u64::from(tally.unsettled);
        found.expires_first_ms = found.expires_first_ms.into_iter().chain(tally.expires_first_ms).min();
        for _ in 0..tally.damaged {
            let slot = first.0;
            log_fault!(
                state.faults.damaged,
                shard = self.shard,
                slot,
                "a damaged record was dropped: its key is lost"
            );
        }
    }
}

/// Whether some slot of a line holds a committed word. Most lines of most indexes hold none, and are passed quickly.
fn leads_somewhere(shard: &Shard, first: SlotIndex) -> bool {
    let mut line = [0; SLOTS_PER_LINE * 8];
    shard.region.read(first.offset(), &mut line).expect("the index lies in the region");
    let (words, _) = line.as_chunks::<8>();
    words.iter().any(|word| SlotWord::from_bits(u64::from_le_bytes(*word)).state() == SlotState::Committed)
}

#[cfg(test)]
mod tests;
