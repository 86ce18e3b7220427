//! The heap cut into chunks, each given to a size class on demand, and the way back.
//!
//! ```text
//!  heap_at                                                             region_len
//!  | unit | unit | unit | unit | unit | unit | ...          | unit | unit |odd|
//!  '------ chunk: 1024 x 320 B ------' '-- common pool --'  '-- 1 x 96 KiB --'
//! ```
//! **Measures.** A chunk has as many blocks, a power of two, as eight units hold, at least one; fewer where the
//! pool has no room for that. With four classes to a doubling this fills whole units exactly, except that the
//! largest class may leave most of one. A unit is about a 512th of the heap, from one granule to 64 KiB, so that
//! small heaps can serve many classes too.
//!
//! **Fragmentation.** Blocks never move. Leases come from the lowest chunk of the class that has a free block, so
//! that the others become empty; empty chunks go back to the pool when another class needs them; the pool joins
//! neighbours, gives the best fit, and keeps small blocks at one end and large ones at the other. A large block
//! can still be refused while enough memory is free in pieces.
//!
//! **Why a chunk may change its class.** A chunk goes back to the pool only when it has been empty (nothing in it
//! leased, published, quarantined, draining or worn) for `TAG_PERIOD` quarantines, and its bytes remember the
//! highest count ever issued in them: blocks that start there later count on above it. Neither alone would do.
//!
//! - *Lives.* A life is a block's start and a count. Whatever class's blocks start there later, their counts are
//!   higher than all earlier ones, so no life, hence no version and no `END` word, is issued twice, ever.
//! - *Slot words.* A word holds start, class and the count modulo `TAG_PERIOD`. While a chunk stays, one block's
//!   words recur after `TAG_PERIOD` leases, each at least Q after the retirement before it. Across a change the
//!   counts jump by any amount, so nothing follows from them: there the wait makes the same time pass.
//! - *Old hints.* A start of the past may now lie inside a value, whose bytes a user chose: they may read as
//!   `END(c)` of an old life, or as a whole record. No count protects from that; only age does. Whoever acts on a
//!   record or its link saw it as current at most `HINT_QUARANTINES` quarantines before, hence it was retired
//!   later than that, hence its chunk still has its class.

use super::chunk::{CHUNK_BLOCKS_MAX, Chunk, State};
use super::extents::{End, Extents};
use super::ledger::{Entry, Ledger};
use super::sessions::SessionSlot;
use super::usage::Blocks;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::Range;
use farside_protocol::limits::{EVIDENCE_QUARANTINES, GRANULE, HINT_QUARANTINES, REGION_LEN_MAX, TAG_PERIOD};
use farside_protocol::{Block, Class, Geometry, Life};

const UNIT_MAX: u64 = 64 << 10;
const UNITS_PER_CHUNK: u64 = 8;

const _: () = assert!(UNITS_PER_CHUNK * UNIT_MAX / GRANULE <= CHUNK_BLOCKS_MAX as u64);
const _: () = assert!(REGION_LEN_MAX / UNIT_MAX < Unit::POOLED as u64);
// One quarantine for the operation that acts on the evidence, with room to spare.
const _: () = assert!(HINT_QUARANTINES + 1 < TAG_PERIOD && EVIDENCE_QUARANTINES <= HINT_QUARANTINES);

/// A block's entry: by the first unit of its chunk, and its number in there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) chunk: u32,
    pub(super) index: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    /// First unit of the chunk that has this unit, or [`Unit::POOLED`].
    chunk: u32,
    /// Highest count issued by chunks that had this unit and gave it back.
    pub(super) floor: u32,
}

impl Unit {
    const POOLED: u32 = u32::MAX;

    pub(super) fn chunk(self) -> Option<u32> {
        (self.chunk != Self::POOLED).then_some(self.chunk)
    }
}

/// What a class has.
#[derive(Clone, Debug, Default)]
pub(super) struct Supply {
    pub(super) blocks: Blocks,
    /// Its chunks with a free block.
    pub(super) available: BTreeSet<u32>,
}

/// All chunks of a heap.
#[derive(Debug)]
pub(super) struct Chunks {
    heap_at: u64,
    capacity: u64,
    unit: u64,
    pub(super) units: Vec<Unit>,
    /// By first unit.
    pub(super) chunks: Vec<Option<Box<Chunk>>>,
    pub(super) pool: Extents,
    pub(super) supplies: Vec<Supply>,
    /// Chunks of which no block is out, with the time since when; the one that is empty for longest is first.
    pub(super) empty: BTreeSet<(u64, u32)>,
    /// Where what must outlive the heap is written down.
    pub(super) ledger: Option<Box<dyn Ledger>>,
}

impl Chunks {
    pub(super) fn new(geometry: Geometry) -> Self {
        let heap_at = geometry.heap_at();
        let capacity = geometry.region_len() - heap_at;
        let unit = unit_of(capacity);
        let units = Self::units_len(geometry);
        Self {
            heap_at,
            capacity,
            unit,
            units: alloc::vec![Unit { chunk: Unit::POOLED, floor: 0 }; units],
            chunks: core::iter::repeat_with(|| None).take(units).collect(),
            pool: Extents::new(capacity, unit),
            supplies: alloc::vec![Supply::default(); Class::COUNT],
            empty: BTreeSet::new(),
            ledger: None,
        }
    }

    /// Units of the heap.
    pub(super) fn units_len(geometry: Geometry) -> usize {
        let capacity = geometry.region_len() - geometry.heap_at();
        capacity.div_ceil(unit_of(capacity)) as usize
    }

    /// Bytes of the heap.
    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The chunk that has the memory where `block` starts, if one does.
    pub(super) fn chunk_around(&self, block: Block) -> Option<u32> {
        let unit = block.offset().checked_sub(self.heap_at)? / self.unit;
        self.units.get(usize::try_from(unit).ok()?)?.chunk()
    }

    /// The entry of the block that starts exactly at `block`, if there is one that was ever leased.
    pub(super) fn locate(&self, block: Block) -> Option<Place> {
        let chunk = self.chunk_around(block)?;
        let index = self.chunk(chunk).index_of(block)?;
        Some(Place { chunk, index })
    }

    /// Where `life` is and what it is doing, if it is its block's latest life.
    pub(super) fn current(&self, life: Life) -> Option<(Place, State)> {
        let place = self.locate(life.block)?;
        let entry = self.chunk(place.chunk).entries[place.index];
        (u64::from(entry.count) == life.count).then_some((place, entry.state))
    }

    /// A chunk by its first unit.
    pub(super) fn chunk(&self, id: u32) -> &Chunk {
        self.chunks[id as usize].as_ref().expect("a unit's chunk is there as long as the unit names it")
    }

    pub(super) fn chunk_mut(&mut self, id: u32) -> &mut Chunk {
        self.chunks[id as usize].as_mut().expect("a unit's chunk is there as long as the unit names it")
    }

    /// The chunk that begins at unit `id`, if one does, and the unit after it.
    pub(super) fn starting_at(&self, id: u32) -> (Option<&Chunk>, u32) {
        match self.chunks.get(id as usize).and_then(Option::as_deref) {
            Some(chunk) => (Some(chunk), id + chunk.span.div_ceil(self.unit) as u32),
            None => (None, id + 1),
        }
    }

    /// Leases a free block of `class`. A chunk that was empty since `ripe_ns` or earlier may change its class for
    /// it.
    pub(super) fn lease(&mut self, class: Class, by: SessionSlot, ripe_ns: Option<u64>) -> Option<Life> {
        let id = match self.supplies[class.index()].available.first() {
            Some(&id) => id,
            None => self.cut(class, ripe_ns)?,
        };
        let chunk = self.chunk_mut(id);
        let was_empty = (chunk.out == 0).then_some(chunk.empty_since_ns);
        let highest = chunk.highest;
        let index = chunk.take(by);
        let (life, is_available) = (chunk.life(index), chunk.is_available());
        if chunk.highest > highest {
            self.note_chunk(id);
        }
        if let Some(since_ns) = was_empty {
            self.empty.remove(&(since_ns, id));
        }
        let supply = &mut self.supplies[class.index()];
        if !is_available {
            supply.available.remove(&id);
        }
        supply.blocks.free -= 1;
        supply.blocks.leased += 1;
        Some(life)
    }

    /// Moves a block that is out to another state in which it is out.
    pub(super) fn change(&mut self, place: Place, to: State) {
        let chunk = self.chunk_mut(place.chunk);
        let class = chunk.class;
        let from = core::mem::replace(&mut chunk.entries[place.index].state, to);
        self.count(class, from, to);
    }

    /// Ends the use of a block that was draining.
    pub(super) fn free(&mut self, place: Place, now_ns: u64) {
        let chunk = self.chunk_mut(place.chunk);
        let class = chunk.class;
        let from = chunk.entries[place.index].state;
        debug_assert_eq!(from, State::Draining);
        let to = chunk.put(place.index);
        let (is_available, is_empty) = (chunk.is_available(), chunk.out == 0);
        if is_empty {
            chunk.empty_since_ns = now_ns;
            self.empty.insert((now_ns, place.chunk));
        }
        if is_available {
            self.supplies[class.index()].available.insert(place.chunk);
        }
        self.count(class, from, to);
    }

    fn count(&mut self, class: Class, from: State, to: State) {
        let blocks = &mut self.supplies[class.index()].blocks;
        *blocks.of(from) -= 1;
        *blocks.of(to) += 1;
    }

    /// Makes a chunk for `class`, out of chunks that are ripe if the pool has no room. That takes O(1) for each
    /// chunk cut before, but not for this call: a large block may need many small chunks.
    fn cut(&mut self, class: Class, ripe_ns: Option<u64>) -> Option<u32> {
        let size = class.size() as u64;
        let blocks = chunk_blocks(class, self.unit);
        loop {
            if let Some(id) = self.cut_from_pool(class, blocks) {
                return Some(id);
            }
            if !self.recycle(ripe_ns) {
                break;
            }
        }
        let few = self.pool.largest() / size;
        if few == 0 { None } else { self.cut_from_pool(class, few) }
    }

    fn cut_from_pool(&mut self, class: Class, blocks: u64) -> Option<u32> {
        let end = if blocks == 1 { End::High } else { End::Low };
        let extent = self.pool.take(blocks * class.size() as u64, end)?;
        let units = self.units_of(&extent);
        let id = units.start as u32;
        let floor = self.units[units.clone()].iter().map(|unit| unit.floor).max().unwrap_or(0);
        let first = self.granule_at(extent.start);
        let chunk = Chunk::new(class, first, blocks as usize, extent.end - extent.start, floor);
        self.insert(units, chunk);
        self.note_chunk(id);
        let supply = &mut self.supplies[class.index()];
        supply.available.insert(id);
        supply.blocks.free += blocks;
        Some(id)
    }

    /// Puts a chunk in its place.
    pub(super) fn insert(&mut self, units: Range<usize>, chunk: Chunk) {
        let id = units.start;
        for unit in &mut self.units[units] {
            unit.chunk = id as u32;
        }
        self.chunks[id] = Some(Box::new(chunk));
    }

    /// Gives the chunk that was empty for longest back to the pool, if it has been since `ripe_ns`.
    fn recycle(&mut self, ripe_ns: Option<u64>) -> bool {
        let ripe = self.empty.first().copied().filter(|&(since_ns, _)| Some(since_ns) <= ripe_ns);
        let Some((since_ns, id)) = ripe else { return false };
        self.empty.remove(&(since_ns, id));
        let chunk = self.chunks[id as usize].take().expect("an empty chunk is a chunk");
        let supply = &mut self.supplies[chunk.class.index()];
        supply.available.remove(&id);
        supply.blocks.free -= chunk.capacity as u64;
        self.give_back(&chunk);
        true
    }

    /// Gives a chunk's bytes to the pool. They remember its counts.
    pub(super) fn give_back(&mut self, chunk: &Chunk) {
        let extent = self.extent(chunk);
        let units = self.units_of(&extent);
        self.units[units.clone()].fill(Unit { chunk: Unit::POOLED, floor: chunk.highest });
        if let Some(ledger) = &mut self.ledger {
            // The first last: as long as it names the chunk, the others do not count.
            for unit in units.rev() {
                ledger.note(unit, Entry::Pooled { floor: chunk.highest }.encode(unit));
            }
        }
        self.pool.give(extent);
    }

    /// Writes a chunk down as it is now.
    fn note_chunk(&mut self, id: u32) {
        let Some(ledger) = &mut self.ledger else { return };
        let chunk = self.chunks[id as usize].as_ref().expect("it is a chunk");
        let span = chunk.span.div_ceil(self.unit) as u32;
        let entry = Entry::Chunk { class: chunk.class, span, highest: chunk.highest };
        ledger.note(id as usize, entry.encode(id as usize));
    }

    /// The bytes of the heap that a chunk takes.
    pub(super) fn extent(&self, chunk: &Chunk) -> Range<u64> {
        let start = chunk.offset() - self.heap_at;
        start..start + chunk.span
    }

    /// The bytes of the heap that units have.
    pub(super) fn extent_of(&self, units: &Range<usize>) -> Range<u64> {
        units.start as u64 * self.unit..(units.end as u64 * self.unit).min(self.capacity)
    }

    /// The granule of the region at which byte `start` of the heap lies.
    pub(super) fn granule_at(&self, start: u64) -> u64 {
        (self.heap_at + start) / GRANULE
    }

    /// The units that an extent of the heap takes.
    pub(super) fn units_of(&self, extent: &Range<u64>) -> Range<usize> {
        (extent.start / self.unit) as usize..extent.end.div_ceil(self.unit) as usize
    }
}

fn unit_of(capacity: u64) -> u64 {
    (1 << (capacity / 512).max(GRANULE).ilog2()).min(UNIT_MAX)
}

/// Blocks of a chunk that the pool has room for.
fn chunk_blocks(class: Class, unit: u64) -> u64 {
    1 << (UNITS_PER_CHUNK * unit / class.size() as u64).max(1).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_every_class_but_the_largest_fill_whole_units() {
        for unit in (6..=16).map(|shift| 1u64 << shift) {
            for class in Class::all().take(Class::COUNT - 1) {
                let (blocks, size) = (chunk_blocks(class, unit), class.size() as u64);
                assert_eq!(blocks * size % unit, 0, "{blocks} blocks of {size} in units of {unit}");
            }
        }
    }
}
