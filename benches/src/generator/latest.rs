//! The newest records most often.

use super::random::Random;
use super::zipfian::Zipfian;

/// YCSB's `SkewedLatestGenerator`: zipfian distance from the newest record.
///
/// YCSB draws a distance below `newest`, so that it never reads record 0 and cannot read a table of one record;
/// here the distance reaches record 0.
#[derive(Debug, Clone)]
pub struct Latest {
    distance: Zipfian,
}

impl Latest {
    /// Over a table whose newest record is `newest`; later calls of `next` may widen it.
    #[must_use]
    pub fn new(newest: u64) -> Self {
        Self { distance: Zipfian::new(newest + 1) }
    }

    /// A record in `0..=newest`.
    pub fn next(&mut self, newest: u64, random: &mut Random) -> u64 {
        self.distance.grow(newest + 1);
        newest.saturating_sub(self.distance.next(random))
    }
}

#[cfg(test)]
mod tests {
    use super::super::zipfian::zeta;
    use super::*;

    #[test]
    fn the_newest_record_leads_while_records_are_added() {
        let mut chooser = Latest::new(999);
        let mut random = Random::new(9, 0);
        let draws = 200_000_u64;
        let (mut newest_hits, mut recent_hits) = (0_u32, 0_u32);
        for draw in 0..draws {
            let newest = 999 + draw / 100;
            let distance = newest - chooser.next(newest, &mut random);
            newest_hits += u32::from(distance == 0);
            recent_hits += u32::from(distance < 10);
        }
        // Exact shares for the range's mean size; its growth from 1000 to 3000 moves them by less than a tenth.
        let newest_share = f64::from(newest_hits) / draws as f64;
        let recent_share = f64::from(recent_hits) / draws as f64;
        assert!((newest_share / (1.0 / zeta(2000)) - 1.0).abs() < 0.1, "{newest_share}");
        assert!((recent_share / (zeta(10) / zeta(2000)) - 1.0).abs() < 0.1, "{recent_share}");
    }

    #[test]
    fn a_table_of_one_record_is_read() {
        assert_eq!(Latest::new(0).next(0, &mut Random::new(1, 0)), 0);
    }
}
