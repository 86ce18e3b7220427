//! Zipfian numbers by the approximation of Gray et al., "Quickly Generating Billion-Record Synthetic Databases",
//! SIGMOD 1994, section 3.2, with YCSB's constant.

use super::random::Random;

/// YCSB's zipfian constant.
pub const THETA: f64 = 0.99;

/// Terms of zeta that are added one by one; the rest follows from the Euler-Maclaurin formula.
const ZETA_HEAD: u64 = 1000;

/// The sum of `i^-THETA` for `i` in `1..=n`.
///
/// YCSB adds all terms, a minute for 100 million; here a formula takes over after a thousand, with
/// an error below 1e-12.
#[must_use]
pub fn zeta(n: u64) -> f64 {
    let head: f64 = (1..=n.min(ZETA_HEAD)).map(term).sum();
    if n <= ZETA_HEAD {
        return head;
    }
    let (a, b) = (ZETA_HEAD as f64, n as f64);
    let integral = (b.powf(1.0 - THETA) - a.powf(1.0 - THETA)) / (1.0 - THETA);
    let ends = (b.powf(-THETA) - a.powf(-THETA)) / 2.0;
    let slopes = -THETA * (b.powf(-THETA - 1.0) - a.powf(-THETA - 1.0)) / 12.0;
    head + integral + ends + slopes
}

fn term(i: u64) -> f64 {
    (i as f64).powf(-THETA)
}

/// Numbers in `0..items`, 0 the most frequent, 1 the next, and so on.
#[derive(Debug, Clone)]
pub struct Zipfian {
    items: u64,
    zetan: f64,
    eta: f64,
}

impl Zipfian {
    /// Over `items` numbers; at least one is taken.
    #[must_use]
    pub fn new(items: u64) -> Self {
        Self::with_zetan(items, zeta(items.max(1)))
    }

    /// Over `items` numbers whose zeta is known.
    #[must_use]
    pub fn with_zetan(items: u64, zetan: f64) -> Self {
        let items = items.max(1);
        Self { items, zetan, eta: eta(items, zetan) }
    }

    /// How many numbers there are to draw from.
    #[must_use]
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Widens the range to `items`; a smaller count changes nothing.
    ///
    /// YCSB keeps the first item count in eta; that skews a range that has grown a lot, and one that grew from two
    /// items leaves it. Here eta follows the count, as in the paper.
    pub fn grow(&mut self, items: u64) {
        if items > self.items {
            self.zetan += (self.items + 1..=items).map(term).sum::<f64>();
            self.items = items;
            self.eta = eta(items, self.zetan);
        }
    }

    /// The next number.
    pub fn next(&self, random: &mut Random) -> u64 {
        const ALPHA: f64 = 1.0 / (1.0 - THETA);
        let u = random.unit();
        let uz = u * self.zetan;
        if uz < 1.0 {
            return 0;
        }
        if uz < zeta_of_two() {
            return 1.min(self.items - 1);
        }
        let drawn = self.items as f64 * (self.eta * u - self.eta + 1.0).powf(ALPHA);
        // Rounding can carry the largest draw one past the end.
        (drawn as u64).min(self.items - 1)
    }
}

fn zeta_of_two() -> f64 {
    1.0 + 0.5_f64.powf(THETA)
}

fn eta(items: u64, zetan: f64) -> f64 {
    (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - zeta_of_two() / zetan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The probability of `rank` under Gray's approximation: the width of the interval of `u` that maps to it.
    fn probability(zipfian: &Zipfian, rank: u64) -> f64 {
        let (n, zetan, eta) = (zipfian.items as f64, zipfian.zetan, zipfian.eta);
        match rank {
            0 => 1.0 / zetan,
            1 => 0.5_f64.powf(THETA) / zetan,
            _ => {
                let u_of = |x: f64| ((x / n).powf(1.0 - THETA) - 1.0 + eta) / eta;
                let from = u_of(rank as f64).max(zeta_of_two() / zetan);
                (u_of(rank as f64 + 1.0) - from).max(0.0)
            }
        }
    }

    #[test]
    fn zeta_equals_the_plain_sum() {
        for n in [1, 2, 3, 999, 1000, 1001, 1500, 100_000] {
            let sum: f64 = (1..=n).map(term).sum();
            assert!((zeta(n) - sum).abs() < 1e-11, "zeta({n}) = {}, summed {sum}", zeta(n));
        }
    }

    #[test]
    fn draws_fit_the_approximation_exactly() {
        let zipfian = Zipfian::new(1000);
        let mut random = Random::new(11, 0);
        let draws = 1_000_000;
        let mut hits = vec![0_u32; 1000];
        for _ in 0..draws {
            hits[zipfian.next(&mut random) as usize] += 1;
        }
        // Pearson's chi-square over the 1000 ranks: 999 degrees of freedom, so mean 999 and deviation 44.7.
        let chi_square: f64 = hits
            .iter()
            .zip(0..)
            .map(|(&seen, rank)| {
                let expected = probability(&zipfian, rank) * f64::from(draws);
                (f64::from(seen) - expected).powi(2) / expected
            })
            .sum();
        assert!(chi_square < 999.0 + 5.0 * 44.7, "chi-square {chi_square}");
    }

    #[test]
    fn the_approximation_is_close_to_true_zipf_where_it_matters() {
        let zipfian = Zipfian::new(100_000);
        let zetan = zeta(100_000);
        let cumulated = |top: u64, of: &dyn Fn(u64) -> f64| (0..top).map(of).sum::<f64>();
        for top in [1, 2, 10, 100, 1000, 10_000, 100_000] {
            let approximated = cumulated(top, &|rank| probability(&zipfian, rank));
            let exact = cumulated(top, &|rank| term(rank + 1) / zetan);
            assert!((approximated - exact).abs() < 0.02, "top {top}: {approximated} for {exact}");
        }
    }

    #[test]
    fn a_grown_range_equals_a_new_one() {
        let mut grown = Zipfian::new(2);
        grown.grow(5000);
        let new = Zipfian::new(5000);
        assert_eq!(grown.items(), 5000);
        assert!((grown.zetan - new.zetan).abs() < 1e-9 && (grown.eta - new.eta).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn draws_stay_in_range(items in 0_u64..100_000, growth in 0_u64..1000, seed in any::<u64>()) {
            let mut zipfian = Zipfian::new(items);
            zipfian.grow(items + growth);
            let mut random = Random::new(seed, 0);
            for _ in 0..100 {
                prop_assert!(zipfian.next(&mut random) < zipfian.items());
            }
        }
    }
}
