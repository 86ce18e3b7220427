//! The bytes of a record: a key, its value, and what proves that they belong together and here.
//!
//! ```text
//! 0       8          16        24              32        34      36          40
//! +-------+----------+---------+---------------+---------+-------+-----------+-----+-------+
//! | link  | checksum | version | expires_at_ms | key_len | flags | value_len | key | value |
//! | u64   | u64      | u64     | u64           | u16     | u16   | u32       |     |       |
//! +-------+----------+---------+---------------+---------+-------+-----------+-----+-------+
//!          `- of all after it, seeded with the record's locator
//! ```
//! All after `link` is written before the record can be reached and does not change while it can be.

use crate::class::Class;
use crate::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};
use crate::mutation::{self, Mutation};
use crate::word::{Life, Link, Locator, Version};

/// Bytes before the key.
pub const HEADER_LEN: usize = 40;

const CHECKSUM_AT: usize = 8;
const VERSION_AT: usize = 16;
const EXPIRES_AT: usize = 24;
const KEY_LEN_AT: usize = 32;
const FLAGS_AT: usize = 34;
const VALUE_LEN_AT: usize = 36;

/// Bytes of a record with a key and a value of these lengths.
pub const fn len(key_len: usize, value_len: usize) -> usize {
    HEADER_LEN + key_len + value_len
}

/// The value is a counter: an `i64`, little-endian, changed by fetch-add.
pub const FLAG_COUNTER: u16 = 1;

/// A key of valid length.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key<'a>(&'a [u8]);

/// A key or value outside the limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SizeError {
    /// The key is empty.
    #[error("the key is empty; a key has 1 to {KEY_LEN_MAX} bytes")]
    EmptyKey,
    /// The key is too long.
    #[error("the key has {0} bytes; a key has 1 to {KEY_LEN_MAX} bytes")]
    KeyTooLong(usize),
    /// The value is too long.
    #[error("the value has {0} bytes; a value has at most {VALUE_LEN_MAX} bytes (16 MiB)")]
    ValueTooLong(usize),
}

impl<'a> Key<'a> {
    /// Checks the length of `bytes`.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Result<Self, SizeError> {
        match bytes.len() {
            0 => Err(SizeError::EmptyKey),
            1..=KEY_LEN_MAX => Ok(Self(bytes)),
            len => Err(SizeError::KeyTooLong(len)),
        }
    }

    /// The bytes.
    #[inline]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

/// A record to be written.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The key.
    pub key: Key<'a>,
    /// The value.
    pub value: &'a [u8],
    /// When it expires, milliseconds of the Unix epoch; 0: never.
    pub expires_at_ms: u64,
    /// [`FLAG_COUNTER`] or 0.
    pub flags: u16,
}

impl<'a> Record<'a> {
    /// A plain record that never expires.
    pub const fn new(key: Key<'a>, value: &'a [u8]) -> Result<Self, SizeError> {
        if value.len() > VALUE_LEN_MAX {
            return Err(SizeError::ValueTooLong(value.len()));
        }
        Ok(Self { key, value, expires_at_ms: 0, flags: 0 })
    }

    /// Bytes of the whole record.
    pub const fn len(&self) -> usize {
        len(self.key.0.len(), self.value.len())
    }

    /// Whether the value is empty. (A record itself never is.)
    pub const fn is_empty(&self) -> bool {
        self.value.is_empty()
    }

    /// The smallest class of block that holds it.
    pub fn class(&self) -> Class {
        Class::holding(self.len()).expect("key and value were checked against the limits")
    }

    /// Writes the record as it is published in `life`, of a block of `class`, under `fingerprint`, its link END, to
    /// the start of `out`, and returns the locator under which it verifies.
    ///
    /// # Panics
    /// If `out` is shorter than [`Record::len`].
    #[inline]
    pub fn encode(&self, fingerprint: u16, class: Class, life: Life, out: &mut [u8]) -> Locator {
        debug_assert!(self.len() <= class.size());
        let locator = Locator::new(fingerprint, class, life);
        let key = self.key.0;
        let out = &mut out[..self.len()];
        out[..8].copy_from_slice(&Link::end_of(life).to_bits().to_le_bytes());
        out[VERSION_AT..EXPIRES_AT].copy_from_slice(&Version::of(life).to_bits().to_le_bytes());
        out[EXPIRES_AT..KEY_LEN_AT].copy_from_slice(&self.expires_at_ms.to_le_bytes());
        out[KEY_LEN_AT..FLAGS_AT].copy_from_slice(&(key.len() as u16).to_le_bytes());
        out[FLAGS_AT..VALUE_LEN_AT].copy_from_slice(&self.flags.to_le_bytes());
        out[VALUE_LEN_AT..HEADER_LEN].copy_from_slice(&(self.value.len() as u32).to_le_bytes());
        out[HEADER_LEN..HEADER_LEN + key.len()].copy_from_slice(key);
        out[HEADER_LEN + key.len()..].copy_from_slice(self.value);
        let checksum = checksum(&out[VERSION_AT..], locator);
        out[CHECKSUM_AT..VERSION_AT].copy_from_slice(&checksum.to_le_bytes());
        locator
    }
}

/// A record that was read and verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordView<'a> {
    /// The link as it was read together with the rest.
    pub link: Link,
    /// The version.
    pub version: Version,
    /// When it expires, milliseconds of the Unix epoch; 0: never.
    pub expires_at_ms: u64,
    /// [`FLAG_COUNTER`] or 0.
    pub flags: u16,
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// The record in `bytes`, if it has the identity that `locator` promises: its checksum verifies under the
    /// locator, its version names the locator's block and tag, and an END names the life of its version. `bytes`
    /// may be longer than the record. `None` is no error: the bytes were torn, or of another life or place.
    #[inline(always)]
    pub fn verify(bytes: &'a [u8], locator: Locator) -> Option<Self> {
        if bytes.len() < HEADER_LEN {
            return None;
        }
        let key_len = usize::from(u16::from_le_bytes([bytes[KEY_LEN_AT], bytes[KEY_LEN_AT + 1]]));
        let value_len = u32::from_le_bytes(bytes[VALUE_LEN_AT..HEADER_LEN].try_into().ok()?) as usize;
        if key_len == 0 || key_len > KEY_LEN_MAX || value_len > VALUE_LEN_MAX {
            return None;
        }
        let body = bytes.get(VERSION_AT..len(key_len, value_len))?;
        if word(bytes, CHECKSUM_AT) != checksum(body, locator) && !mutation::is(Mutation::NoChecksum) {
            return None;
        }
        let version = Version::from_bits(word(bytes, VERSION_AT));
        let life = version.life();
        let link = Link::from_bits(word(bytes, 0))?;
        if !locator.names(life) || (matches!(link, Link::End(_)) && link != Link::end_of(life)) {
            return None;
        }
        let (key, value) = bytes[HEADER_LEN..len(key_len, value_len)].split_at(key_len);
        Some(Self {
            link,
            version,
            expires_at_ms: word(bytes, EXPIRES_AT),
            flags: u16::from_le_bytes([bytes[FLAGS_AT], bytes[FLAGS_AT + 1]]),
            key,
            value,
        })
    }

    /// Bytes of the whole record.
    pub const fn len(&self) -> usize {
        len(self.key.len(), self.value.len())
    }

    /// Whether the value is empty. (A record itself never is.)
    pub const fn is_empty(&self) -> bool {
        self.value.is_empty()
    }

    /// Whether it has expired at `now_ms`.
    #[inline]
    pub const fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_at_ms != 0 && self.expires_at_ms <= now_ms
    }
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The key of bytes that may be a record, unverified: only to find out under which locator they would verify.
pub fn peek_key(bytes: &[u8]) -> Option<Key<'_>> {
    let key_len = usize::from(u16::from_le_bytes([*bytes.get(KEY_LEN_AT)?, *bytes.get(KEY_LEN_AT + 1)?]));
    Key::new(bytes.get(HEADER_LEN..HEADER_LEN + key_len)?).ok()
}

/// XXH3-64 of the body, then the locator mixed in by a bijection: for given bytes exactly one locator verifies.
/// (A seeded XXH3 would derive a secret for each long record, at several times the cost.)
#[inline]
fn checksum(body: &[u8], locator: Locator) -> u64 {
    xxhash_rust::xxh3::xxh3_64(body) ^ locator.to_bits().wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word::Block;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn sample(key: &[u8], value: &[u8], life: Life) -> (Vec<u8>, Locator) {
        let record = Record::new(Key::new(key).unwrap(), value).unwrap();
        let mut bytes = vec![0; record.len()];
        let locator = record.encode(7, record.class(), life, &mut bytes);
        (bytes, locator)
    }

    #[test]
    fn keys_and_values_outside_the_limits_are_refused() {
        assert_eq!(Key::new(b""), Err(SizeError::EmptyKey));
        assert!(Key::new(&[0; KEY_LEN_MAX]).is_ok());
        assert_eq!(Key::new(&[0; KEY_LEN_MAX + 1]), Err(SizeError::KeyTooLong(4097)));
        let value = vec![0; VALUE_LEN_MAX + 1];
        let key = Key::new(b"k").unwrap();
        assert!(Record::new(key, &value[1..]).is_ok());
        assert_eq!(Record::new(key, &value).unwrap_err(), SizeError::ValueTooLong(VALUE_LEN_MAX + 1));
    }

    proptest! {
        #[test]
        fn a_record_reads_back(
            key in prop::collection::vec(any::<u8>(), 1..300),
            value in prop::collection::vec(any::<u8>(), 0..3000),
            block in 0..1u64 << 34, count in 1..1u64 << 30, junk in 0..100usize,
        ) {
            let life = Life { block: Block::new(block).unwrap(), count };
            let (mut bytes, locator) = sample(&key, &value, life);
            bytes.resize(bytes.len() + junk, 0xaa);
            let view = RecordView::verify(&bytes, locator).unwrap();
            prop_assert_eq!((view.key, view.value), (&key[..], &value[..]));
            prop_assert_eq!((view.link, view.version), (Link::End(count), Version::of(life)));
        }

        /// A record found in another place, or of another life, is not the record that was asked for.
        #[test]
        fn no_other_locator_verifies(bit in 0..62u32, value in prop::collection::vec(any::<u8>(), 0..100)) {
            let (bytes, locator) = sample(b"key", &value, Life { block: Block::new(99).unwrap(), count: 5 });
            let other = Locator::from_bits(locator.to_bits() ^ 1 << bit);
            prop_assert_eq!(RecordView::verify(&bytes, other), None);
        }

        #[test]
        fn no_flipped_bit_after_the_link_verifies(at in 8..80usize, bit in 0..8u32) {
            let (mut bytes, locator) = sample(b"key", &[1; 37], Life { block: Block::new(9).unwrap(), count: 5 });
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(RecordView::verify(&bytes, locator), None);
        }

        /// An old body joined with the link of the block's next life.
        #[test]
        fn an_end_of_another_life_does_not_verify(count in 1..1u64 << 30) {
            let (mut bytes, locator) = sample(b"key", b"v", Life { block: Block::new(9).unwrap(), count: 5 });
            bytes[..8].copy_from_slice(&Link::End(count).to_bits().to_le_bytes());
            prop_assert_eq!(RecordView::verify(&bytes, locator).is_some(), count == 5);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), bits: u64) {
            let _ = RecordView::verify(&bytes, Locator::from_bits(bits));
        }
    }
}
