//! `--verify`: is what a read returned what it must be?
//!
//! Two things are proved. **Bytes:** the value is exactly one that some write of this record put there
//! ([`value::check`]). **Age**, as far as one thread can prove it without talking to others:
//! - a write that this thread knows to have taken effect is never followed by an older one of its own;
//! - what this thread has read is never followed by an older write of the same thread;
//! - a loaded value never comes back after any later one.
//!
//! That a value is *the* newest across threads is not checked here: it needs the history of all clients, which the
//! linearizability harness records.

use super::keys::{KEY_MAX, KeyFormat};
use super::value::{self, Stamp};

/// Records remembered per thread; 20 MiB. A record that falls on another's place forgets that one.
const REMEMBERED: usize = 1 << 19;

/// Why a read is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The value is not one that a write of this record put there.
    #[error("the value is not one written to this record; it differs from byte {0} on")]
    Bytes(usize),
    /// The value is of an older write than one that was seen.
    #[error("the value is older than one this thread has written or read before")]
    Stale,
    /// A scan brought a record of another key.
    #[error("the scan brought a value under a key that it was not written to")]
    Key,
    /// A scan brought more records than it was to.
    #[error("the scan brought more records than were asked for")]
    TooMany,
    /// A record that was written is absent.
    #[error("the record is absent, although its insert was acknowledged")]
    Absent,
}

#[derive(Debug, Clone, Copy)]
struct Memory {
    record: u64,
    /// This thread's last write to the record that took effect; 0 if there is none.
    own: u64,
    /// The last value read or written.
    seen: Stamp,
}

/// What one thread remembers of its reads and writes.
#[derive(Debug)]
pub struct Verifier {
    origin: u64,
    remembered: Box<[Option<Memory>]>,
    /// Room for a key.
    key: Vec<u8>,
}

impl Verifier {
    /// For the thread whose writes carry `origin`.
    #[must_use]
    pub fn new(origin: u64) -> Self {
        Self {
            origin,
            remembered: vec![None; REMEMBERED].into_boxed_slice(),
            key: Vec::with_capacity(KEY_MAX),
        }
    }

    /// Notes that this thread's write `count` of `record` has taken effect.
    pub fn wrote(&mut self, record: u64, count: u64) {
        let seen = Stamp { origin: self.origin, count };
        *self.place(record) = Some(Memory { record, own: count, seen });
    }

    /// Checks what a read of `record` returned.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn check(&mut self, record: u64, value: &[u8]) -> Result<(), Mismatch> {
        let stamp = value::check(value, record).map_err(Mismatch::Bytes)?;
        let origin = self.origin;
        let place = self.place(record);
        let Some(memory) = place.as_mut().filter(|memory| memory.record == record) else {
            *place = Some(Memory { record, own: 0, seen: stamp });
            return Ok(());
        };
        let before_own = stamp.origin == origin && stamp.count < memory.own;
        let before_seen = stamp.origin == memory.seen.origin && stamp.count < memory.seen.count;
        let loaded_again = stamp.count == 0 && memory.seen.count > 0;
        if before_own || before_seen || loaded_again {
            return Err(Mismatch::Stale);
        }
        memory.seen = stamp;
        Ok(())
    }

    /// Checks a record that a scan brought, whose number only its bytes tell.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn check_scanned(&mut self, keys: &KeyFormat, key: &[u8], value: &[u8]) -> Result<(), Mismatch> {
        let record = value::record_of(value).ok_or(Mismatch::Bytes(value.len()))?;
        keys.write(record, &mut self.key);
        if self.key != key {
            return Err(Mismatch::Key);
        }
        self.check(record, value)
    }

    fn place(&mut self, record: u64) -> &mut Option<Memory> {
        &mut self.remembered[record as usize % REMEMBERED]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: u64 = 1;
    const OTHER: u64 = 2;

    fn read(verifier: &mut Verifier, record: u64, origin: u64, count: u64) -> Result<(), Mismatch> {
        let mut bytes = [0; 64];
        value::fill(&mut bytes, record, Stamp { origin, count });
        verifier.check(record, &bytes)
    }

    #[test]
    fn own_writes_are_not_undone() {
        let mut verifier = Verifier::new(ME);
        verifier.wrote(5, 8);
        assert_eq!(read(&mut verifier, 5, ME, 8), Ok(()));
        assert_eq!(read(&mut verifier, 5, OTHER, 3), Ok(()), "another thread may have written after that");
        assert_eq!(read(&mut verifier, 5, ME, 7), Err(Mismatch::Stale));
        assert_eq!(read(&mut verifier, 5, OTHER, 0), Err(Mismatch::Stale), "a load came before all");
    }

    #[test]
    fn what_was_read_does_not_age() {
        let mut verifier = Verifier::new(ME);
        assert_eq!(read(&mut verifier, 5, 9, 0), Ok(()));
        assert_eq!(read(&mut verifier, 5, OTHER, 3), Ok(()));
        assert_eq!(read(&mut verifier, 5, OTHER, 2), Err(Mismatch::Stale));
        assert_eq!(read(&mut verifier, 5, 9, 0), Err(Mismatch::Stale));
        assert_eq!(read(&mut verifier, 6, OTHER, 2), Ok(()), "another record has its own history");
    }

    #[test]
    fn a_write_of_unknown_outcome_may_appear_late() {
        let mut verifier = Verifier::new(ME);
        verifier.wrote(5, 1);
        // Write 2 ended indeterminate, so it was not noted.
        assert_eq!(read(&mut verifier, 5, ME, 1), Ok(()));
        assert_eq!(read(&mut verifier, 5, ME, 2), Ok(()));
        assert_eq!(read(&mut verifier, 5, ME, 1), Err(Mismatch::Stale));
    }

    #[test]
    fn foreign_bytes_are_told_from_stale_ones() {
        let mut verifier = Verifier::new(ME);
        let mut bytes = [0; 64];
        value::fill(&mut bytes, 6, Stamp { origin: OTHER, count: 1 });
        assert!(matches!(verifier.check(5, &bytes), Err(Mismatch::Bytes(16..))));
        assert_eq!(verifier.check(5, b"short"), Err(Mismatch::Bytes(5)));
    }

    #[test]
    fn what_a_scan_brings_is_checked_by_what_it_says_itself() {
        let keys = KeyFormat { hashed: true, zero_padding: 1 };
        let (mut verifier, mut bytes, mut key) = (Verifier::new(ME), [0; 64], Vec::new());
        value::fill(&mut bytes, 6, Stamp { origin: OTHER, count: 1 });
        keys.write(6, &mut key);
        assert_eq!(verifier.check_scanned(&keys, &key, &bytes), Ok(()));
        assert_eq!(verifier.check_scanned(&keys, b"user1", &bytes), Err(Mismatch::Key));
        bytes[40] ^= 1;
        assert_eq!(verifier.check_scanned(&keys, &key, &bytes), Err(Mismatch::Bytes(40)));
        bytes[20] ^= 1;
        assert_eq!(
            verifier.check_scanned(&keys, &key, &bytes),
            Err(Mismatch::Key),
            "it names another record"
        );
        assert_eq!(verifier.check_scanned(&keys, &key, b"short"), Err(Mismatch::Bytes(5)));
        verifier.wrote(6, 2);
        value::fill(&mut bytes, 6, Stamp { origin: ME, count: 1 });
        assert_eq!(verifier.check_scanned(&keys, &key, &bytes), Err(Mismatch::Stale));
    }

    #[test]
    fn records_that_share_a_place_accuse_nobody() {
        let mut verifier = Verifier::new(ME);
        let twin = 5 + REMEMBERED as u64;
        verifier.wrote(5, 8);
        assert_eq!(read(&mut verifier, twin, ME, 2), Ok(()));
        assert_eq!(read(&mut verifier, 5, ME, 1), Ok(()), "its history is forgotten, so nothing is proved");
    }
}
