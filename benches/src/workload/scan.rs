//! How many records a scan asks for.

use std::fmt;

use super::error::WorkloadError;
use super::properties::Properties;
use crate::generator::random::Random;
use crate::generator::zipfian::Zipfian;

/// Longer scans are no short ranges any more, and all records of one are kept until they are checked.
const LENGTH_MAX: u64 = 65_535;

/// YCSB's `minscanlength`, `maxscanlength` and `scanlengthdistribution`.
#[derive(Debug, Clone)]
pub struct ScanLengths {
    min: u64,
    max: u64,
    /// Short ones most often; none: all equally often.
    zipfian: Option<Zipfian>,
}

impl ScanLengths {
    /// The lengths that `properties` ask for, with YCSB's defaults of 1 to 1000, uniformly.
    ///
    /// # Errors
    /// On a distribution that there is not, and on bounds that leave no length.
    pub fn from_properties(properties: &Properties) -> Result<Self, WorkloadError> {
        let (min, max) = (properties.whole("minscanlength", 1)?, properties.whole("maxscanlength", 1000)?);
        if min == 0 || min > max || max > LENGTH_MAX {
            return Err(WorkloadError::Contradiction(format!(
                "minscanlength={min} and maxscanlength={max}: the shortest scan has one record at least, the longest no \
                 less than that, and {LENGTH_MAX} at most"
            )));
        }
        let zipfian = properties.choice("scanlengthdistribution", &["uniform", "zipfian"])? == 1;
        Ok(Self { min, max, zipfian: zipfian.then(|| Zipfian::new(max - min + 1)) })
    }

    /// The longest, records.
    #[must_use]
    pub fn max(&self) -> usize {
        self.max as usize
    }

    /// The length of the next scan, records.
    pub fn draw(&self, random: &mut Random) -> usize {
        let more = match &self.zipfian {
            Some(lengths) => lengths.next(random),
            None => random.below(self.max - self.min + 1),
        };
        (self.min + more) as usize
    }
}

impl fmt::Display for ScanLengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let distribution = if self.zipfian.is_some() { "zipfian" } else { "uniform" };
        write!(f, "{} to {} records, {distribution}", self.min, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(text: &str) -> Result<ScanLengths, WorkloadError> {
        let mut properties = Properties::default();
        for assignment in text.split_whitespace() {
            properties.add_assignment(assignment)?;
        }
        ScanLengths::from_properties(&properties)
    }

    #[test]
    fn lengths_keep_to_their_bounds_and_their_distribution() {
        let mut random = Random::new(1, 0);
        let mut draw = |text| -> Vec<usize> {
            let lengths = lengths(text).expect("good properties");
            (0..10_000).map(|_| lengths.draw(&mut random)).collect()
        };
        let uniform = draw("minscanlength=3 maxscanlength=12");
        assert_eq!((uniform.iter().min(), uniform.iter().max()), (Some(&3), Some(&12)));
        let shortest = uniform.iter().filter(|&&length| length == 3).count();
        assert!(shortest.abs_diff(1000) < 200, "{shortest}");
        let skewed = draw("maxscanlength=100 scanlengthdistribution=zipfian");
        let shortest = skewed.iter().filter(|&&length| length == 1).count();
        // 1 / zeta(100) of all.
        assert!(shortest.abs_diff(1894) < 200, "{shortest}");
        assert_eq!(lengths("").expect("YCSB's defaults").to_string(), "1 to 1000 records, uniform");
    }

    #[test]
    fn bounds_without_a_length_between_are_refused() {
        for wrong in [
            "minscanlength=0",
            "minscanlength=11 maxscanlength=10",
            "maxscanlength=65536",
            "scanlengthdistribution=latest",
        ] {
            assert!(lengths(wrong).is_err(), "{wrong}");
        }
    }
}
