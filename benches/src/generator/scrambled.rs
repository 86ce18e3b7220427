//! Zipfian popularity, scattered over the records.

use super::fnv;
use super::random::Random;
use super::zipfian::Zipfian;

/// Items whose popularity is drawn, whatever the number of records.
const ITEMS: u64 = 10_000_000_000;

/// The sum of `i^-0.99` for `i` in `1..=ITEMS`, as written in YCSB.
const ZETAN: f64 = 26.469_028_201_783_02;

/// YCSB's `ScrambledZipfianGenerator`: a zipfian item out of ten billion, hashed onto the records.
///
/// The popularity of a record therefore does not change with the number of records, and several items share a
/// record: with 1000 records the hottest one gets about 3.8 % of the operations, not 13 %.
#[derive(Debug, Clone)]
pub struct ScrambledZipfian {
    items: Zipfian,
    start: u64,
    count: u64,
}

impl ScrambledZipfian {
    /// Over `count` records from `start` on; at least one is taken.
    #[must_use]
    pub fn new(start: u64, count: u64) -> Self {
        // One more than ITEMS, as YCSB's bounds are inclusive on both ends.
        Self { items: Zipfian::with_zetan(ITEMS + 1, ZETAN), start, count: count.max(1) }
    }

    /// The next record.
    pub fn next(&self, random: &mut Random) -> u64 {
        self.start + fnv::hash64(self.items.next(random)) % self.count
    }
}

#[cfg(test)]
mod tests {
    use super::super::zipfian::zeta;
    use super::*;

    #[test]
    fn the_written_constant_is_the_sum() {
        assert!((zeta(ITEMS) - ZETAN).abs() < 1e-9, "zeta({ITEMS}) = {}", zeta(ITEMS));
    }

    #[test]
    fn the_hottest_records_are_where_and_as_hot_as_in_ycsb() {
        let (records, draws) = (100_000, 1_000_000_u32);
        let chooser = ScrambledZipfian::new(0, records);
        let mut random = Random::new(5, 0);
        let mut hits = vec![0_u32; records as usize];
        for _ in 0..draws {
            hits[chooser.next(&mut random) as usize] += 1;
        }
        for (item, share) in [(0, 1.0 / ZETAN), (1, 0.5_f64.powf(0.99) / ZETAN)] {
            let seen = f64::from(hits[(fnv::hash64(item) % records) as usize]);
            let expected = share * f64::from(draws);
            // Other items that fall on the same record add about draws / records.
            assert!(
                (seen - expected - 10.0).abs() < 5.0 * expected.sqrt(),
                "item {item}: {seen}, not {expected}"
            );
        }
        let touched = hits.iter().filter(|&&n| n > 0).count();
        assert!(touched > 80_000, "the tail must reach most records, not {touched}");
    }

    #[test]
    fn records_start_where_told() {
        let chooser = ScrambledZipfian::new(500, 10);
        let mut random = Random::new(1, 0);
        assert!((0..1000).all(|_| (500..510).contains(&chooser.next(&mut random))));
    }
}
