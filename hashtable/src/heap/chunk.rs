//! One chunk: contiguous blocks of one class, and what is known of each.

use super::sessions::SessionSlot;
use alloc::vec::Vec;
use farside_protocol::limits::{GRANULE, LEASE_COUNT_MAX};
use farside_protocol::mutation::{self, Mutation};
use farside_protocol::{Block, Class, Life};

/// Most blocks of a chunk.
pub(super) const CHUNK_BLOCKS_MAX: usize = 1 << 13;

const NONE: u16 = u16::MAX;
const _: () = assert!(CHUNK_BLOCKS_MAX < NONE as usize);

/// What a block is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Waits for a lease; `next` is the next one in its chunk's list of free blocks.
    Free { next: u16 },
    /// With a session that may write it and publish it.
    Leased { by: SessionSlot },
    /// Holds a record that was reachable when this was learnt. `mark` tells whether a sweep has seen it.
    Published { mark: bool },
    /// Retired: rests until remote readers are past it (rule T1).
    Quarantined,
    /// Past its quarantine, with the caller until the server's own readers are past it too.
    Draining,
    /// Its lease counts are used up.
    Worn,
}

/// What is known of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Count of its latest lease.
    pub(super) count: u32,
    pub(super) state: State,
}

const _: () = assert!(size_of::<Entry>() == 8);
const _: () = assert!(LEASE_COUNT_MAX <= u32::MAX as u64);

/// A chunk.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) class: Class,
    /// Granule of the region at which its first block starts.
    first: u64,
    /// Bytes of heap it takes: its blocks, and what is left of its last unit.
    pub(super) span: u64,
    /// Blocks it has room for.
    pub(super) capacity: usize,
    /// No block in these bytes was ever leased with a higher count before the chunk was cut, or made out anew.
    pub(super) floor: u32,
    /// Highest count issued here, at first the floor.
    pub(super) highest: u32,
    /// Blocks that were leased since the chunk was cut. The ones after them are free and not in the list, so a new
    /// chunk costs nothing for each block.
    pub(super) entries: Vec<Entry>,
    free: u16,
    /// Entries that are not free.
    pub(super) out: usize,
    /// If none is out: since when.
    pub(super) empty_since_ns: u64,
}

impl Chunk {
    /// A chunk of `capacity` free blocks from granule `first` of the region.
    pub(super) fn new(class: Class, first: u64, capacity: usize, span: u64, floor: u32) -> Self {
        debug_assert!(capacity <= CHUNK_BLOCKS_MAX && (capacity * class.size()) as u64 <= span);
        debug_assert!(u64::from(floor) <= LEASE_COUNT_MAX);
        Self {
            class,
            first,
            span,
            capacity,
            floor,
            highest: floor,
            entries: Vec::with_capacity(capacity),
            free: NONE,
            out: 0,
            empty_since_ns: 0,
        }
    }

    /// Bytes of the region before its first block.
    pub(super) fn offset(&self) -> u64 {
        self.first * GRANULE
    }

    /// The current or last life of an entry's block.
    pub(super) fn life(&self, index: usize) -> Life {
        let granule = self.first + index as u64 * self.stride();
        let block = Block::new(granule).expect("a chunk lies in the region, whose granules fit a block");
        Life { block, count: self.entries[index].count.into() }
    }

    /// The entry of the block that starts exactly at `block`, if it was ever leased.
    pub(super) fn index_of(&self, block: Block) -> Option<usize> {
        self.number_of(block).filter(|&index| index < self.entries.len())
    }

    /// The number of the block that starts exactly at `block`, if it has one.
    pub(super) fn number_of(&self, block: Block) -> Option<usize> {
        let distance = block.granule().checked_sub(self.first)?;
        let index = usize::try_from(distance / self.stride()).ok()?;
        (distance.is_multiple_of(self.stride()) && index < self.capacity).then_some(index)
    }

    /// Whether a block is free.
    pub(super) fn is_available(&self) -> bool {
        self.free != NONE || self.entries.len() < self.capacity
    }

    /// Leases a free block under its next count. One that was in use before comes first: its pages are there.
    pub(super) fn take(&mut self, by: SessionSlot) -> usize {
        let index = match self.entries.get(usize::from(self.free)) {
            Some(&Entry { state: State::Free { next }, .. }) => {
                core::mem::replace(&mut self.free, next).into()
            }
            _ => {
                assert!(self.entries.len() < self.capacity, "only an available chunk is asked for a block");
                self.entries.push(Entry { count: self.floor, state: State::Free { next: NONE } });
                self.entries.len() - 1
            }
        };
        let entry = &mut self.entries[index];
        entry.count += 1;
        debug_assert!(u64::from(entry.count) <= LEASE_COUNT_MAX, "a worn block is never free");
        entry.state = State::Leased { by };
        self.highest = self.highest.max(entry.count);
        self.out += 1;
        index
    }

    /// Ends the use of a block: it is free, or worn if no count is left for another lease.
    pub(super) fn put(&mut self, index: usize) -> State {
        let entry = &mut self.entries[index];
        if u64::from(entry.count) == LEASE_COUNT_MAX {
            entry.state = State::Worn;
        } else {
            entry.state = State::Free { next: self.free };
            self.free = index as u16;
            self.out -= 1;
        }
        entry.state
    }

    /// Of a chunk whose use is made out anew: notes that a block holds a record. Returns false if it does already.
    pub(super) fn occupy(&mut self, index: usize, count: u32) -> bool {
        let blank = Entry { count: self.floor, state: State::Free { next: NONE } };
        if self.entries.len() <= index {
            self.entries.resize(index + 1, blank);
        }
        let entry = &mut self.entries[index];
        if let State::Published { .. } = entry.state {
            return false;
        }
        *entry = Entry { count, state: State::Published { mark: false } };
        self.out += 1;
        true
    }

    /// After that: lists the blocks that hold none. Returns how many of them are worn, which are all or none.
    pub(super) fn settle(&mut self) -> u64 {
        let is_worn = u64::from(self.floor) == LEASE_COUNT_MAX;
        if is_worn {
            self.entries.resize(self.capacity, Entry { count: self.floor, state: State::Worn });
        }
        let mut worn = 0;
        for (index, entry) in self.entries.iter_mut().enumerate().rev() {
            if !matches!(entry.state, State::Published { .. }) {
                if is_worn {
                    entry.state = State::Worn;
                    worn += 1;
                } else {
                    entry.state = State::Free { next: self.free };
                    self.free = index as u16;
                    if mutation::is(Mutation::ForgetCounts) {
                        entry.count = 1;
                    }
                }
            }
        }
        self.out += worn as usize;
        worn
    }

    /// The blocks of the list of free ones.
    pub(super) fn listed(&self) -> impl Iterator<Item = usize> {
        let mut at = self.free;
        core::iter::from_fn(move || match self.entries.get(usize::from(at))?.state {
            State::Free { next } => Some(core::mem::replace(&mut at, next).into()),
            other => panic!("a block in the list of free ones is {other:?}"),
        })
    }

    fn stride(&self) -> u64 {
        self.class.size() as u64 / GRANULE
    }
}
