//! A client's memory of where records are: a bounded, set-associative cache from a key's hash to its record, so
//! that a warm GET is one READ.
//!
//! Hints are never trusted: a READ through a stale one does not verify (see `plan::get`). They hold no keys; two
//! keys with the same 64-bit tag are told apart by the key in the record.

use alloc::boxed::Box;
use alloc::vec;
use farside_protocol::{KeyHash, Life, Locator, SlotIndex};

/// Where a key's record was seen as END.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hint {
    /// The record.
    pub locator: Locator,
    /// Its block's lease count: with it a CAS on the link can only ever hit this record.
    pub count: u64,
    /// Bytes of the record.
    pub len: u32,
    /// The slot from which its chain starts.
    pub slot: SlotIndex,
    /// Whether the record can expire: then a change that depends on its being there needs a fresh read.
    pub expires: bool,
    /// When it was seen as END, nanoseconds of [`Io::now`](crate::Io::now): rule T7 counts from here. Kept with a
    /// grain of 17 ms, rounded down.
    pub seen_ns: u64,
}

impl Hint {
    /// The life of the record's block.
    pub const fn life(&self) -> Life {
        Life { block: self.locator.block(), count: self.count }
    }
}

const EXPIRES: u64 = 1 << 63;
const SEEN_SHIFT: u32 = 24;

#[derive(Clone, Copy)]
struct Entry {
    tag: u64,
    /// Locator, and whether the record expires in the highest bit.
    locator: u64,
    /// 0: no hint.
    count: u32,
    len: u32,
    slot: u32,
    seen: u32,
}

const EMPTY: Entry = Entry { tag: 0, locator: 0, count: 0, len: 0, slot: 0, seen: 0 };

/// A set of two entries fills a cache line: a lookup misses once.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Set([Entry; 2]);

const _: () = assert!(size_of::<Set>() == 64);

/// The cache.
pub struct Hints {
    sets: Box<[Set]>,
}

impl core::fmt::Debug for Hints {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Hints").field("capacity", &(self.sets.len() * 2)).finish()
    }
}

impl Hints {
    /// A cache of at most `bytes` bytes, at least one line.
    pub fn with_bytes(bytes: usize) -> Self {
        Self { sets: vec![Set([EMPTY; 2]); (bytes / size_of::<Set>()).max(1)].into_boxed_slice() }
    }

    #[inline]
    fn set(&self, hash: KeyHash) -> usize {
        hash.home_line(self.sets.len() as u64) as usize
    }

    /// The hint for a key.
    #[inline]
    pub fn get(&self, hash: KeyHash) -> Option<Hint> {
        let Set(entries) = &self.sets[self.set(hash)];
        let entry = entries.iter().find(|entry| entry.tag == hash.tag() && entry.count != 0)?;
        Some(Hint {
            locator: Locator::from_bits(entry.locator),
            count: entry.count.into(),
            len: entry.len,
            slot: SlotIndex(entry.slot),
            expires: entry.locator & EXPIRES != 0,
            seen_ns: u64::from(entry.seen) << SEEN_SHIFT,
        })
    }

    /// Remembers a hint. The younger entry of a full set stays, the new one takes the place of the older.
    #[inline]
    pub fn put(&mut self, hash: KeyHash, hint: Hint) {
        let set = self.set(hash);
        let Set(entries) = &mut self.sets[set];
        // The front entry is the one put last.
        if entries[0].tag != hash.tag() {
            entries.swap(0, 1);
        }
        entries[0] = Entry {
            tag: hash.tag(),
            locator: hint.locator.to_bits() | if hint.expires { EXPIRES } else { 0 },
            count: hint.count as u32,
            len: hint.len,
            slot: hint.slot.0,
            seen: (hint.seen_ns >> SEEN_SHIFT) as u32,
        };
    }

    /// Forgets a key.
    #[inline]
    pub fn remove(&mut self, hash: KeyHash) {
        let set = self.set(hash);
        for entry in &mut self.sets[set].0 {
            if entry.tag == hash.tag() {
                *entry = EMPTY;
            }
        }
    }

    /// Forgets everything, as after a change of generation.
    pub fn clear(&mut self) {
        self.sets.fill(Set([EMPTY; 2]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farside_protocol::{Block, Class};

    fn hint(count: u64) -> Hint {
        let life = Life { block: Block::new(count + 100).unwrap(), count };
        let locator = Locator::new(3, Class::holding(100).unwrap(), life);
        Hint {
            locator,
            count,
            len: 100,
            slot: SlotIndex(9),
            expires: count.is_multiple_of(2),
            seen_ns: 5 << SEEN_SHIFT,
        }
    }

    #[test]
    fn a_hint_is_remembered_replaced_and_forgotten() {
        let mut hints = Hints::with_bytes(1 << 12);
        let key = KeyHash::from_halves(77, 5);
        assert_eq!(hints.get(key), None);
        for count in 1..4 {
            hints.put(key, hint(count));
            assert_eq!(hints.get(key), Some(hint(count)));
        }
        hints.remove(key);
        assert_eq!(hints.get(key), None);
    }

    #[test]
    fn a_full_set_keeps_the_two_put_last() {
        let mut hints = Hints::with_bytes(0);
        let keys: [KeyHash; 3] = core::array::from_fn(|i| KeyHash::from_halves(1, i as u64));
        for (i, key) in keys.iter().enumerate() {
            hints.put(*key, hint(i as u64 + 1));
        }
        assert_eq!(hints.get(keys[0]), None);
        assert_eq!(hints.get(keys[1]), Some(hint(2)));
        assert_eq!(hints.get(keys[2]), Some(hint(3)));
    }
}
