//! A heap made anew from the ledger of one that ended, in the middle of anything, and the records that are reachable in
//! its memory.
//!
//! **Why this is enough.** Nobody of the former run reaches the memory any more, so all that rests on somebody's having
//! read it (quarantine, the wait before memory changes its class) is void, and all that nothing leads to is free at once.
//! What lives on are versions, which users may keep for as long as they like: so no life may come twice. The count of a
//! block that is free goes on above the highest that was issued anywhere in its chunk; that of a block which holds a
//! record, above the record's, for it was not leased again.

use super::Heap;
use super::chunk::{CHUNK_BLOCKS_MAX, Chunk};
use super::chunks::Chunks;
use super::ledger::{Entry, Ledger};
use alloc::boxed::Box;
use core::ops::Range;
use farside_protocol::{Class, Geometry, Life};

/// The ledger cannot be that of a heap of these measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("what is written of unit {unit} makes no sense")]
pub struct LedgerError {
    /// Whose word it is.
    pub unit: usize,
}

/// A heap on its way to be made anew.
#[derive(Debug)]
pub struct Recovery {
    chunks: Chunks,
    quarantine_ns: u64,
}

impl Heap {
    /// Words in the ledger of a heap of these measures.
    pub fn ledger_len(geometry: Geometry) -> usize {
        Chunks::units_len(geometry)
    }

    /// Has everything that must outlive this heap, of which nothing was leased yet, written to `ledger`, whose words are
    /// all [`blank`](super::blank).
    #[must_use]
    pub fn with_ledger(mut self, ledger: Box<dyn Ledger>) -> Self {
        self.chunks.ledger = Some(ledger);
        self
    }

    /// Begins to make a heap anew whose ledger has the words that `word` tells. [`Recovery::keep`] all records that are
    /// reachable, then [finish](Recovery::finish) it.
    pub fn recover(
        geometry: Geometry,
        quarantine_ns: u64,
        word: impl Fn(usize) -> u64,
    ) -> Result<Recovery, LedgerError> {
        let mut chunks = Chunks::new(geometry);
        let units = Chunks::units_len(geometry);
        let mut unit = 0;
        while unit < units {
            let nonsense = LedgerError { unit };
            match Entry::decode(word(unit), unit).ok_or(nonsense)? {
                Entry::Pooled { floor } => {
                    chunks.units[unit].floor = floor;
                    unit += 1;
                }
                Entry::Chunk { class, span, highest } => {
                    let units = unit..unit + span as usize;
                    unit = units.end;
                    if !chunks.restore(units, class, highest) {
                        return Err(nonsense);
                    }
                }
            }
        }
        Ok(Recovery { chunks, quarantine_ns })
    }
}

impl Recovery {
    /// Notes that the record of `life`, in a block of `class`, is reachable. Returns false, and notes nothing, if that
    /// cannot be: no block of this class was ever leased there in that life, or another record has it.
    pub fn keep(&mut self, life: Life, class: Class) -> bool {
        let Some(id) = self.chunks.chunk_around(life.block) else { return false };
        let chunk = self.chunks.chunk_mut(id);
        let count = u32::try_from(life.count).ok().filter(|&count| count != 0 && count <= chunk.highest);
        match (count, chunk.number_of(life.block)) {
            (Some(count), Some(index)) if chunk.class == class => chunk.occupy(index, count),
            _ => false,
        }
    }

    /// The heap. What was not kept is free. From now on it is written down in `ledger`, which holds the words that this
    /// was begun with.
    pub fn finish(mut self, ledger: Box<dyn Ledger>) -> Heap {
        self.chunks.ledger = Some(ledger);
        self.chunks.settle();
        Heap::over(self.chunks, self.quarantine_ns)
    }
}

impl Chunks {
    /// Cuts `units` out of the pool as a chunk whose blocks may all hold records yet. Returns false if that cannot be.
    fn restore(&mut self, units: Range<usize>, class: Class, highest: u32) -> bool {
        if units.is_empty() || units.end > self.units.len() {
            return false;
        }
        let extent = self.extent_of(&units);
        let span = extent.end - extent.start;
        let blocks = span / class.size() as u64;
        if !(1..=CHUNK_BLOCKS_MAX as u64).contains(&blocks) || !self.pool.take_out(&extent) {
            return false;
        }
        let chunk = Chunk::new(class, self.granule_at(extent.start), blocks as usize, span, highest);
        self.insert(units, chunk);
        true
    }

    /// Gives chunks that hold no record back to the pool, and lists the free blocks of the others.
    fn settle(&mut self) {
        for id in 0..self.units.len() as u32 {
            let Some(chunk) = self.chunks[id as usize].as_deref_mut() else { continue };
            let (class, published, capacity) = (chunk.class, chunk.out as u64, chunk.capacity as u64);
            let worn = chunk.settle();
            let is_available = chunk.is_available();
            if published + worn == 0 {
                let chunk = self.chunks[id as usize].take().expect("it was there just now");
                self.give_back(&chunk);
                continue;
            }
            let supply = &mut self.supplies[class.index()];
            supply.blocks.published += published;
            supply.blocks.worn += worn;
            supply.blocks.free += capacity - published - worn;
            if is_available {
                supply.available.insert(id);
            }
        }
    }
}
