//! Every record equally often.

use super::random::Random;

/// YCSB's `UniformLongGenerator`: numbers in `start..start + count`.
#[derive(Debug, Clone)]
pub struct Uniform {
    start: u64,
    count: u64,
}

impl Uniform {
    /// Over `count` numbers from `start` on.
    #[must_use]
    pub fn new(start: u64, count: u64) -> Self {
        Self { start, count }
    }

    /// The next number.
    pub fn next(&self, random: &mut Random) -> u64 {
        self.start + random.below(self.count)
    }
}
