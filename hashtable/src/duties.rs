//! What a client owes the table after its operations: slots to bring forward, and what to tell the server about
//! blocks. Collected here off the operation's path, and worked off in batches.

use alloc::vec::Vec;
use arrayvec::ArrayVec;
use farside_protocol::{KeyHash, Life, Locator, SlotIndex, SlotWord};

/// Most records that one forward jumps over.
pub const SKIP_MAX: usize = 8;

/// A slot that lags behind its chain: the record in it is superseded or dead, known from a successful CAS on its
/// link or from a verified read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forward {
    /// The slot.
    pub slot: SlotIndex,
    /// The word that is expected in it.
    pub expect: SlotWord,
    /// The record to which it is moved; `None`: the chain is dead, the slot becomes empty.
    pub to: Option<Locator>,
    /// The records past which the move leads, the one in the slot first: retired by whoever makes the move.
    pub skipped: ArrayVec<Life, SKIP_MAX>,
    /// The key's hash, to find its chain again should the slot have changed.
    pub hash: KeyHash,
    /// When `expect` was last known to be in use: rule T4 counts from here. Nanoseconds of [`Io::now`](crate::Io::now).
    pub evidence_ns: u64,
}

impl Forward {
    /// A forward that leads nowhere yet: to the record in the slot itself.
    pub fn from(slot: SlotIndex, word: SlotWord, hash: KeyHash, evidence_ns: u64) -> Self {
        Self { slot, expect: word, to: Some(word.locator()), skipped: ArrayVec::new(), hash, evidence_ns }
    }

    /// Leads it on past `record` to `to`, if it leads to `record` and has room; else it stays as it is, and
    /// whoever makes the move finds the rest of the chain.
    pub fn lead_past(&mut self, record: Locator, life: Life, to: Option<Locator>) {
        if self.to == Some(record) && self.skipped.try_push(life).is_ok() {
            self.to = to;
        }
    }

    /// Whether there is nothing to move.
    pub fn is_idle(&self) -> bool {
        self.skipped.is_empty()
    }

    /// The word that the move puts into the slot.
    pub fn target(&self) -> SlotWord {
        self.to.map_or(SlotWord::EMPTY, SlotWord::committed)
    }
}

/// The duties of one client in one shard.
#[derive(Debug, Default)]
pub struct Duties {
    /// Slots to bring forward, oldest first.
    pub forwards: Vec<Forward>,
    /// Records past which this client moved a slot, to be reported.
    pub retired: Vec<Life>,
    /// Leases of this client that were spent, to be reported.
    pub published: Vec<Life>,
}

impl Duties {
    /// No duties, with room for a batch of them so that the hot path does not allocate.
    pub fn with_capacity(batch: usize) -> Self {
        Self {
            forwards: Vec::with_capacity(batch),
            retired: Vec::with_capacity(batch * SKIP_MAX),
            published: Vec::with_capacity(batch),
        }
    }

    /// Adds a forward. One that goes on where a pending one ends is joined to it: a key that is written again and
    /// again has its slot moved once.
    pub fn push_forward(&mut self, forward: Forward) {
        let continued = self.forwards.iter_mut().rev().find(|pending| {
            pending.slot == forward.slot
                && (pending.target() == forward.expect || pending.expect == forward.expect)
        });
        match continued {
            _ if forward.is_idle() => {}
            // The same lag, met again: the longer way leads over the shorter.
            Some(pending) if pending.expect == forward.expect => {
                if pending.skipped.len() < forward.skipped.len() {
                    *pending = forward;
                }
            }
            Some(pending)
                if pending.target() == forward.expect
                    && pending.skipped.len() + forward.skipped.len() <= SKIP_MAX =>
            {
                pending.skipped.extend(forward.skipped);
                pending.to = forward.to;
            }
            _ => self.forwards.push(forward),
        }
    }

    /// Takes on the duties of another.
    pub fn take_on(&mut self, other: Self) {
        other.forwards.into_iter().for_each(|forward| self.push_forward(forward));
        self.retired.extend(other.retired);
        self.published.extend(other.published);
    }

    /// Whether the forwards should be made now: `batch` of them wait, or a chain grows long for those who read it.
    pub fn forwards_are_due(&self, batch: usize) -> bool {
        self.forwards.len() >= batch
            || self.forwards.last().is_some_and(|forward| forward.skipped.len() >= SKIP_MAX / 2)
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.forwards.is_empty() && self.retired.is_empty() && self.published.is_empty()
    }
}
