//! Which distribution the records are drawn from.

use std::fmt;

use super::Workload;
use super::error::WorkloadError;
use super::properties::Properties;
use crate::generator::KeyChooser;
use crate::generator::exponential::Exponential;
use crate::generator::hotspot::Hotspot;
use crate::generator::latest::Latest;
use crate::generator::scrambled::ScrambledZipfian;
use crate::generator::sequential::Sequential;
use crate::generator::uniform::Uniform;

/// YCSB's `requestdistribution` with its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// Every record equally often.
    Uniform,
    /// Zipfian with constant 0.99, scattered over the records.
    Zipfian,
    /// Zipfian from the newest record that was acknowledged.
    Latest,
    /// A hot set.
    Hotspot {
        /// The hot set's share of the records.
        data: f64,
        /// The hot set's share of the operations.
        operations: f64,
    },
    /// In order.
    Sequential,
    /// Exponential from the newest record that was acknowledged.
    Exponential {
        /// Percent of the operations...
        percentile: f64,
        /// ... that go to this share of the records.
        fraction: f64,
    },
}

const NAMES: [&str; 6] = ["uniform", "zipfian", "latest", "hotspot", "sequential", "exponential"];

impl Distribution {
    /// The distribution that `properties` ask for; uniform if they do not, as in YCSB.
    ///
    /// # Errors
    /// On one that there is not, and on parameters out of range.
    pub fn from_properties(properties: &Properties) -> Result<Self, WorkloadError> {
        Ok(match properties.choice("requestdistribution", &NAMES)? {
            0 => Self::Uniform,
            1 => Self::Zipfian,
            2 => Self::Latest,
            3 => Self::Hotspot {
                data: properties.share("hotspotdatafraction", 0.2)?,
                operations: properties.share("hotspotopnfraction", 0.8)?,
            },
            4 => Self::Sequential,
            _ => Self::exponential(properties)?,
        })
    }

    fn exponential(properties: &Properties) -> Result<Self, WorkloadError> {
        let expected = "a number between 0 and 100, both excluded";
        let percentile = properties.parsed("exponential.percentile", expected)?.unwrap_or(95.0);
        match properties.get("exponential.percentile") {
            Some(property) if !(percentile > 0.0 && percentile < 100.0) => {
                return Err(property.bad("exponential.percentile", expected));
            }
            _ => {}
        }
        // YCSB's default; its comment calls it 1/7, the value is 6/7.
        let fraction = properties.share("exponential.frac", 0.857_142_857_1)?;
        match properties.get("exponential.frac") {
            Some(property) if fraction == 0.0 => {
                Err(property.bad("exponential.frac", "more than 0, at most 1"))
            }
            _ => Ok(Self::Exponential { percentile, fraction }),
        }
    }

    /// Whether the choice depends on what was inserted last.
    #[must_use]
    pub fn follows_inserts(self) -> bool {
        matches!(self, Self::Latest | Self::Exponential { .. })
    }

    /// The chooser of thread `thread` of `threads` in all processes of the run.
    ///
    /// # Errors
    /// If the parameters leave nothing to choose from.
    pub fn chooser(
        self,
        workload: &Workload,
        thread: u64,
        threads: u64,
    ) -> Result<KeyChooser, WorkloadError> {
        let (start, count) = (workload.insert_start, workload.insert_count);
        Ok(match self {
            Self::Uniform => KeyChooser::Uniform(Uniform::new(start, count)),
            Self::Zipfian => {
                // YCSB's bounds are inclusive on both ends, hence the one more.
                KeyChooser::Zipfian(ScrambledZipfian::new(
                    start,
                    count.saturating_add(workload.expected_inserts()).saturating_add(1),
                ))
            }
            Self::Latest => KeyChooser::Latest(Latest::new(workload.records - 1)),
            Self::Hotspot { data, operations } => {
                let chooser = Hotspot::new(start, count, data, operations);
                let (hot, cold) = chooser.sets();
                if (hot == 0 && operations > 0.0) || (cold == 0 && operations < 1.0) {
                    return Err(WorkloadError::Contradiction(format!(
                        "hotspotdatafraction={data} of {count} records makes a hot set of {hot} and a cold set of \
                         {cold} records, but hotspotopnfraction={operations} needs records in both"
                    )));
                }
                KeyChooser::Hotspot(chooser)
            }
            Self::Sequential => KeyChooser::Sequential(Sequential::new(start, count, thread, threads)),
            Self::Exponential { percentile, fraction } => {
                KeyChooser::Exponential(Exponential::new(percentile, workload.records as f64 * fraction))
            }
        })
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Zipfian => f.write_str("zipfian (0.99, scrambled)"),
            Self::Latest => f.write_str("latest (zipfian 0.99)"),
            Self::Hotspot { data, operations } => {
                write!(f, "hotspot ({} % of operations on {} % of records)", operations * 100.0, data * 100.0)
            }
            Self::Sequential => f.write_str("sequential"),
            Self::Exponential { percentile, fraction } => {
                write!(
                    f,
                    "exponential ({percentile} % of operations on the newest {:.1} %)",
                    fraction * 100.0
                )
            }
        }
    }
}
