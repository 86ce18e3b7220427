//! The properties that workload files may name.

/// What a property means here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It shapes the workload.
    Used,
    /// Only these values can be had; the reason says why.
    Only(&'static [&'static str], &'static str),
    /// YCSB knows it; here it changes nothing, and a note says so when someone sets it.
    NoEffect,
}

/// All properties, by YCSB's names.
pub const KNOWN: &[(&str, Role)] = &[
    ("columnfamily", Role::NoEffect),
    (
        "core_workload_insertion_keep_going_on_error",
        Role::Only(&["false"], "a load stops at its first failed insert"),
    ),
    ("core_workload_insertion_retry_interval", Role::NoEffect),
    (
        "core_workload_insertion_retry_limit",
        Role::Only(&["0"], "failed operations are counted, not repeated"),
    ),
    ("dataintegrity", Role::Used),
    ("exponential.frac", Role::Used),
    ("exponential.percentile", Role::Used),
    ("fieldcount", Role::Used),
    ("fieldlength", Role::Used),
    ("fieldlengthdistribution", Role::Used),
    ("fieldnameprefix", Role::NoEffect),
    ("hdrhistogram.fileoutput", Role::NoEffect),
    ("hdrhistogram.output.path", Role::NoEffect),
    ("hdrhistogram.percentiles", Role::NoEffect),
    ("histogram.buckets", Role::NoEffect),
    ("hotspotdatafraction", Role::Used),
    ("hotspotopnfraction", Role::Used),
    ("insertcount", Role::Used),
    ("insertorder", Role::Used),
    ("insertproportion", Role::Used),
    ("insertstart", Role::Used),
    ("latencytrackederrors", Role::NoEffect),
    ("maxexecutiontime", Role::Used),
    ("maxscanlength", Role::Used),
    ("measurement.histogram.verbose", Role::NoEffect),
    ("measurement.interval", Role::NoEffect),
    ("measurementtype", Role::NoEffect),
    ("minfieldlength", Role::Used),
    ("minscanlength", Role::Used),
    ("operationcount", Role::Used),
    ("readallfields", Role::Only(&["true"], "a record is one value here and is read whole")),
    ("readallfieldsbyname", Role::NoEffect),
    ("readmodifywriteproportion", Role::Used),
    ("readproportion", Role::Used),
    ("recordcount", Role::Used),
    ("reportlatencyforeacherror", Role::NoEffect),
    ("requestdistribution", Role::Used),
    ("scanlengthdistribution", Role::Used),
    ("scanproportion", Role::Used),
    ("status.interval", Role::NoEffect),
    ("table", Role::NoEffect),
    ("target", Role::Used),
    ("threadcount", Role::Used),
    ("timeseries.granularity", Role::NoEffect),
    ("updateproportion", Role::Used),
    (
        "workload",
        Role::Only(
            &["site.ycsb.workloads.CoreWorkload", "com.yahoo.ycsb.workloads.CoreWorkload"],
            "only YCSB's core workload is there",
        ),
    ),
    ("writeallfields", Role::NoEffect),
    ("zeropadding", Role::Used),
];

/// What the property `name` means, if there is one of that name.
#[must_use]
pub fn role(name: &str) -> Option<Role> {
    KNOWN.iter().find(|(known, _)| *known == name).map(|&(_, role)| role)
}

/// The candidate that `name` is most likely a slip for.
#[must_use]
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&name, candidate), candidate))
        .min()
        // More than a third of the letters wrong is another word.
        .filter(|(distance, candidate)| distance * 3 <= candidate.len())
        .map(|(_, candidate)| candidate)
}

/// The property that `name` is most likely a slip for.
#[must_use]
pub fn closest_property(name: &str) -> Option<&'static str> {
    closest(name, KNOWN.iter().map(|&(known, _)| known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_find_their_name() {
        for (slip, meant) in [
            ("readpropotion", "readproportion"),
            ("RecordCount", "recordcount"),
            ("reqestdistribution", "requestdistribution"),
            ("opreationcount", "operationcount"),
        ] {
            assert_eq!(closest_property(slip), Some(meant));
        }
        assert_eq!(closest_property("colour"), None);
    }
}
