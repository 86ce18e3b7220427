//! A set of small numbers.

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct BitSet(Box<[u64]>);

impl BitSet {
    /// The empty set of numbers below `bound`.
    pub(super) fn below(bound: usize) -> Self {
        Self(vec![0; bound.div_ceil(64)].into())
    }

    pub(super) fn has(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 == 1
    }

    pub(super) fn insert(&mut self, number: usize) {
        self.0[number / 64] |= 1 << (number % 64);
    }

    pub(super) fn remove(&mut self, number: usize) {
        self.0[number / 64] &= !(1 << (number % 64));
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|w| w.count_ones() as usize).sum()
    }

    pub(super) fn is_subset_of(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a & !b == 0)
    }
}
