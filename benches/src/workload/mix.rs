//! Which kind of operation comes next.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::error::WorkloadError;
use super::properties::Properties;
use crate::generator::random::Random;

/// The kinds of operations, by YCSB's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
pub enum Operation {
    /// Read one record whole.
    Read,
    /// Write one record whole.
    Update,
    /// Write a record that does not exist yet.
    Insert,
    /// Read one record, then write it: timed as a whole, and its halves also as READ and UPDATE, as in YCSB.
    ReadModifyWrite,
    /// Read some records, one behind the other in the store's order, from a record's place on.
    Scan,
}

impl Operation {
    /// All kinds, in the order of their discriminants.
    pub const ALL: [Self; 5] = [Self::Read, Self::Update, Self::Insert, Self::ReadModifyWrite, Self::Scan];

    /// Whether it writes a record.
    #[must_use]
    pub fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::Scan)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Read => "READ",
            Self::Update => "UPDATE",
            Self::Insert => "INSERT",
            Self::ReadModifyWrite => "READ-MODIFY-WRITE",
            Self::Scan => "SCAN",
        })
    }
}

/// The proportions of the kinds; they add up to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mix {
    shares: [f64; Operation::ALL.len()],
}

impl Mix {
    /// Inserts only: the load.
    pub const LOAD: Self = Self { shares: [0.0, 0.0, 1.0, 0.0, 0.0] };

    /// The proportions that `properties` give, with YCSB's defaults.
    ///
    /// # Errors
    /// If a proportion is no share, or they do not add up to 1. (YCSB scales a wrong sum; here a forgotten
    /// `updateproportion` is an error, not a third of another workload.)
    pub fn from_properties(properties: &Properties) -> Result<Self, WorkloadError> {
        let names = [
            "readproportion",
            "updateproportion",
            "insertproportion",
            "readmodifywriteproportion",
            "scanproportion",
        ];
        let defaults = [0.95, 0.05, 0.0, 0.0, 0.0];
        let mut shares = [0.0; Operation::ALL.len()];
        for ((share, name), default) in shares.iter_mut().zip(names).zip(defaults) {
            *share = properties.share(name, default)?;
        }
        let sum: f64 = shares.iter().sum();
        if (sum - 1.0).abs() > 1e-6 {
            let each: Vec<String> =
                names.iter().zip(shares).map(|(name, share)| format!("{name}={share}")).collect();
            return Err(WorkloadError::Contradiction(format!(
                "the proportions add up to {}, not 1: {} (properties that are not set have YCSB's defaults)",
                (sum * 1e6).round() / 1e6,
                each.join(", ")
            )));
        }
        Ok(Self { shares })
    }

    /// The share of `operation`, between 0 and 1.
    #[must_use]
    pub fn share(&self, operation: Operation) -> f64 {
        self.shares[operation as usize]
    }

    /// Whether results of `operation` can occur: its own, or as half of a read-modify-write.
    #[must_use]
    pub fn reports(&self, operation: Operation) -> bool {
        let as_half = matches!(operation, Operation::Read | Operation::Update);
        self.share(operation) > 0.0 || (as_half && self.share(Operation::ReadModifyWrite) > 0.0)
    }

    /// The kind of the next operation.
    pub fn next(&self, random: &mut Random) -> Operation {
        let mut left = random.unit();
        let mut last = Operation::Read;
        for operation in Operation::ALL {
            let share = self.share(operation);
            if share > 0.0 {
                if left < share {
                    return operation;
                }
                left -= share;
                last = operation;
            }
        }
        // Rounding can leave a hair of the unit interval to nobody.
        last
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for operation in Operation::ALL.into_iter().filter(|&operation| self.share(operation) > 0.0) {
            // A thousandth of a percent is the finest that anyone writes.
            let percent = (self.share(operation) * 1e5).round() / 1e3;
            write!(f, "{separator}{percent} % {}", operation.to_string().to_lowercase())?;
            separator = ", ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix(text: &str) -> Result<Mix, WorkloadError> {
        let mut properties = Properties::default();
        for assignment in text.split_whitespace() {
            properties.add_assignment(assignment)?;
        }
        Mix::from_properties(&properties)
    }

    #[test]
    fn draws_follow_the_proportions() {
        let text = "readproportion=0.4 updateproportion=0.2 insertproportion=0.1 readmodifywriteproportion=0.2 scanproportion=0.1";
        let mix = mix(text).expect("a good mix");
        let mut random = Random::new(1, 0);
        let mut hits = [0_u32; Operation::ALL.len()];
        for _ in 0..100_000 {
            hits[mix.next(&mut random) as usize] += 1;
        }
        for (seen, expected) in hits.iter().zip([40_000, 20_000, 10_000, 20_000, 10_000]) {
            assert!(seen.abs_diff(expected) < 800, "{hits:?}");
        }
    }

    #[test]
    fn a_kind_without_a_share_never_comes() {
        let mix = mix("readproportion=0 updateproportion=1").expect("a good mix");
        let mut random = Random::new(1, 0);
        assert!((0..10_000).all(|_| mix.next(&mut random) == Operation::Update));
    }

    #[test]
    fn halves_of_a_read_modify_write_are_reported() {
        let mix = mix("readproportion=0 updateproportion=0 readmodifywriteproportion=1").expect("a good mix");
        assert!(
            mix.reports(Operation::Read) && mix.reports(Operation::Update) && !mix.reports(Operation::Insert)
        );
    }

    #[test]
    fn a_wrong_sum_is_refused() {
        let sum = mix("readproportion=0.5").expect_err("0.55 in all").to_string();
        assert!(
            sum.starts_with(
                "the proportions add up to 0.55, not 1: readproportion=0.5, updateproportion=0.05"
            )
        );
    }

    #[test]
    fn a_mix_is_said_in_percent() {
        let mix = mix("readproportion=0.955 updateproportion=0 readmodifywriteproportion=0.045")
            .expect("a good mix");
        assert_eq!(mix.to_string(), "95.5 % read, 4.5 % read-modify-write");
    }
}
