//! The random stream of one thread.

use rand::SeedableRng;
use rand::rand_core::Rng;
use rand::rngs::Xoshiro256PlusPlus;

/// A seeded stream: the same seed and stream number give the same draws on every machine.
#[derive(Debug, Clone)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// Stream number `stream` of the run's `seed`. Streams of one seed do not overlap in practice.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        // The generator spreads its 64 bits of seed over its state with SplitMix64; neighbouring streams must not
        // be neighbours there, or stream 1 of seed 1 were stream 0 of seed 2.
        Self(Xoshiro256PlusPlus::seed_from_u64(super::fnv::hash64(stream) ^ seed))
    }

    /// A number in `[0, 1)` with 53 random bits, as Java's `nextDouble`.
    pub fn unit(&mut self) -> f64 {
        const SCALE: f64 = 1.0 / (1_u64 << 53) as f64;
        (self.0.next_u64() >> 11) as f64 * SCALE
    }

    /// A number in `0..bound`, by Lemire's multiplication; its bias is below `bound / 2^64`. 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let draw = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [random.below(1 << 40), random.below(1 << 40)]
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 1), draw(2, 0));
    }

    #[test]
    fn units_fill_the_unit_interval_evenly() {
        let mut random = Random::new(3, 0);
        let mut tenths = [0_u32; 10];
        for _ in 0..100_000 {
            tenths[(random.unit() * 10.0) as usize] += 1;
        }
        // Binomial with p = 0.1: standard deviation 95, so five of them.
        assert!(tenths.iter().all(|&n| n.abs_diff(10_000) < 475), "{tenths:?}");
    }
}
