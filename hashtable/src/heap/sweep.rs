//! Mark and sweep for published blocks whose retirement was lost: a client won the slot past a record and died
//! before it said so.
//!
//! The caller calls [`Heap::begin_mark`], then walks the index and marks each life it reaches, then calls
//! [`Heap::finish_mark`] until it is done. Clients go on all the while. The walk must, from `begin_mark` on, read
//! each slot once, follow the chain of each committed word it finds to its end, and mark each hop; a chain that it
//! cannot follow within Q (rule T2) or that does not verify is started over from its slot. If some chain cannot be
//! followed at all, the sweep is not finished; the next `begin_mark` starts another.
//!
//! **Why what is not marked is lost.** Let a life be known as published when marking begins. Its record was linked
//! into the chain of some slot before that: a client reports a publication only after it. As long as the record is
//! reachable, it is so from that slot: a key changes its slot only by being deleted and inserted anew, and that is
//! another record, of another life. Say it is still reachable after the walk has read that slot. Then it was
//! reachable when the slot was read, from the word that was found, through links which are `NEXT` and so never
//! change again; the walk followed those and marked it. So a life without a mark was unreachable at the latest
//! when the walk had read its slot, and what is unreachable stays so: each CAS that puts a locator into a slot or
//! a link puts one of a record that is reachable, or one of a lease not spent. Its readers found it before that
//! moment, and the quarantine from `finish_mark` on covers them. The winner's own report, should it still come,
//! names a life that is not out and is ignored.
//!
//! Lives published later, or leased and not reported, are none of the sweep's business. A published life carries
//! one bit, and what the bit means is turned round by each `begin_mark`: so beginning is O(1), what is published
//! meanwhile counts as marked, and no bit needs clearing. If a sweep is given up midway, what it had not marked
//! counts as marked in the next, which is safe, and is found by the one after.

use super::Heap;
use super::chunk::State;
use super::chunks::Place;
use farside_protocol::Life;

/// How far a sweep has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SweepProgress {
    /// [`Heap::finish_mark`] must be called again.
    More,
    /// The sweep is over, with so many lives retired.
    Done {
        /// Lives that were lost.
        retired: u64,
    },
}

/// The state of the current sweep.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// The bit of a published life that counts as marked. When no sweep is under way, all have it, but for what a
    /// sweep that was given up left.
    mark: bool,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Phase {
    #[default]
    Idle,
    Marking,
    /// Chunks before this unit are done.
    Retiring {
        unit: u32,
        retired: u64,
    },
}

impl Sweep {
    pub(super) fn mark(&self) -> bool {
        self.mark
    }

    /// Whether a sweep has finished and none has begun since.
    pub(super) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }
}

impl Heap {
    /// Begins a sweep: what is published now and not marked until [`Heap::finish_mark`] will be retired. A sweep
    /// that is under way is given up.
    pub fn begin_mark(&mut self) {
        self.sweep = Sweep { mark: !self.sweep.mark, phase: Phase::Marking };
    }

    /// Marks a life that the walk has reached. Any life will do; those not published need no mark.
    pub fn mark(&mut self, life: Life) {
        if let Some((place, State::Published { .. })) = self.chunks.current(life) {
            self.chunks.change(place, State::Published { mark: self.sweep.mark });
        }
    }

    /// Retires what the walk, now complete, has not reached. Stops after looking at `blocks_max` blocks and the
    /// rest of their chunk, to be called again. If no sweep has begun there is nothing to do.
    pub fn finish_mark(&mut self, now_ns: u64, blocks_max: usize) -> SweepProgress {
        let now_ns = self.advance(now_ns);
        let (mut unit, mut retired) = match self.sweep.phase {
            Phase::Idle => return SweepProgress::Done { retired: 0 },
            Phase::Marking => (0, 0),
            Phase::Retiring { unit, retired } => (unit, retired),
        };
        let mut looked_at = 0;
        while (unit as usize) < self.chunks.units.len() {
            let (chunk, after) = self.chunks.starting_at(unit);
            let entries = chunk.map_or(0, |chunk| chunk.entries.len());
            for index in 0..entries {
                let state = self.chunks.chunk(unit).entries[index].state;
                if matches!(state, State::Published { mark } if mark != self.sweep.mark) {
                    self.quarantine(Place { chunk: unit, index }, state, now_ns);
                    retired += 1;
                }
            }
            unit = after;
            looked_at += entries.max(1);
            if looked_at >= blocks_max {
                self.sweep.phase = Phase::Retiring { unit, retired };
                return SweepProgress::More;
            }
        }
        self.sweep.phase = Phase::Idle;
        SweepProgress::Done { retired }
    }
}
