//! The one source of chance in a simulation.

/// SplitMix64 (Steele, Lea and Flood, 2014). Written out here because a seed must mean the same run in every build,
/// which a library's generator does not promise across its versions.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator that `seed` starts.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if that is 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.bits() as u128 * bound as u128) >> 64) as u64
    }

    /// An index below `len`; 0 if that is 0.
    pub const fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// True once in `n` times on average; never if `n` is 0.
    pub const fn one_in(&mut self, n: u32) -> bool {
        n != 0 && self.below(n as u64) == 0
    }

    /// A number up to `max` whose magnitude is uniform: small ones are as likely as large ones.
    pub const fn magnitude(&mut self, max: u64) -> u64 {
        let bits = self.below(u64::BITS as u64 - max.leading_zeros() as u64 + 1);
        let bound = if bits == 64 { u64::MAX } else { 1 << bits };
        let number = self.below(bound);
        if number < max { number } else { max }
    }

    /// One of `choices`.
    ///
    /// # Panics
    /// If there are none.
    pub const fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// Puts `items` in a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published generator's first outputs: what every recorded seed relies on.
    #[test]
    fn the_stream_of_a_seed_is_fixed() {
        let mut rng = Rng::new(1_234_567);
        let stream: [u64; 3] = core::array::from_fn(|_| rng.bits());
        assert_eq!(stream, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn draws_keep_to_their_bounds() {
        let mut rng = Rng::new(1);
        for bound in [0, 1, 2, 7, u64::MAX] {
            for _ in 0..1000 {
                assert!(rng.below(bound) < bound.max(1));
                assert!(rng.magnitude(bound) <= bound);
            }
        }
        assert!((0..1000).all(|_| !rng.one_in(0) && rng.one_in(1)));
        let mut items: Vec<u32> = (0..20).collect();
        rng.shuffle(&mut items);
        assert_ne!(items, Vec::from_iter(0..20));
        items.sort_unstable();
        assert_eq!(items, Vec::from_iter(0..20));
    }
}
