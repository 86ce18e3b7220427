//! The common pool: stretches of the heap that belong to no chunk.

use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::Range;

/// From which end of a stretch to cut. Chunks of many small blocks come from the low end and single large blocks
/// from the high end, so that small ones do not settle in the middle of what a large one needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Low,
    High,
}

/// Free extents in bytes of the heap, handed out by best fit and joined with their neighbours when they return.
///
/// Invariant: extents start at multiples of `unit`; they end at one too, unless the heap ends there. No two
/// touch. Both indexes hold the same extents.
#[derive(Debug)]
pub(super) struct Extents {
    unit: u64,
    ends: BTreeMap<u64, u64>,
    by_len: BTreeSet<(u64, u64)>,
    bytes: u64,
}

impl Extents {
    /// One extent of `len` bytes.
    pub(super) fn new(len: u64, unit: u64) -> Self {
        let mut extents = Self { unit, ends: BTreeMap::new(), by_len: BTreeSet::new(), bytes: 0 };
        extents.insert(0..len);
        extents
    }

    /// Bytes in the pool.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the largest extent.
    pub(super) fn largest(&self) -> u64 {
        self.by_len.last().map_or(0, |&(len, _)| len)
    }

    /// All extents, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.ends.iter().map(|(&start, &end)| start..end)
    }

    /// Cuts at least `len` bytes out of the smallest extent that has them, in whole units.
    pub(super) fn take(&mut self, len: u64, end: End) -> Option<Range<u64>> {
        let &(extent_len, start) = self.by_len.range((len, 0)..).next()?;
        let extent = start..start + extent_len;
        self.remove(extent.clone());
        let from = match end {
            End::Low => extent.start,
            End::High => extent.start + (extent_len - len) / self.unit * self.unit,
        };
        let taken = from..extent.end.min(from + len.next_multiple_of(self.unit));
        self.insert(extent.start..taken.start);
        self.insert(taken.end..extent.end);
        Some(taken)
    }

    /// Cuts exactly `extent` out; `false` if not all of it is in the pool.
    pub(super) fn take_out(&mut self, extent: &Range<u64>) -> bool {
        let around = self.ends.range(..=extent.start).next_back().map(|(&start, &end)| start..end);
        let Some(around) = around.filter(|around| around.end >= extent.end) else { return false };
        self.remove(around.clone());
        self.insert(around.start..extent.start);
        self.insert(extent.end..around.end);
        true
    }

    /// Takes back what [`Extents::take`] returned.
    pub(super) fn give(&mut self, mut extent: Range<u64>) {
        if let Some((&start, &end)) = self.ends.range(..extent.start).next_back()
            && end == extent.start
        {
            self.remove(start..end);
            extent.start = start;
        }
        if let Some(&end) = self.ends.get(&extent.end) {
            self.remove(extent.end..end);
            extent.end = end;
        }
        self.insert(extent);
    }

    fn insert(&mut self, extent: Range<u64>) {
        if !extent.is_empty() {
            let len = extent.end - extent.start;
            self.ends.insert(extent.start, extent.end);
            self.by_len.insert((len, extent.start));
            self.bytes += len;
        }
    }

    fn remove(&mut self, extent: Range<u64>) {
        let len = extent.end - extent.start;
        self.ends.remove(&extent.start);
        self.by_len.remove(&(len, extent.start));
        self.bytes -= len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn the_smallest_extent_that_fits_is_cut_at_the_end_asked_for() {
        let mut pool = Extents::new(100, 10);
        assert_eq!(pool.take(30, End::Low), Some(0..30));
        assert_eq!(pool.take(20, End::Low), Some(30..50));
        pool.give(0..30);
        assert_eq!(pool.take(15, End::High), Some(10..30));
        assert_eq!(pool.take(15, End::High), Some(80..100));
        assert_eq!(pool.take(40, End::Low), None);
        assert_eq!((pool.largest(), pool.bytes()), (30, 40));
    }

    #[test]
    fn a_heap_that_ends_within_a_unit_can_be_used_to_its_end() {
        let mut pool = Extents::new(105, 10);
        assert_eq!(pool.take(20, End::High), Some(80..100), "whole units before the odd end");
        assert_eq!(pool.take(5, End::Low), Some(100..105));
        assert_eq!(pool.take(80, End::High), Some(0..80));
        assert_eq!((pool.take(1, End::Low), pool.bytes()), (None, 0));
        assert_eq!(Extents::new(105, 10).take(105, End::High), Some(0..105));
    }

    proptest! {
        #[test]
        fn extents_never_overlap_and_always_join(
            len in 1..400u64,
            steps in prop::collection::vec((any::<bool>(), 1..90u64, any::<prop::sample::Index>()), 0..100),
        ) {
            let mut pool = Extents::new(len, 8);
            let mut out: Vec<Range<u64>> = Vec::new();
            for (take, amount, pick) in steps {
                if take {
                    let end = if amount % 2 == 0 { End::Low } else { End::High };
                    let fits = amount <= pool.largest();
                    let taken = pool.take(amount, end);
                    prop_assert_eq!(taken.is_some(), fits);
                    if let Some(taken) = taken {
                        prop_assert!(taken.end - taken.start >= amount && taken.start % 8 == 0);
                        out.push(taken);
                    }
                } else if !out.is_empty() {
                    pool.give(out.swap_remove(pick.index(out.len())));
                }
                let free: Vec<_> = pool.iter().collect();
                prop_assert!(free.windows(2).all(|pair| pair[0].end < pair[1].start), "joined: {:?}", free);
                prop_assert_eq!(pool.by_len.len(), free.len());
                let mut all = [free, out.clone()].concat();
                all.sort_by_key(|extent| extent.start);
                let mut at = 0;
                for extent in all {
                    prop_assert_eq!(extent.start, at);
                    at = extent.end;
                }
                prop_assert_eq!(at, len);
            }
        }
    }
}
