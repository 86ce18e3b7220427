//! How a record number becomes a key.

use std::fmt;

use super::error::WorkloadError;
use super::properties::Properties;
use crate::generator::fnv;

/// Farside's longest key, bytes.
pub const KEY_MAX: usize = 4096;
const PREFIX: &[u8] = b"user";
const MAX_DIGITS: usize = 20;

/// YCSB's keys: `user` and a decimal number, padded with zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyFormat {
    /// Whether the number is hashed first (`insertorder=hashed`) or the record's own (`ordered`).
    pub hashed: bool,
    /// Digits to pad to.
    pub zero_padding: usize,
}

impl KeyFormat {
    /// The format that `properties` ask for.
    ///
    /// # Errors
    /// On an order that there is not, or a padding beyond the longest key.
    pub fn from_properties(properties: &Properties) -> Result<Self, WorkloadError> {
        let hashed = properties.choice("insertorder", &["hashed", "ordered"])? == 0;
        let zero_padding = properties.whole("zeropadding", 1)?;
        let longest = (KEY_MAX - PREFIX.len()) as u64;
        match properties.get("zeropadding") {
            Some(property) if zero_padding > longest => {
                Err(property
                    .bad("zeropadding", &format!("at most {longest}, as keys end at {KEY_MAX} bytes")))
            }
            _ => Ok(Self { hashed, zero_padding: zero_padding as usize }),
        }
    }

    /// The longest key of this format, bytes.
    #[must_use]
    pub fn max_len(&self) -> usize {
        PREFIX.len() + self.zero_padding.max(MAX_DIGITS)
    }

    /// Writes the key of record `number` to `key`, which allocates only if it has less room than
    /// [`Self::max_len`].
    pub fn write(&self, number: u64, key: &mut Vec<u8>) {
        let mut left = if self.hashed { fnv::hash64(number) } else { number };
        let mut digits = [0; MAX_DIGITS];
        let mut first = MAX_DIGITS;
        loop {
            first -= 1;
            digits[first] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        let digits = &digits[first..];
        key.clear();
        key.extend_from_slice(PREFIX);
        key.resize(PREFIX.len() + self.zero_padding.saturating_sub(digits.len()), b'0');
        key.extend_from_slice(digits);
    }
}

impl fmt::Display for KeyFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.hashed { "user<hash>" } else { "user<number>" })?;
        match self.zero_padding {
            0 | 1 => Ok(()),
            digits => write!(f, " of at least {digits} digits"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(hashed: bool, zero_padding: usize, number: u64) -> String {
        let mut key = Vec::new();
        KeyFormat { hashed, zero_padding }.write(number, &mut key);
        String::from_utf8(key).expect("keys are ASCII")
    }

    #[test]
    fn keys_are_those_of_ycsb() {
        assert_eq!(key(true, 1, 0), "user6284781860667377211");
        assert_eq!(key(false, 1, 5), "user5");
        assert_eq!(key(false, 8, 5), "user00000005");
        assert_eq!(key(false, 1, u64::MAX), "user18446744073709551615");
    }

    #[test]
    fn padding_ends_at_the_longest_key() {
        let padded = |assignment| {
            let mut properties = Properties::default();
            properties.add_assignment(assignment).expect("a known name");
            KeyFormat::from_properties(&properties)
        };
        assert_eq!(padded("zeropadding=4092").expect("4096 bytes").max_len(), 4096);
        assert!(padded("zeropadding=4093").is_err());
    }

    proptest! {
        #[test]
        fn ordered_keys_read_back(number in any::<u64>(), padding in 0_usize..30) {
            let key = key(false, padding, number);
            prop_assert!(key.len() >= 4 + padding);
            prop_assert_eq!(key[4..].parse::<u64>(), Ok(number));
        }
    }
}
