//! Size classes: a block is one of 61 sizes, so a slot word can say in six bits how much to READ.
//!
//! ```text
//!  0 ..  3   64 128 192 256
//!  4 .. 51   four to a doubling, 320 B to 1 MiB     (at most 20 % of a block unused)
//! 52 .. 59   two to a doubling, 1.5 MiB to 16 MiB
//! 60         16 MiB + 8 KiB: the largest value with the longest key
//! ```

use crate::limits::{GRANULE, KEY_LEN_MAX, VALUE_LEN_MAX};
use crate::record;

/// The size class of a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Class(u8);

const FINE_FROM: usize = 4;
const COARSE_FROM: usize = 52;
const LARGEST: usize = 60;

const SIZES: [u32; Class::COUNT] = {
    let mut sizes = [0; Class::COUNT];
    let mut class = 0;
    while class < Class::COUNT {
        sizes[class] = if class < FINE_FROM {
            64 * (class as u32 + 1)
        } else if class < COARSE_FROM {
            let (doubling, quarter) = ((class - FINE_FROM) / 4, (class - FINE_FROM) % 4);
            let base = 256 << doubling;
            base + (quarter as u32 + 1) * (base / 4)
        } else if class < LARGEST {
            let (doubling, half) = ((class - COARSE_FROM) / 2, (class - COARSE_FROM) % 2);
            let base = (1 << 20) << doubling;
            base + (half as u32 + 1) * (base / 2)
        } else {
            (16 << 20) + (8 << 10)
        };
        class += 1;
    }
    sizes
};

impl Class {
    /// Number of classes.
    pub const COUNT: usize = LARGEST + 1;

    /// The smallest class whose blocks hold `len` bytes, `None` past the largest.
    pub fn holding(len: usize) -> Option<Self> {
        let class = if len <= 256 {
            len.div_ceil(64).saturating_sub(1)
        } else if len <= 1 << 20 {
            let doubling = (len - 1).ilog2() as usize - 8;
            FINE_FROM + 4 * doubling + (len - 1 - (256 << doubling)) / (64 << doubling)
        } else if len <= 16 << 20 {
            let doubling = (len - 1).ilog2() as usize - 20;
            COARSE_FROM + 2 * doubling + (len - 1 - (1 << 20 << doubling)) / (1 << 19 << doubling)
        } else if len <= SIZES[LARGEST] as usize {
            LARGEST
        } else {
            return None;
        };
        Some(Self(class as u8))
    }

    /// The class numbered `index`, `None` unless there is such a class.
    pub const fn from_index(index: usize) -> Option<Self> {
        if index < Self::COUNT { Some(Self(index as u8)) } else { None }
    }

    /// This class's number, below [`Class::COUNT`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Bytes of a block of this class, a multiple of [`GRANULE`].
    pub const fn size(self) -> usize {
        SIZES[self.0 as usize] as usize
    }

    /// All classes, smallest first.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> {
        (0..Self::COUNT as u8).map(Self)
    }
}

const _: () = assert!(Class::COUNT <= 64, "six bits of the slot word");
const _: () = assert!(SIZES[LARGEST] as usize >= record::len(KEY_LEN_MAX, VALUE_LEN_MAX));
const _: () = {
    let mut class = 0;
    while class < Class::COUNT {
        assert!((SIZES[class] as u64).is_multiple_of(GRANULE));
        assert!(class == 0 || SIZES[class - 1] < SIZES[class]);
        class += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holding_finds_the_smallest_class_at_every_edge() {
        for class in Class::all() {
            let below = class.index().checked_sub(1).and_then(Class::from_index);
            assert_eq!(Class::holding(class.size()), Some(class));
            assert_eq!(Class::holding(class.size() - 1), Some(class));
            if let Some(below) = below {
                assert_eq!(Class::holding(below.size() + 1), Some(class));
            }
        }
        assert_eq!(Class::holding(0), Class::from_index(0));
        assert_eq!(Class::holding(SIZES[LARGEST] as usize + 1), None);
    }

    #[test]
    fn a_block_wastes_at_most_a_fifth_to_1_mib_and_a_third_past_it() {
        for len in (257..16 << 20).step_by(977) {
            let waste = Class::holding(len).unwrap().size() - len;
            let limit = if len <= 1 << 20 { len / 4 } else { len / 2 };
            assert!(waste <= limit, "{len} wastes {waste}");
        }
    }
}
