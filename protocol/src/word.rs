//! The two words of the table that change by compare-and-swap, and what they are made of.
//!
//! ```text
//! SlotWord   63 62 | 61 .. 50 | 49 .. 44 | 43 .. 34 | 33 .. 0
//!            state | fp (12)  | class (6)| tag (10) | block (64 B granule of the region)
//!                    `---------------- Locator: the 62 low bits ----------------'
//! Link       63 62 | 61 .. 0
//!            01 END        | lease count, its six low bits on top: the record is its key's current one, in this
//!                            life of its block
//!            10 NEXT_BLIND | locator of the successor, written by a blind PUT
//!            11 NEXT_OTHER | locator of the successor, written by anything else
//!            00 DEAD       | why: 1 blind delete, 2 conditional delete, 3 expiry
//! ```
//! A link's state lies in its highest byte, so a READ that joins bytes of two of a record's links reads as its
//! END only if that highest byte was still END's: then END was the state at that moment. The six bits beside it tell
//! one END from those of the block's next 63 lives, so neither do bytes of an old link joined with the END of the
//! record that is being written over it read as the old record's END.

use crate::class::Class;
use crate::limits::{GRANULE, LEASE_COUNT_MAX, TAG_PERIOD};
use crate::mutation::{self, Mutation};

const BLOCK_BITS: u32 = 34;
const TAG_BITS: u32 = 10;
const CLASS_BITS: u32 = 6;
const FINGERPRINT_BITS: u32 = 12;
const STATE_SHIFT: u32 = 62;
const BODY: u64 = (1 << STATE_SHIFT) - 1;

/// Bits of an END's count that lie in its highest byte, below the state.
const END_TOP_BITS: u32 = 6;
const END_TOP_SHIFT: u32 = STATE_SHIFT - END_TOP_BITS;

const TAG_SHIFT: u32 = BLOCK_BITS;
const CLASS_SHIFT: u32 = TAG_SHIFT + TAG_BITS;
const FINGERPRINT_SHIFT: u32 = CLASS_SHIFT + CLASS_BITS;

const _: () = assert!(FINGERPRINT_SHIFT + FINGERPRINT_BITS == STATE_SHIFT);
const _: () = assert!(1 << TAG_BITS == TAG_PERIOD);
const _: () = assert!(LEASE_COUNT_MAX < 1 << (64 - BLOCK_BITS));

const fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// A block of the heap, by the granule of the region at which it starts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Block(u64);

impl Block {
    /// The block at `granule`; `None` past 34 bits.
    pub const fn new(granule: u64) -> Option<Self> {
        if granule <= mask(BLOCK_BITS) { Some(Self(granule)) } else { None }
    }

    /// The granule of the region at which the block starts.
    pub const fn granule(self) -> u64 {
        self.0
    }

    /// Byte offset in the region.
    pub const fn offset(self) -> u64 {
        self.0 * GRANULE
    }
}

/// One life of a block: which lease of it, counted from 1 and never restarted. Two records never share a life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Life {
    /// The block.
    pub block: Block,
    /// Its lease count, `1..=LEASE_COUNT_MAX`.
    pub count: u64,
}

/// Unique for each publication of a record; the users' token for compare-exchange. Never ordered.
/// Block (34 bits) and lease count (30 bits).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Version(u64);

impl Version {
    /// The version of the record published in `life`.
    pub const fn of(life: Life) -> Self {
        Self(life.block.0 << (64 - BLOCK_BITS) | life.count & LEASE_COUNT_MAX)
    }

    /// The life that this version names.
    pub const fn life(self) -> Life {
        Life { block: Block(self.0 >> (64 - BLOCK_BITS)), count: self.0 & LEASE_COUNT_MAX }
    }

    /// The raw word.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// From a raw word; every word is some version, though perhaps one never issued.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// Where a record is and what must be found there: fingerprint, class, tag and block. The 62 bits shared by slot
/// words and `NEXT` links, and the seed of the record's checksum.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Locator(u64);

impl Locator {
    /// The locator of the record with `fingerprint` (12 bits) published in `life` in a block of `class`.
    pub const fn new(fingerprint: u16, class: Class, life: Life) -> Self {
        Self(
            (fingerprint as u64 & mask(FINGERPRINT_BITS)) << FINGERPRINT_SHIFT
                | (class.index() as u64) << CLASS_SHIFT
                | (life.count & mask(TAG_BITS)) << TAG_SHIFT
                | life.block.0,
        )
    }

    /// The 62 bits.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// From the 62 low bits of `bits`.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits & BODY)
    }

    /// The block, not yet checked to lie in any region.
    pub const fn block(self) -> Block {
        Block(self.0 & mask(BLOCK_BITS))
    }

    /// The low ten bits of the lease count.
    pub const fn tag(self) -> u64 {
        self.0 >> TAG_SHIFT & mask(TAG_BITS)
    }

    /// The class; `None` for the three codes that name none, as a torn or damaged word may.
    pub const fn class(self) -> Option<Class> {
        Class::from_index((self.0 >> CLASS_SHIFT & mask(CLASS_BITS)) as usize)
    }

    /// The 12-bit fingerprint of the key.
    pub const fn fingerprint(self) -> u16 {
        (self.0 >> FINGERPRINT_SHIFT) as u16
    }

    /// Whether this locator can name a record published in `life`.
    pub const fn names(self, life: Life) -> bool {
        self.block().0 == life.block.0 && self.tag() == life.count & mask(TAG_BITS)
    }
}

/// The state of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotState {
    /// Free.
    Empty,
    /// Placed by an INSERT that is not decided yet; GETs ignore it.
    Tentative,
    /// The way to a key's chain.
    Committed,
    /// Reserved for growth.
    Growing,
}

/// One slot of the index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SlotWord(u64);

impl SlotWord {
    /// The empty slot.
    pub const EMPTY: Self = Self(0);

    /// A tentative word for `locator`.
    pub const fn tentative(locator: Locator) -> Self {
        Self(1 << STATE_SHIFT | locator.0)
    }

    /// A committed word for `locator`.
    pub const fn committed(locator: Locator) -> Self {
        Self(2 << STATE_SHIFT | locator.0)
    }

    /// The raw word.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// From a raw word.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The state.
    pub const fn state(self) -> SlotState {
        match self.0 >> STATE_SHIFT {
            0 => SlotState::Empty,
            1 => SlotState::Tentative,
            2 => SlotState::Committed,
            _ => SlotState::Growing,
        }
    }

    /// The locator; meaningless in an empty slot.
    pub const fn locator(self) -> Locator {
        Locator(self.0 & BODY)
    }

    /// Whether the slot holds a committed word with `fingerprint`.
    pub const fn is_committed_for(self, fingerprint: u16) -> bool {
        self.0 >> FINGERPRINT_SHIFT == 2 << FINGERPRINT_BITS | fingerprint as u64
    }

    /// Whether the slot holds a tentative word with `fingerprint`.
    pub const fn is_tentative_for(self, fingerprint: u16) -> bool {
        self.0 >> FINGERPRINT_SHIFT == 1 << FINGERPRINT_BITS | fingerprint as u64
    }
}

/// Why a key's chain ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Death {
    /// Deleted unconditionally: a blind PUT that lost to it may count itself as ordered just before.
    Blind,
    /// Deleted only because it had a certain version.
    Conditional,
    /// Deleted because it had expired.
    Expired,
}

/// The link of a record: the truth about whether it is its key's current one.
// With a tag of a byte its copies would be made of parts that the processor cannot take from its store buffer: a
// stall each time.
#[repr(u64)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Link {
    /// Current, in the life of the block with this lease count.
    End(u64),
    /// Superseded by a blind PUT.
    NextBlind(Locator),
    /// Superseded by anything else.
    NextOther(Locator),
    /// Its key was deleted.
    Dead(Death),
}

impl Link {
    /// The link of a record that is current in `life`.
    #[inline]
    pub fn end_of(life: Life) -> Self {
        Self::End(if mutation::is(Mutation::EndWithoutLife) { 0 } else { life.count })
    }

    /// The raw word.
    pub const fn to_bits(self) -> u64 {
        match self {
            Self::End(count) => {
                1 << STATE_SHIFT
                    | (count & mask(END_TOP_BITS)) << END_TOP_SHIFT
                    | (count & BODY) >> END_TOP_BITS
            }
            Self::NextBlind(next) => 2 << STATE_SHIFT | next.0,
            Self::NextOther(next) => 3 << STATE_SHIFT | next.0,
            Self::Dead(Death::Blind) => 1,
            Self::Dead(Death::Conditional) => 2,
            Self::Dead(Death::Expired) => 3,
        }
    }

    /// From a raw word; `None` for a word that is no link, such as zeroed or foreign memory.
    pub const fn from_bits(bits: u64) -> Option<Self> {
        let body = bits & BODY;
        Some(match bits >> STATE_SHIFT {
            1 => Self::End((body & mask(END_TOP_SHIFT)) << END_TOP_BITS | body >> END_TOP_SHIFT),
            2 => Self::NextBlind(Locator(body)),
            3 => Self::NextOther(Locator(body)),
            _ => Self::Dead(match body {
                1 => Death::Blind,
                2 => Death::Conditional,
                3 => Death::Expired,
                _ => return None,
            }),
        })
    }

    /// The successor, if superseded.
    pub const fn next(self) -> Option<Locator> {
        match self {
            Self::NextBlind(next) | Self::NextOther(next) => Some(next),
            Self::End(_) | Self::Dead(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn life() -> impl Strategy<Value = Life> {
        (0..1u64 << 34, 1..=LEASE_COUNT_MAX).prop_map(|(block, count)| Life { block: Block(block), count })
    }

    proptest! {
        #[test]
        fn a_version_names_its_life(life in life()) {
            prop_assert_eq!(Version::of(life).life(), life);
            prop_assert_eq!(Version::from_bits(Version::of(life).to_bits()), Version::of(life));
        }

        #[test]
        fn a_slot_word_keeps_its_parts(life in life(), fp in 0..1u16 << 12, class in 0..Class::COUNT) {
            let class = Class::from_index(class).unwrap();
            let locator = Locator::new(fp, class, life);
            for word in [SlotWord::tentative(locator), SlotWord::committed(locator)] {
                prop_assert_eq!(word.locator(), locator);
                prop_assert_eq!(locator.fingerprint(), fp);
                prop_assert_eq!(locator.class(), Some(class));
                prop_assert!(locator.names(life));
                prop_assert_eq!(word.is_committed_for(fp), word.state() == SlotState::Committed);
                prop_assert_eq!(word.is_tentative_for(fp), word.state() == SlotState::Tentative);
                prop_assert!(!word.is_committed_for(fp ^ 1) && !word.is_tentative_for(fp ^ 1));
            }
        }

        #[test]
        fn every_word_decodes_to_at_most_one_link(bits: u64) {
            if let Some(link) = Link::from_bits(bits) {
                prop_assert_eq!(link.to_bits(), bits);
            }
        }

        /// The promise in the module's head: whatever bytes of two links of a record a torn READ joins.
        #[test]
        fn a_byte_mixture_reads_as_end_only_with_ends_highest_byte(
            count in 1..=LEASE_COUNT_MAX, other: u64, from_other in 1u8..=255,
        ) {
            let end = Link::End(count);
            let later = Link::NextBlind(Locator::from_bits(other));
            let (a, b) = (end.to_bits().to_le_bytes(), later.to_bits().to_le_bytes());
            let mixed: [u8; 8] = core::array::from_fn(|i| if from_other >> i & 1 == 1 { b[i] } else { a[i] });
            if Link::from_bits(u64::from_le_bytes(mixed)) == Some(end) {
                prop_assert_eq!(from_other >> 7, 0);
            }
        }

        /// The other one: the next life's END is written over an old link while that is read.
        #[test]
        fn no_byte_mixture_of_an_old_link_and_a_later_end_reads_as_the_old_end(
            count in 1..LEASE_COUNT_MAX - 64, later in 1..64u64, next: u64, death in 0..3usize, from_old: u8,
        ) {
            let death = [Death::Blind, Death::Conditional, Death::Expired][death];
            let new = Link::End(count + later).to_bits().to_le_bytes();
            for old in [Link::NextOther(Locator::from_bits(next)), Link::Dead(death)] {
                let old = old.to_bits().to_le_bytes();
                let mixed = core::array::from_fn(|i| if from_old >> i & 1 == 1 { old[i] } else { new[i] });
                prop_assert_ne!(Link::from_bits(u64::from_le_bytes(mixed)), Some(Link::End(count)));
            }
        }
    }
}
