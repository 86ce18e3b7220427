//! The keys that one answer to a SCAN brings.

use farside_hashtable::plan::{Scanned, Taken};
use farside_protocol::wire::ScanEntry;
use farside_protocol::{Key, Version};

/// Bytes of a page, unless one key with its value is longer.
const PAGE_LEN: usize = 64 << 10;

/// Gathers keys until it is full.
pub(crate) struct ScanPage {
    keys_max: usize,
    /// Keys and values, one behind the other.
    bytes: Vec<u8>,
    found: Vec<Found>,
    pub(crate) is_full: bool,
}

struct Found {
    key_len: usize,
    value_len: usize,
    version: Version,
    expires_at_ms: u64,
    flags: u16,
}

impl ScanPage {
    pub(crate) fn new(keys_max: u16) -> Self {
        Self { keys_max: keys_max.into(), bytes: Vec::new(), found: Vec::new(), is_full: false }
    }

    /// Takes a key in, if there is room.
    pub(crate) fn take(
        &mut self,
        Scanned { key, value, version, expires_at_ms, flags }: Scanned<'_>,
    ) -> Taken {
        let len = self.bytes.len() + key.len() + value.len();
        if len > PAGE_LEN && !self.found.is_empty() {
            self.is_full = true;
            return Taken::Not;
        }
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        let (key_len, value_len) = (key.len(), value.len());
        self.found.push(Found { key_len, value_len, version, expires_at_ms, flags });
        self.is_full = self.found.len() == self.keys_max;
        if self.is_full { Taken::Last } else { Taken::GoOn }
    }

    /// What it has taken in.
    pub(crate) fn entries(&self) -> Vec<ScanEntry<'_>> {
        let mut bytes = &self.bytes[..];
        let entry = |found: &Found| {
            let (key, rest) = bytes.split_at(found.key_len);
            let (value, rest) = rest.split_at(found.value_len);
            bytes = rest;
            let Found { version, expires_at_ms, flags, .. } = *found;
            ScanEntry { key: Key::new(key).expect("a record's"), value, version, expires_at_ms, flags }
        };
        self.found.iter().map(entry).collect()
    }
}
