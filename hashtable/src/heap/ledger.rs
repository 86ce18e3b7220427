//! What of a heap must outlive it: which bytes are cut for which class, and the highest count issued there. A heap that
//! has a ledger writes it down as it changes, a word for each unit, before any lease that depends on it is handed out.
//!
//! ```text
//! 63 62 | 61 .. 56 | 55 .. 26      | 25 .. 14     | 13 .. 0
//!  01   | 0        | highest count | 0            | check    in the pool: no chunk that had the unit issued a higher one
//!  10   | class    | highest count | units it has | check    the first unit of a chunk
//! ```
//! Words of a chunk's other units do not count. So each change is one word, and whenever it is cut off the ledger is right:
//! a chunk that goes back to the pool has its other units written first.

use core::fmt;
use farside_protocol::Class;
use farside_protocol::limits::LEASE_COUNT_MAX;

const KIND_SHIFT: u32 = 62;
const CLASS_SHIFT: u32 = 56;
const COUNT_SHIFT: u32 = 26;
const SPAN_SHIFT: u32 = 14;
const SPAN_BITS: u32 = 12;
const CHECK_BITS: u32 = SPAN_SHIFT;

const _: () = assert!(LEASE_COUNT_MAX < 1 << (CLASS_SHIFT - COUNT_SHIFT));
const _: () = assert!(Class::COUNT <= 1 << (KIND_SHIFT - CLASS_SHIFT));

/// Where a heap's ledger is kept.
pub trait Ledger: Send + fmt::Debug {
    /// Keeps `word` for `unit`, in place of what was kept before. It must be safe when this returns, also if the process
    /// ends right after.
    fn note(&mut self, unit: usize, word: u64);
}

/// What is written of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    Pooled { floor: u32 },
    Chunk { class: Class, span: u32, highest: u32 },
}

impl Entry {
    pub(super) fn encode(self, unit: usize) -> u64 {
        let body = match self {
            Self::Pooled { floor } => 1 << KIND_SHIFT | u64::from(floor) << COUNT_SHIFT,
            Self::Chunk { class, span, highest } => {
                debug_assert!(span < 1 << SPAN_BITS);
                2 << KIND_SHIFT
                    | (class.index() as u64) << CLASS_SHIFT
                    | u64::from(highest) << COUNT_SHIFT
                    | u64::from(span) << SPAN_SHIFT
            }
        };
        body | check(body, unit)
    }

    /// What a word says of a unit; `None` if it was not written for it.
    pub(super) fn decode(word: u64, unit: usize) -> Option<Self> {
        let body = word >> CHECK_BITS << CHECK_BITS;
        if word - body != check(body, unit) {
            return None;
        }
        let part = |shift: u32, bits: u32| body >> shift & ((1 << bits) - 1);
        let count = part(COUNT_SHIFT, CLASS_SHIFT - COUNT_SHIFT) as u32;
        let class = part(CLASS_SHIFT, KIND_SHIFT - CLASS_SHIFT) as usize;
        match body >> KIND_SHIFT {
            1 => Some(Self::Pooled { floor: count }),
            2 => Some(Self::Chunk {
                class: Class::from_index(class)?,
                span: part(SPAN_SHIFT, SPAN_BITS) as u32,
                highest: count,
            }),
            _ => None,
        }
    }
}

/// Differs for any two bodies that differ in one bit: an odd factor moves each bit of the body to one of the highest.
fn check(body: u64, unit: usize) -> u64 {
    let mixed = (body >> CHECK_BITS ^ (unit as u64) << 20).wrapping_add(1);
    mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - CHECK_BITS)
}

/// The word of a unit of a new heap.
pub fn blank(unit: usize) -> u64 {
    Entry::Pooled { floor: 0 }.encode(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_word_says_what_was_written(
            count in 0..=LEASE_COUNT_MAX as u32, class in 0..Class::COUNT, span in 1..1u32 << SPAN_BITS, unit in 0..1usize << 24,
        ) {
            let class = Class::from_index(class).unwrap();
            for entry in [Entry::Pooled { floor: count }, Entry::Chunk { class, span, highest: count }] {
                prop_assert_eq!(Entry::decode(entry.encode(unit), unit), Some(entry));
            }
        }

        #[test]
        fn a_flipped_bit_is_found(count in 0..=LEASE_COUNT_MAX as u32, unit in 0..1usize << 24, bit in 0..64u32) {
            let word = Entry::Pooled { floor: count }.encode(unit);
            prop_assert_eq!(Entry::decode(word ^ 1 << bit, unit), None);
        }
    }

    #[test]
    fn memory_that_was_never_written_is_no_ledger() {
        assert_eq!(Entry::decode(0, 0), None);
        assert_eq!(Entry::decode(0, 7), None);
    }
}
