//! YCSB's number generators: which record an operation is for.
//!
//! Each follows YCSB's published algorithm, so that a workload here asks for the same records with the same
//! frequencies as under YCSB. Where YCSB's own code leaves the range or never ends, the difference is said at
//! the generator.

pub mod acknowledged;
pub mod exponential;
pub mod fnv;
pub mod hotspot;
pub mod latest;
pub mod random;
pub mod scrambled;
pub mod sequential;
pub mod uniform;
pub mod zipfian;

use exponential::Exponential;
use hotspot::Hotspot;
use latest::Latest;
use random::Random;
use scrambled::ScrambledZipfian;
use sequential::Sequential;
use uniform::Uniform;

/// Draws allowed for a record that exists. YCSB draws for ever; here a key space laid out for far more inserts
/// than were made folds onto the records that exist.
const MAX_DRAWS: u32 = 1000;

/// Chooses the record of the next operation; one per thread.
#[derive(Debug, Clone)]
pub enum KeyChooser {
    /// Every record equally often.
    Uniform(Uniform),
    /// Few records very often, scattered over the whole key space.
    Zipfian(ScrambledZipfian),
    /// The newest records most often.
    Latest(Latest),
    /// A share of the operations on a share of the records.
    Hotspot(Hotspot),
    /// One record after the other, round and round.
    Sequential(Sequential),
    /// The newest records most often, falling off exponentially.
    Exponential(Exponential),
}

impl KeyChooser {
    /// A record number in `0..=newest`, where `newest` is the highest record known to exist.
    pub fn next(&mut self, newest: u64, random: &mut Random) -> u64 {
        for _ in 0..MAX_DRAWS {
            let drawn = match self {
                Self::Uniform(chooser) => Some(chooser.next(random)),
                Self::Zipfian(chooser) => Some(chooser.next(random)),
                Self::Latest(chooser) => Some(chooser.next(newest, random)),
                Self::Hotspot(chooser) => Some(chooser.next(random)),
                Self::Sequential(chooser) => Some(chooser.advance()),
                Self::Exponential(chooser) => newest.checked_sub(chooser.next(random)),
            };
            match drawn {
                Some(record) if record <= newest => return record,
                _ => {}
            }
        }
        random.below(newest.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distribution_stays_within_the_records_that_exist() {
        let choosers = [
            KeyChooser::Uniform(Uniform::new(0, 2000)),
            KeyChooser::Zipfian(ScrambledZipfian::new(0, 2000)),
            KeyChooser::Latest(Latest::new(1000)),
            KeyChooser::Hotspot(Hotspot::new(0, 2000, 0.2, 0.8)),
            KeyChooser::Sequential(Sequential::new(0, 2000, 0, 1)),
            KeyChooser::Exponential(Exponential::new(95.0, 2000.0)),
        ];
        for mut chooser in choosers {
            let mut random = Random::new(7, 0);
            for newest in 1000..1500 {
                assert!(chooser.next(newest, &mut random) <= newest, "{chooser:?}");
            }
        }
    }

    #[test]
    fn a_key_space_far_beyond_the_records_still_ends() {
        let mut chooser = KeyChooser::Sequential(Sequential::new(1_000_000, 10, 0, 1));
        assert!(chooser.next(3, &mut Random::new(1, 0)) <= 3);
    }
}
