//! Distances that fall off exponentially.

use super::random::Random;

/// YCSB's `ExponentialGenerator`: whole numbers from 0 on, of which `percentile` percent lie below `range`.
#[derive(Debug, Clone)]
pub struct Exponential {
    gamma: f64,
}

impl Exponential {
    /// With `percentile` percent (between 0 and 100, both excluded) of all draws below `range`.
    #[must_use]
    pub fn new(percentile: f64, range: f64) -> Self {
        Self { gamma: -(1.0 - percentile / 100.0).ln() / range }
    }

    /// The next distance; there is no upper bound.
    pub fn next(&self, random: &mut Random) -> u64 {
        // `1 - u` is in (0, 1], so that the logarithm is finite; it is distributed like `u`.
        (-(1.0 - random.unit()).ln() / self.gamma) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_kept() {
        let distances = Exponential::new(90.0, 100.0);
        let mut random = Random::new(4, 0);
        let draws = 100_000;
        let mut below = [0_u32; 3];
        for _ in 0..draws {
            let distance = distances.next(&mut random);
            for (count, limit) in below.iter_mut().zip([50, 100, 200]) {
                *count += u32::from(distance < limit);
            }
        }
        // 1 - 0.1^(limit / 100), within five standard deviations.
        for (count, share) in below.iter().zip([0.683_77, 0.9, 0.99]) {
            assert!((f64::from(*count) / f64::from(draws) - share).abs() < 0.008, "{below:?}");
        }
    }
}
