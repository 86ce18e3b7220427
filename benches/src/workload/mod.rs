//! A workload: YCSB's core workload as its property files describe it.

pub mod distribution;
pub mod error;
pub mod keys;
pub mod mix;
pub mod names;
pub mod properties;
pub mod scan;
pub mod value;
pub mod verify;

use std::time::Duration;

use distribution::Distribution;
use error::WorkloadError;
use keys::KeyFormat;
use mix::{Mix, Operation};
use properties::{Origin, Properties};
use scan::ScanLengths;
use value::ValueFormat;

use crate::cli::LONGEST;

/// So many records can be counted, and their inserts, without leaving the range of any number here.
const RECORDS_MAX: u64 = 1 << 48;

/// YCSB's six workloads: letter, and the file.
const STANDARD: [(&str, &str, &str); 6] = [
    ("a", "workload a", include_str!("../../workloads/workloada")),
    ("b", "workload b", include_str!("../../workloads/workloadb")),
    ("c", "workload c", include_str!("../../workloads/workloadc")),
    ("d", "workload d", include_str!("../../workloads/workloadd")),
    ("e", "workload e", include_str!("../../workloads/workloade")),
    ("f", "workload f", include_str!("../../workloads/workloadf")),
];

/// The properties of YCSB's workload `name`: `a` to `f`, or `workloada` to `workloadf`.
///
/// # Errors
/// If there is none of that name.
pub fn standard(name: &str) -> Result<Properties, WorkloadError> {
    let lower = name.to_lowercase();
    let letter = lower.strip_prefix("workload").unwrap_or(&lower);
    let (_, title, text) = STANDARD
        .iter()
        .find(|(known, ..)| *known == letter)
        .ok_or_else(|| WorkloadError::NoSuchWorkload(name.to_owned()))?;
    let mut properties = Properties::default();
    properties.add_text(text, |_| Origin::BuiltIn(title))?;
    Ok(properties)
}

/// What to do to a store. All numbers are for the whole run, however many processes share it.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Records that the table holds once loaded: numbers `0..records`.
    pub records: u64,
    /// The first record that this run loads and chooses from.
    pub insert_start: u64,
    /// How many records from there on it loads and chooses from.
    pub insert_count: u64,
    /// Operations to run; `None` for no end.
    pub operations: Option<u64>,
    /// Time to run at most.
    pub max_time: Option<Duration>,
    /// Which kinds of operations.
    pub mix: Mix,
    /// On which records.
    pub distribution: Distribution,
    /// With which keys.
    pub keys: KeyFormat,
    /// And which values.
    pub values: ValueFormat,
    /// How many records a scan asks for.
    pub scans: ScanLengths,
    /// Whether every read is checked (`dataintegrity`).
    pub verify: bool,
    /// Threads per process (`threadcount`).
    pub threads: Option<u64>,
    /// Operations per second to aim at (`target`).
    pub target: Option<u64>,
}

impl Workload {
    /// The workload that `properties` describe, with YCSB's defaults.
    ///
    /// # Errors
    /// On values out of range or in contradiction.
    pub fn from_properties(properties: &Properties) -> Result<Self, WorkloadError> {
        let records = properties.whole("recordcount", 0)?;
        if records == 0 {
            return Err(WorkloadError::NoRecords);
        }
        if records > RECORDS_MAX {
            return Err(WorkloadError::Contradiction(format!(
                "recordcount={records} is more than {RECORDS_MAX}"
            )));
        }
        let insert_start = properties.whole("insertstart", 0)?;
        let insert_count = properties.whole("insertcount", records.saturating_sub(insert_start))?;
        if insert_count == 0 || insert_start.checked_add(insert_count).is_none_or(|end| end > records) {
            return Err(WorkloadError::Contradiction(format!(
                "insertstart={insert_start} and insertcount={insert_count} do not lie within recordcount={records}"
            )));
        }
        let seconds = properties.whole("maxexecutiontime", 0)?;
        let longest = LONGEST.as_secs();
        if seconds > longest {
            return Err(WorkloadError::Contradiction(format!(
                "maxexecutiontime={seconds} seconds is more than {longest} (100 years)"
            )));
        }
        let workload = Self {
            records,
            insert_start,
            insert_count,
            operations: positive(properties, "operationcount")?,
            max_time: (seconds > 0).then(|| Duration::from_secs(seconds)),
            mix: Mix::from_properties(properties)?,
            distribution: Distribution::from_properties(properties)?,
            keys: KeyFormat::from_properties(properties)?,
            values: ValueFormat::from_properties(properties)?,
            scans: ScanLengths::from_properties(properties)?,
            verify: properties.choice("dataintegrity", &["false", "true"])? == 1,
            threads: positive(properties, "threadcount")?,
            target: positive(properties, "target")?,
        };
        Ok(workload)
    }

    /// Records that a run is expected to add, doubled for safety: YCSB lays out its zipfian key space for them, so
    /// that inserts do not change which records are popular. Without an operation count nobody knows how many: as many
    /// as were loaded is a long run.
    #[must_use]
    pub fn expected_inserts(&self) -> u64 {
        let share = self.mix.share(Operation::Insert);
        match self.operations {
            _ if share == 0.0 => 0,
            Some(operations) => (operations as f64 * share * 2.0) as u64,
            None => self.records,
        }
    }
}

/// YCSB takes 0 for "not set".
fn positive(properties: &Properties, name: &str) -> Result<Option<u64>, WorkloadError> {
    Ok(Some(properties.whole(name, 0)?).filter(|&number| number > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(base: &str, changes: &str) -> Result<Workload, WorkloadError> {
        let mut properties = standard(base)?;
        for assignment in changes.split_whitespace() {
            properties.add_assignment(assignment)?;
        }
        Workload::from_properties(&properties)
    }

    #[test]
    fn the_standard_workloads_have_ycsbs_values() {
        for (name, mix, distribution) in [
            ("a", "50 % read, 50 % update", "zipfian (0.99, scrambled)"),
            ("B", "95 % read, 5 % update", "zipfian (0.99, scrambled)"),
            ("workloadc", "100 % read", "zipfian (0.99, scrambled)"),
            ("d", "95 % read, 5 % insert", "latest (zipfian 0.99)"),
            ("e", "5 % insert, 95 % scan", "zipfian (0.99, scrambled)"),
            ("f", "50 % read, 50 % read-modify-write", "zipfian (0.99, scrambled)"),
        ] {
            let workload = workload(name, "").expect("a standard workload");
            assert_eq!(
                (workload.mix.to_string(), workload.distribution.to_string()),
                (mix.into(), distribution.into())
            );
            assert_eq!((workload.records, workload.operations), (1000, Some(1000)));
            assert_eq!(workload.values.max_len(), 1000);
        }
        assert!(matches!(workload("g", ""), Err(WorkloadError::NoSuchWorkload(_))));
    }

    #[test]
    fn ranges_must_lie_within_the_records() {
        assert!(workload("a", "insertstart=500").is_ok_and(|workload| workload.insert_count == 500));
        for wrong in ["insertstart=1000", "insertstart=500 insertcount=501", "insertcount=0", "recordcount=0"]
        {
            assert!(workload("a", wrong).is_err(), "{wrong}");
        }
        assert!(workload("a", "insertstart=18446744073709551615 insertcount=2").is_err());
        assert!(workload("a", "recordcount=18446744073709551615").is_err());
        assert!(workload("a", "maxexecutiontime=18446744073709551615").is_err());
    }

    #[test]
    fn every_distribution_can_be_asked_for() {
        for name in ["uniform", "zipfian", "latest", "hotspot", "sequential", "exponential"] {
            let workload = workload("a", &format!("requestdistribution={name}")).expect("a distribution");
            assert!(workload.distribution.to_string().starts_with(name));
            workload.distribution.chooser(&workload, 0, 1).expect("a chooser");
        }
    }

    #[test]
    fn parameters_of_distributions_are_checked() {
        for wrong in [
            "requestdistribution=exponential exponential.percentile=100",
            "requestdistribution=exponential exponential.frac=0",
            "requestdistribution=hotspot hotspotdatafraction=1.5",
        ] {
            assert!(workload("a", wrong).is_err(), "{wrong}");
        }
        for empty in ["hotspotdatafraction=0", "hotspotdatafraction=1"] {
            let workload =
                workload("a", &format!("requestdistribution=hotspot {empty}")).expect("good properties");
            assert!(workload.distribution.chooser(&workload, 0, 1).is_err(), "{empty}");
        }
    }

    #[test]
    fn a_zipfian_key_space_has_room_for_expected_inserts() {
        let inserts = "readproportion=0.9 insertproportion=0.1 updateproportion=0 operationcount=10000";
        assert_eq!(workload("a", inserts).expect("a good workload").expected_inserts(), 2000);
        let endless = workload("a", &format!("{inserts} operationcount=0")).expect("good properties");
        assert_eq!(endless.expected_inserts(), 1000, "as many as there are");
    }
}
