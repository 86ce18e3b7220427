//! A share of the operations on a share of the records.

use super::random::Random;

/// YCSB's `HotspotIntegerGenerator`: the first records are the hot set; within each set, all are equal.
#[derive(Debug, Clone)]
pub struct Hotspot {
    start: u64,
    hot: u64,
    cold: u64,
    hot_operations: f64,
}

impl Hotspot {
    /// Over `count` records from `start` on, of which the first `hot_data` (0 to 1) get the share
    /// `hot_operations` (0 to 1) of all draws. A set that is drawn from should not be empty; if it is, its start
    /// is drawn.
    #[must_use]
    pub fn new(start: u64, count: u64, hot_data: f64, hot_operations: f64) -> Self {
        let hot = (count as f64 * hot_data) as u64;
        Self { start, hot, cold: count - hot.min(count), hot_operations }
    }

    /// Records in the hot set and outside it.
    #[must_use]
    pub fn sets(&self) -> (u64, u64) {
        (self.hot, self.cold)
    }

    /// The next record.
    pub fn next(&self, random: &mut Random) -> u64 {
        if random.unit() < self.hot_operations {
            self.start + random.below(self.hot)
        } else {
            self.start + self.hot + random.below(self.cold)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hot_records_get_their_share_evenly() {
        let chooser = Hotspot::new(100, 1000, 0.2, 0.8);
        let mut random = Random::new(2, 0);
        let mut hits = [0_u32; 1000];
        for _ in 0..1_000_000 {
            hits[(chooser.next(&mut random) - 100) as usize] += 1;
        }
        let hot: u32 = hits[..200].iter().sum();
        assert!(hot.abs_diff(800_000) < 2000, "{hot}");
        // 4000 and 250 draws for each record, within five and a half standard deviations.
        assert!(hits[..200].iter().all(|&n| n.abs_diff(4000) < 350));
        assert!(hits[200..].iter().all(|&n| n.abs_diff(250) < 87));
    }

    #[test]
    fn sets_split_the_records() {
        assert_eq!(Hotspot::new(0, 10, 0.25, 0.5).sets(), (2, 8));
        assert_eq!(Hotspot::new(0, 10, 1.0, 1.0).sets(), (10, 0));
    }
}
