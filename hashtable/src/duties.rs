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
            pending.slot == forward.slot && pending.to.map(SlotWord::committed) == Some(forward.expect)
        });
        match continued {
            Some(pending) if pending.skipped.len() + forward.skipped.len() <= SKIP_MAX => {
                pending.skipped.extend(forward.skipped);
                pending.to = forward.to;
            }
            _ => self.forwards.push(forward),
        }
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.forwards.is_empty() && self.retired.is_empty() && self.published.is_empty()
    }
}
