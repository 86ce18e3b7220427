//! The time series as comma-separated values: one line for each second and kind of operation.

use std::fmt::Write;

use super::Report;

/// Column names of [`csv`].
const HEADER: &str = "phase,second,operation,done,failed,p50_ns,p99_ns,max_ns";

/// The whole file. Nothing in it needs quotes; medians that are not known are empty.
#[must_use]
pub fn csv(report: &Report) -> String {
    let mut text = format!("{HEADER}\n");
    for phase in &report.phases {
        for row in &phase.series {
            for kind in &row.kinds {
                let known =
                    |nanoseconds: Option<u64>| nanoseconds.map(|ns| ns.to_string()).unwrap_or_default();
                let (p50, p99) = (known(kind.p50_ns), known(kind.p99_ns));
                let _ = writeln!(
                    text,
                    "{},{},{},{},{},{p50},{p99},{}",
                    phase.name, row.second, kind.operation, kind.done, kind.failed, kind.max_ns
                );
            }
        }
    }
    text
}
