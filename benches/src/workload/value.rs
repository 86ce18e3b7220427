//! What a record's value holds: bytes that follow from the record and the write, so that any read can be checked.
//!
//! ```text
//! 0        8        16       24
//! | origin | count  | word 0 | word 1 | ...
//! ```
//! `origin` and `count` name the write ([`Stamp`]). Word `i` is `base + i * GOLDEN`, with a `base` hashed from the
//! record's number, the stamp and the value's length: a value of another record, of another write, of another
//! length, shifted, or put together from two values differs. All integers are little-endian; the last word may be
//! cut off.

use super::error::WorkloadError;
use super::properties::Properties;
use crate::generator::random::Random;
use crate::generator::zipfian::Zipfian;

/// Farside's longest value, bytes.
const MAX_VALUE: u64 = 16 << 20;
const HEADER: usize = 16;

/// Shorter values hold no word that depends on the record, and cannot be checked.
pub const MIN_CHECKED: usize = HEADER + 8;

/// 2^64 divided by the golden ratio, odd: its multiples differ in every byte for a long way.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The write that a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Who wrote it: unique to one thread of one run.
    pub origin: u64,
    /// 0 for a load; else the writes of that thread, counted from 1.
    pub count: u64,
}

/// How lengths of fields are drawn.
#[derive(Debug, Clone)]
enum FieldLengths {
    Constant,
    Uniform,
    Zipfian(Zipfian),
}

/// The size of values: YCSB's fields, one after the other in one value.
#[derive(Debug, Clone)]
pub struct ValueFormat {
    fields: u64,
    field_length: u64,
    min_field_length: u64,
    lengths: FieldLengths,
}

impl ValueFormat {
    /// The format that `properties` ask for, with YCSB's defaults of 10 fields of 100 bytes.
    ///
    /// # Errors
    /// On a distribution of lengths that there is not, a shortest field longer than the longest, and values beyond
    /// 16 MiB.
    pub fn from_properties(properties: &Properties) -> Result<Self, WorkloadError> {
        let fields = properties.whole("fieldcount", 10)?;
        let field_length = properties.whole("fieldlength", 100)?;
        let min_field_length = properties.whole("minfieldlength", 1)?;
        let lengths = properties.choice("fieldlengthdistribution", &["constant", "uniform", "zipfian"])?;
        if fields.checked_mul(field_length).is_none_or(|len| len > MAX_VALUE) {
            return Err(WorkloadError::Contradiction(format!(
                "fieldcount={fields} times fieldlength={field_length} bytes is more than the longest value of \
                 {MAX_VALUE} bytes (16 MiB)"
            )));
        }
        if lengths != 0 && min_field_length > field_length {
            return Err(WorkloadError::Contradiction(format!(
                "minfieldlength={min_field_length} is more than fieldlength={field_length}"
            )));
        }
        let lengths = match lengths {
            0 => FieldLengths::Constant,
            1 => FieldLengths::Uniform,
            _ => FieldLengths::Zipfian(Zipfian::new(field_length - min_field_length + 1)),
        };
        Ok(Self { fields, field_length, min_field_length, lengths })
    }

    /// The longest value, bytes.
    #[must_use]
    pub fn max_len(&self) -> usize {
        (self.fields * self.field_length) as usize
    }

    /// The shortest value, bytes.
    #[must_use]
    pub fn min_len(&self) -> usize {
        match self.lengths {
            FieldLengths::Constant => self.max_len(),
            _ => (self.fields * self.min_field_length) as usize,
        }
    }

    /// The length of the next value, bytes.
    pub fn draw(&self, random: &mut Random) -> usize {
        let field = |random: &mut Random| match &self.lengths {
            FieldLengths::Constant => self.field_length,
            FieldLengths::Uniform => {
                self.min_field_length + random.below(self.field_length - self.min_field_length + 1)
            }
            FieldLengths::Zipfian(lengths) => self.min_field_length + lengths.next(random),
        };
        match self.lengths {
            FieldLengths::Constant => self.max_len(),
            _ => (0..self.fields).map(|_| field(random)).sum::<u64>() as usize,
        }
    }

    /// The size in words, for the report: `1000 B in one value (10 x 100 B)`.
    #[must_use]
    pub fn describe(&self) -> String {
        let (fields, length) = (self.fields, self.field_length);
        match self.lengths {
            FieldLengths::Constant => format!("{} B in one value ({fields} x {length} B)", self.max_len()),
            _ => format!(
                "{} to {} B in one value ({fields} x {} to {length} B, {})",
                self.min_len(),
                self.max_len(),
                self.min_field_length,
                if matches!(self.lengths, FieldLengths::Uniform) { "uniform" } else { "zipfian" }
            ),
        }
    }
}

/// Fills `value` with what the write `stamp` of record `record` puts there.
pub fn fill(value: &mut [u8], record: u64, stamp: Stamp) {
    let base = base(record, stamp, value.len());
    let (header, body) = value.split_at_mut(HEADER.min(value.len()));
    let mut origin_and_count = [0; HEADER];
    origin_and_count[..8].copy_from_slice(&stamp.origin.to_le_bytes());
    origin_and_count[8..].copy_from_slice(&stamp.count.to_le_bytes());
    header.copy_from_slice(&origin_and_count[..header.len()]);

    let mut word = base;
    let mut words = body.chunks_exact_mut(8);
    for chunk in &mut words {
        chunk.copy_from_slice(&word.to_le_bytes());
        word = word.wrapping_add(GOLDEN);
    }
    let rest = words.into_remainder();
    rest.copy_from_slice(&word.to_le_bytes()[..rest.len()]);
}

/// The write that `value` came from, if every byte is what that write of record `record` put there; else the
/// position of the first byte that is not, or the value's length if it is too short to be checked.
///
/// # Errors
/// As said.
pub fn check(value: &[u8], record: u64) -> Result<Stamp, usize> {
    if value.len() < MIN_CHECKED {
        return Err(value.len());
    }
    let (header, body) = value.split_at(HEADER);
    let stamp = Stamp { origin: word(&header[..8]), count: word(&header[8..]) };
    let mut expected = base(record, stamp, value.len());
    let words = body.chunks_exact(8);
    let rest = words.remainder();
    for (chunk, number) in words.zip(0..) {
        let difference = word(chunk) ^ expected;
        if difference != 0 {
            return Err(HEADER + number * 8 + difference.trailing_zeros() as usize / 8);
        }
        expected = expected.wrapping_add(GOLDEN);
    }
    match rest.iter().zip(expected.to_le_bytes()).position(|(&byte, expected)| byte != expected) {
        Some(position) => Err(value.len() - rest.len() + position),
        None => Ok(stamp),
    }
}

/// The record that `value` says it was written to; none if it is too short to say so. Whether that is true
/// [`check`] tells.
#[must_use]
pub fn record_of(value: &[u8]) -> Option<u64> {
    let (header, body) = value.split_at_checked(HEADER)?;
    let parts = [value.len() as u64, word(&header[8..]), word(&header[..8])];
    let base = word(body.get(..8)?);
    let hash = parts.into_iter().fold(unmix(base), |hash, part| unmix(hash ^ part));
    Some(hash ^ GOLDEN)
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

fn base(record: u64, stamp: Stamp, len: usize) -> u64 {
    [record, stamp.origin, stamp.count, len as u64].into_iter().fold(GOLDEN, |hash, part| mix(hash ^ part))
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): each bit of the result depends on each bit of `z`.
fn mix(z: u64) -> u64 {
    let z = z.wrapping_add(GOLDEN);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The number that [`mix`] makes `z` of.
fn unmix(z: u64) -> u64 {
    // The inverses of the two factors; a shift by more than 21 bits is undone by three of it.
    let z = (z ^ (z >> 31) ^ (z >> 62)).wrapping_mul(0x3196_42B2_D24D_8EC3);
    let z = (z ^ (z >> 27) ^ (z >> 54)).wrapping_mul(0x96DE_1B17_3F11_9089);
    let z = z ^ (z >> 30) ^ (z >> 60);
    z.wrapping_sub(GOLDEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAMP: Stamp = Stamp { origin: 7, count: 3 };

    fn filled(len: usize, record: u64, stamp: Stamp) -> Vec<u8> {
        let mut value = vec![0; len];
        fill(&mut value, record, stamp);
        value
    }

    fn format(text: &str) -> Result<ValueFormat, WorkloadError> {
        let mut properties = Properties::default();
        for assignment in text.split_whitespace() {
            properties.add_assignment(assignment)?;
        }
        ValueFormat::from_properties(&properties)
    }

    #[test]
    fn another_record_write_or_length_is_noticed() {
        let value = filled(100, 1, STAMP);
        assert_eq!(check(&value, 1), Ok(STAMP));
        assert!(check(&value, 2).is_err());
        assert!(check(&value[..99], 1).is_err());
        let mut later = value.clone();
        later[..HEADER].copy_from_slice(&filled(100, 1, Stamp { count: 4, ..STAMP })[..HEADER]);
        assert!(check(&later, 1).is_err());
    }

    #[test]
    fn a_value_torn_at_any_byte_is_noticed() {
        let (old, new) = (filled(200, 1, STAMP), filled(200, 1, Stamp { count: 4, ..STAMP }));
        for at in 1..200 {
            let torn = [&new[..at], &old[at..]].concat();
            // A tear after the last byte that differs is no tear.
            if torn != new && torn != old {
                assert!(check(&torn, 1).is_err(), "torn at {at}");
            }
        }
    }

    #[test]
    fn short_values_are_filled_but_cannot_be_checked() {
        assert_eq!(check(&filled(23, 1, STAMP), 1), Err(23));
        assert_eq!(filled(3, 1, STAMP), [7, 0, 0]);
        assert!(filled(0, 1, STAMP).is_empty());
    }

    #[test]
    fn sizes_follow_the_fields() {
        let standard = format("").expect("YCSB's default");
        assert_eq!((standard.min_len(), standard.max_len()), (1000, 1000));
        assert_eq!(standard.describe(), "1000 B in one value (10 x 100 B)");

        let drawn = format("fieldcount=2 fieldlength=50 minfieldlength=10 fieldlengthdistribution=uniform")
            .expect("a good format");
        assert_eq!(drawn.describe(), "20 to 100 B in one value (2 x 10 to 50 B, uniform)");
        let mut random = Random::new(1, 0);
        let lengths: Vec<usize> = (0..10_000).map(|_| drawn.draw(&mut random)).collect();
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&20), Some(&100)));

        let skewed = format("fieldcount=1 fieldlengthdistribution=zipfian").expect("a good format");
        let short = (0..10_000).filter(|_| skewed.draw(&mut random) == 1).count();
        // 1 / zeta(100) of all.
        assert!(short.abs_diff(1894) < 200, "{short}");
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        assert!(format("fieldcount=1 fieldlength=16777216").is_ok());
        assert!(format("fieldcount=1 fieldlength=16777217").is_err());
        assert!(format("fieldcount=18446744073709551615 fieldlength=2").is_err());
        assert!(format("minfieldlength=200 fieldlengthdistribution=uniform").is_err());
        assert!(format("fieldlengthdistribution=histogram").is_err());
    }

    proptest! {
        #[test]
        fn any_changed_byte_is_noticed(
            len in MIN_CHECKED..300,
            record in any::<u64>(),
            origin in any::<u64>(),
            count in any::<u64>(),
            at in any::<prop::sample::Index>(),
            flip in 1_u8..=255,
        ) {
            let stamp = Stamp { origin, count };
            let mut value = filled(len, record, stamp);
            prop_assert_eq!(check(&value, record), Ok(stamp));
            prop_assert_eq!(record_of(&value), Some(record));
            let at = at.index(len);
            value[at] ^= flip;
            let found = check(&value, record);
            prop_assert!(found.is_err());
            if at >= HEADER {
                prop_assert_eq!(found, Err(at));
            }
        }
    }
}
