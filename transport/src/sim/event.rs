//! What happened in a simulation, for people who look for the reason of a failure.

use super::ClientId;
use std::collections::VecDeque;

/// One thing that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// The world's step.
    pub step: u64,
    /// The world's time, nanoseconds.
    pub at_ns: u64,
    /// Whose chain it was, or who noted it.
    pub client: ClientId,
    /// What it was.
    pub what: What,
}

/// What can happen. Offsets are bytes of the region.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// A piece of a READ was executed.
    Read {
        /// Where it began.
        at: u64,
        /// Words it spanned.
        words: u32,
        /// Those that were not zero, with their offsets: all of the index, the first of a block.
        saw: Vec<(u64, u64)>,
    },
    /// A piece of a WRITE was executed.
    Write {
        /// Where it began.
        at: u64,
        /// Words it spanned.
        words: u32,
    },
    /// A compare-and-swap was executed.
    CompareSwap {
        /// The word's offset.
        at: u64,
        /// The word that was expected.
        expect: u64,
        /// The word to replace it.
        new: u64,
        /// The word that was there.
        found: u64,
    },
    /// A chain's completion was lost. What it had not executed may follow, or not.
    Lost,
    /// A chain was given up by whoever had posted it.
    Abandoned,
    /// Nothing that the client had posted can execute any more.
    Fenced,
    /// The client's connection was destroyed by the server.
    Severed,
    /// A remark of whoever uses the world.
    Note(String),
}

/// The last events of a world; none as long as its capacity is 0.
#[derive(Default)]
pub(super) struct Log {
    capacity: usize,
    events: VecDeque<Event>,
}

impl Log {
    pub(super) fn keep(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    pub(super) fn is_on(&self) -> bool {
        self.capacity != 0
    }

    pub(super) fn push(&mut self, event: Event) {
        if self.events.len() == self.capacity {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    pub(super) fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }
}
