//! From a key to its place: one XXH3-128 over the key, seeded per table.
//!
//! ```text
//! high 64 bits   home line (multiply-shift over the lines of the shard)
//! low  64 bits   63 .. 32 shard (multiply-shift over the shards)   11 .. 0 fingerprint   all: the hint tag
//! ```
//! The parts come from different bits, so keys of one window differ in their fingerprints.

/// The seed of a table's key hash, drawn at random when the table is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableSeed(pub u64);

/// The hash of a key in one table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KeyHash {
    high: u64,
    low: u64,
}

impl KeyHash {
    /// Hashes `key`.
    #[inline]
    pub fn of(key: &[u8], seed: TableSeed) -> Self {
        let hash = xxhash_rust::xxh3::xxh3_128_with_seed(key, seed.0);
        Self { high: (hash >> 64) as u64, low: hash as u64 }
    }

    /// A hash made of its two halves, for tests that need keys to collide at will.
    pub const fn from_halves(high: u64, low: u64) -> Self {
        Self { high, low }
    }

    /// The home line among `lines`.
    #[inline]
    pub const fn home_line(self, lines: u64) -> u64 {
        ((self.high as u128 * lines as u128) >> 64) as u64
    }

    /// The shard among `shards`.
    #[inline]
    pub const fn shard(self, shards: usize) -> usize {
        (((self.low >> 32) * shards as u64) >> 32) as usize
    }

    /// The 12-bit fingerprint kept in the slot word.
    #[inline]
    pub const fn fingerprint(self) -> u16 {
        (self.low & 0xfff) as u16
    }

    /// 64 bits that tell a client's hints apart.
    #[inline]
    pub const fn tag(self) -> u64 {
        self.low
    }
}
