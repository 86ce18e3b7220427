//! Latencies in nanoseconds.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

/// Longest latency told apart, nanoseconds: 1000 s. Longer ones count as this.
const MAX_NS: u64 = 1_000_000_000_000;

/// Digits that are exact: every reported latency is within 0.1 % of the measured one.
const DIGITS: u8 = 3;

/// The quantiles of every report, with their names.
pub const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

/// An HDR histogram of fixed size, so that recording never allocates. In JSON, its figures beside its encoded form,
/// which is what is read back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "Written", try_from = "Written")]
pub struct Latencies(Histogram<u64>);

impl Latencies {
    /// An empty one, all of its memory touched already.
    #[must_use]
    pub fn new() -> Self {
        let mut histogram =
            Histogram::new_with_bounds(1, MAX_NS, DIGITS).expect("1 ns to 1000 s with 3 digits can be had");
        histogram.reset();
        Self(histogram)
    }

    /// Counts one latency.
    pub fn record(&mut self, nanoseconds: u64) {
        self.0.saturating_record(nanoseconds);
    }

    /// Adds all that `other` has counted.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all histograms here have the same bounds");
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency that the share `quantile` (0 to 1) does not exceed, nanoseconds; 0 if nothing was counted.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> u64 {
        self.0.value_at_quantile(quantile)
    }

    /// The mean, nanoseconds; 0 if nothing was counted.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// The shortest, nanoseconds; 0 if nothing was counted.
    #[must_use]
    pub fn min(&self) -> u64 {
        self.0.min()
    }

    /// The longest, nanoseconds; 0 if nothing was counted.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.0.max()
    }

    /// The histogram itself, for logs in HDR's own format.
    #[must_use]
    pub fn as_hdr(&self) -> &Histogram<u64> {
        &self.0
    }

    /// As in HDR's interval logs: version 2, deflated, base64.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&self.0, &mut bytes).expect("writing to memory cannot fail");
        STANDARD.encode(bytes)
    }

    /// Reads what [`Self::encode`] wrote; `None` for anything else.
    #[must_use]
    pub fn decode(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text).ok()?;
        let read: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).ok()?;
        let mut latencies = Self::new();
        // A histogram of other bounds is none of ours.
        (read.low() == 1 && read.high() == latencies.0.high() && read.sigfig() == DIGITS).then_some(())?;
        latencies.0.add(&read).ok()?;
        Some(latencies)
    }
}

/// [`Latencies`] in JSON, all in nanoseconds.
#[derive(Serialize, Deserialize)]
struct Written {
    count: u64,
    mean: f64,
    min: u64,
    #[serde(flatten)]
    quantiles: BTreeMap<String, u64>,
    max: u64,
    hdr: String,
}

impl From<Latencies> for Written {
    fn from(latencies: Latencies) -> Self {
        let quantiles = QUANTILES.map(|(name, quantile)| (name.to_owned(), latencies.quantile(quantile)));
        Self {
            count: latencies.count(),
            mean: latencies.mean(),
            min: latencies.min(),
            quantiles: quantiles.into(),
            max: latencies.max(),
            hdr: latencies.encode(),
        }
    }
}

impl TryFrom<Written> for Latencies {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        Self::decode(&written.hdr).ok_or("\"hdr\" is not a histogram that farside-bench wrote")
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(latencies: &[u64]) -> Latencies {
        let mut histogram = Latencies::new();
        latencies.iter().for_each(|&latency| histogram.record(latency));
        histogram
    }

    #[test]
    fn quantiles_are_exact_to_three_digits() {
        let histogram = of(&(1..=10_000).map(|i| i * 1000).collect::<Vec<_>>());
        for (_, quantile) in QUANTILES {
            let (seen, exact) = (histogram.quantile(quantile) as f64, quantile * 1e7);
            assert!((seen / exact - 1.0).abs() < 1e-3, "{quantile}: {seen} for {exact}");
        }
        assert!((histogram.mean() / 5_000_500.0 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn what_is_beyond_the_range_counts_as_the_longest() {
        let histogram = of(&[0, u64::MAX]);
        assert_eq!(histogram.count(), 2);
        assert!(histogram.max() >= MAX_NS);
    }

    #[test]
    fn damaged_text_is_refused() {
        let text = of(&[5]).encode();
        assert_eq!(Latencies::decode("no base64!"), None);
        assert_eq!(Latencies::decode(&text[..text.len() / 2]), None);
        let foreign: Histogram<u64> = Histogram::new_with_bounds(1, 1000, 2).expect("a small histogram");
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&foreign, &mut bytes).expect("writing to memory cannot fail");
        assert_eq!(Latencies::decode(&STANDARD.encode(bytes)), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn merged_parts_equal_the_whole(
            a in prop::collection::vec(1_u64..MAX_NS, 0..50),
            b in prop::collection::vec(1_u64..MAX_NS, 0..50),
        ) {
            let mut merged = Latencies::decode(&of(&a).encode()).expect("our own text");
            merged.add(&of(&b));
            let whole = of(&[a, b].concat());
            prop_assert_eq!(merged.count(), whole.count());
            prop_assert_eq!((merged.min(), merged.max()), (whole.min(), whole.max()));
            for (_, quantile) in QUANTILES {
                prop_assert_eq!(merged.quantile(quantile), whole.quantile(quantile));
            }
        }
    }
}
