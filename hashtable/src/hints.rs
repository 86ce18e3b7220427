//! A client's memory of where records are: a bounded, set-associative cache from a key's hash to its record, so
//! that a warm GET is one READ.
//!
//! It begins small and grows with the number of keys to its bound: what is small stays in the processor's caches,
//! and costs nothing to make.
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

/// Entries of a set. With four a cache grows when it is about half full, and then one key in three hundred is in a
/// set with too many others.
const WAYS: usize = 4;

/// Two neighbouring cache lines, which processors fetch together; the entries put last are in the first.
#[derive(Clone, Copy)]
#[repr(align(128))]
struct Set([Entry; WAYS]);

const _: () = assert!(size_of::<Set>() == 128);

/// Sets of a new cache: 16 KiB.
const SETS_FIRST: usize = 128;
/// The factor by which it grows.
const GROWTH: usize = 2;
/// It grows when a hint was displaced for each so many sets.
const SETS_PER_DISPLACED: usize = 32;

/// The cache.
pub struct Hints {
    sets: Box<[Set]>,
    sets_max: usize,
    /// Hints that took the place of another key's since it last grew.
    displaced: usize,
}

impl core::fmt::Debug for Hints {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Hints").field("capacity", &(self.sets.len() * WAYS)).finish()
    }
}

impl Hints {
    /// A cache of at most `bytes` bytes, at least one set.
    pub fn with_bytes(bytes: usize) -> Self {
        let sets_max = (bytes / size_of::<Set>()).max(1);
        Self { sets: empty(sets_max.min(SETS_FIRST)), sets_max, displaced: 0 }
    }

    /// The tag's bits are all as good as random; a home line's, the other half of the hash, would be as well, but
    /// an entry does not have them when the cache grows.
    #[inline]
    fn set(&self, tag: u64) -> usize {
        ((u128::from(tag) * self.sets.len() as u128) >> 64) as usize
    }

    /// The hint for a key.
    #[inline]
    pub fn get(&self, hash: KeyHash) -> Option<Hint> {
        let Set(entries) = &self.sets[self.set(hash.tag())];
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

    /// Bytes of memory it takes now.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.sets)
    }

    /// Reads the entry where a key's hint is most likely: when several keys are looked up, their memory is waited for
    /// once if they were touched before.
    #[inline]
    pub fn touch(&self, hash: KeyHash) {
        core::hint::black_box(self.sets[self.set(hash.tag())].0[0].tag);
    }

    /// Remembers a hint. In a full set it takes the place of the one that was put longest ago.
    #[inline]
    pub fn put(&mut self, hash: KeyHash, hint: Hint) {
        self.put_entry(Entry {
            tag: hash.tag(),
            locator: hint.locator.to_bits() | if hint.expires { EXPIRES } else { 0 },
            count: hint.count as u32,
            len: hint.len,
            slot: hint.slot.0,
            seen: (hint.seen_ns >> SEEN_SHIFT) as u32,
        });
        if self.displaced > self.sets.len() / SETS_PER_DISPLACED && self.sets.len() < self.sets_max {
            self.grow();
        }
    }

    #[inline]
    fn put_entry(&mut self, entry: Entry) {
        let set = self.set(entry.tag);
        let Set(entries) = &mut self.sets[set];
        let own = entries.iter().position(|old| old.tag == entry.tag);
        self.displaced += usize::from(own.is_none() && entries[WAYS - 1].count != 0);
        entries[..=own.unwrap_or(WAYS - 1)].rotate_right(1);
        entries[0] = entry;
    }

    #[cold]
    fn grow(&mut self) {
        let sets = empty((self.sets.len() * GROWTH).min(self.sets_max));
        let old = core::mem::replace(&mut self.sets, sets);
        for Set(entries) in old {
            // The one put last comes last.
            for entry in entries.into_iter().rev().filter(|entry| entry.count != 0) {
                self.put_entry(entry);
            }
        }
        self.displaced = 0;
    }

    /// Forgets a key.
    #[inline]
    pub fn remove(&mut self, hash: KeyHash) {
        let set = self.set(hash.tag());
        for entry in &mut self.sets[set].0 {
            if entry.tag == hash.tag() {
                *entry = EMPTY;
            }
        }
    }

    /// Forgets everything, as after a change of generation.
    pub fn clear(&mut self) {
        self.sets.fill(Set([EMPTY; WAYS]));
    }
}

fn empty(sets: usize) -> Box<[Set]> {
    vec![Set([EMPTY; WAYS]); sets].into_boxed_slice()
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
    fn a_full_set_keeps_those_put_last() {
        let mut hints = Hints::with_bytes(0);
        let key = |i: usize| KeyHash::from_halves(1, i as u64 + 1);
        for i in 0..WAYS {
            hints.put(key(i), hint(i as u64 + 1));
        }
        hints.put(key(0), hint(100));
        hints.put(key(WAYS), hint(200));
        assert_eq!(hints.get(key(1)), None, "the one put longest ago");
        assert_eq!(hints.get(key(0)), Some(hint(100)));
        assert_eq!(hints.get(key(WAYS)), Some(hint(200)));
        for i in 2..WAYS {
            assert_eq!(hints.get(key(i)), Some(hint(i as u64 + 1)));
        }
    }

    #[test]
    fn it_grows_with_the_keys_to_its_bound_and_no_further() {
        let bound = 1 << 20;
        let mut hints = Hints::with_bytes(bound);
        let key = |i: u64| KeyHash::from_halves(0, i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        assert_eq!(hints.sets.len(), SETS_FIRST);
        for i in 0..8000 {
            hints.put(key(i), hint(i + 1));
        }
        let kept = (0..8000).filter(|i| hints.get(key(*i)) == Some(hint(i + 1))).count();
        assert!(kept > 7500, "{kept} of 8000 hints are there");
        assert!(hints.sets.len() < bound / size_of::<Set>(), "{} sets", hints.sets.len());
        for i in 0..200_000 {
            hints.put(key(i), hint(i + 1));
        }
        assert_eq!(hints.sets.len() * size_of::<Set>(), bound);
        assert_eq!(hints.get(key(199_999)), Some(hint(200_000)));
    }
}
