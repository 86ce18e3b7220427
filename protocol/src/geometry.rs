//! Where things lie in a shard's region.
//!
//! ```text
//! 0          4 KiB                                             region end
//! +-----------+---------------------------+----------------------+
//! | superblock| index: lines of 64 B      | heap: blocks of      |
//! | (static)  | = 8 slot words of 8 B     | size classes, 64 B   |
//! |           | + 3 spill lines at the end| granules             |
//! +-----------+---------------------------+----------------------+
//! ```

use crate::limits::{GRANULE, LINES_PER_WINDOW, REGION_LEN_MAX, SLOTS_PER_LINE, WINDOW_LEN};
use crate::word::{Block, Locator};

/// Where the index begins: the page after the superblock.
pub const INDEX_AT: u64 = 4096;

const LINE_LEN: u64 = SLOTS_PER_LINE as u64 * 8;
const SPILL_LINES: u64 = LINES_PER_WINDOW as u64 - 1;
/// The heap starts on a page of its own, so that index and heap can be registered with different rights.
const PAGE: u64 = 4096;

/// A slot of the index, counted from its first line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SlotIndex(pub u32);

impl SlotIndex {
    /// Byte offset of the slot's word in the region.
    #[inline]
    pub const fn offset(self) -> u64 {
        INDEX_AT + self.0 as u64 * 8
    }
}

/// The measures of one shard's region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    region_len: u64,
    lines: u64,
}

/// Why a region cannot have these measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GeometryError {
    /// The region has no room for its index and a heap.
    #[error(
        "a region of {region_len} bytes has no room for its index and a heap; it needs at least {needed} bytes"
    )]
    TooSmall {
        /// Asked bytes.
        region_len: u64,
        /// Asked lines.
        lines: u64,
        /// Bytes that would do.
        needed: u64,
    },
    /// The region is larger than a slot word can address.
    #[error(
        "a region of {region_len} bytes is larger than the {REGION_LEN_MAX} bytes one shard can address; use more shards"
    )]
    TooLarge {
        /// Asked bytes.
        region_len: u64,
    },
    /// There must be at least one line, and no more than 32-bit slot numbers reach.
    #[error("{lines} lines of index: there must be 1 to {}", Geometry::LINES_MAX)]
    Lines {
        /// Asked lines.
        lines: u64,
    },
}

impl Geometry {
    /// Most home lines of a shard: slots are numbered in 32 bits.
    pub const LINES_MAX: u64 = (1 << 29) - 1 - SPILL_LINES;

    /// A region of `region_len` bytes (rounded down to whole granules) with `lines` home lines.
    pub const fn new(region_len: u64, lines: u64) -> Result<Self, GeometryError> {
        let region_len = region_len / GRANULE * GRANULE;
        if lines == 0 || lines > Self::LINES_MAX {
            return Err(GeometryError::Lines { lines });
        }
        if region_len > REGION_LEN_MAX {
            return Err(GeometryError::TooLarge { region_len });
        }
        let geometry = Self { region_len, lines };
        let needed = geometry.heap_at() + GRANULE;
        if region_len < needed {
            return Err(GeometryError::TooSmall { region_len, lines, needed });
        }
        Ok(geometry)
    }

    /// Bytes of the region.
    pub const fn region_len(self) -> u64 {
        self.region_len
    }

    /// Home lines: the spill lines come after them.
    pub const fn lines(self) -> u64 {
        self.lines
    }

    /// Slots of the index, spill lines included.
    pub const fn slots(self) -> u32 {
        ((self.lines + SPILL_LINES) * SLOTS_PER_LINE as u64) as u32
    }

    /// Where the heap begins.
    pub const fn heap_at(self) -> u64 {
        (INDEX_AT + (self.lines + SPILL_LINES) * LINE_LEN).next_multiple_of(PAGE)
    }

    /// The first slot of the window whose home is `line`.
    #[inline]
    pub const fn window(self, line: u64) -> SlotIndex {
        debug_assert!(line < self.lines);
        SlotIndex((line * SLOTS_PER_LINE as u64) as u32)
    }

    /// Bytes from `locator`'s block that its class spans, checked to lie in the heap: the gate that every word
    /// read from shared memory passes before an address is made of it.
    #[inline]
    pub fn extent(self, locator: Locator) -> Option<(u64, usize)> {
        let (at, len) = (locator.block().offset(), locator.class()?.size());
        (at >= self.heap_at() && at + len as u64 <= self.region_len).then_some((at, len))
    }

    /// Whether `block` starts in the heap.
    pub const fn holds(self, block: Block) -> bool {
        block.offset() >= self.heap_at() && block.offset() < self.region_len
    }

    /// Whether the window READ at `slot` stays in the index.
    pub const fn window_fits(self, slot: SlotIndex) -> bool {
        slot.offset() + WINDOW_LEN as u64 <= self.heap_at()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_window_ends_where_the_spill_lines_do() {
        let geometry = Geometry::new(1 << 20, 100).unwrap();
        let last = geometry.window(99);
        assert_eq!(last.offset() + WINDOW_LEN as u64, INDEX_AT + 103 * 64);
        assert_eq!(u64::from(geometry.slots()) * 8, 103 * 64);
        assert!(geometry.window_fits(last));
        assert_eq!(geometry.heap_at() % 4096, 0);
    }

    #[test]
    fn impossible_measures_are_refused() {
        assert!(matches!(Geometry::new(4096, 1), Err(GeometryError::TooSmall { needed: 8256, .. })));
        assert!(Geometry::new(8256, 1).is_ok());
        assert!(matches!(Geometry::new(8255, 1), Err(GeometryError::TooSmall { .. })));
        assert!(matches!(Geometry::new(1 << 30, 0), Err(GeometryError::Lines { lines: 0 })));
        assert!(matches!(Geometry::new(REGION_LEN_MAX + 64, 1), Err(GeometryError::TooLarge { .. })));
    }
}
