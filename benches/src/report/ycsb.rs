//! YCSB's text summary, for tools that read it: `[READ], 99thPercentileLatency(us), 12.3`.
//!
//! Names are YCSB's; latencies have decimals, as whole microseconds would say nothing here. A phase begins with
//! `[OVERALL]`.

use std::fmt::Write;

use super::{KindReport, Report};
use crate::measure::histogram::Latencies;

/// YCSB's name for each of its percentiles, and the share below it.
const PERCENTILES: [(&str, f64); 6] =
    [("50th", 0.5), ("90th", 0.9), ("95th", 0.95), ("99th", 0.99), ("99.9", 0.999), ("99.99", 0.9999)];

/// The whole summary.
#[must_use]
pub fn ycsb(report: &Report) -> String {
    let mut text = String::new();
    for phase in &report.phases {
        let _ = writeln!(text, "[OVERALL], RunTime(ms), {}", phase.elapsed_ns / 1_000_000);
        let _ = writeln!(text, "[OVERALL], Throughput(ops/sec), {}", phase.throughput);
        for kind in &phase.kinds {
            let name = kind.operation.to_string();
            latencies(&mut text, &name, &kind.service);
            statuses(&mut text, &name, kind);
            if let Some(response) = &kind.response {
                latencies(&mut text, &format!("Intended-{name}"), response);
            }
        }
    }
    text
}

fn latencies(text: &mut String, name: &str, latencies: &Latencies) {
    let microseconds = |nanoseconds: f64| nanoseconds / 1000.0;
    let mut line = |measurement: &str, value: String| {
        let _ = writeln!(text, "[{name}], {measurement}, {value}");
    };
    line("Operations", latencies.count().to_string());
    line("AverageLatency(us)", format!("{:.3}", microseconds(latencies.mean())));
    line("MinLatency(us)", microseconds(latencies.min() as f64).to_string());
    line("MaxLatency(us)", microseconds(latencies.max() as f64).to_string());
    for (percentile, quantile) in PERCENTILES {
        let value = microseconds(latencies.quantile(quantile) as f64);
        line(&format!("{percentile}PercentileLatency(us)"), value.to_string());
    }
}

fn statuses(text: &mut String, name: &str, kind: &KindReport) {
    for (status, count) in [("OK", kind.done), ("NOT_FOUND", kind.not_found), ("ERROR", kind.failures())] {
        if count > 0 || status == "OK" {
            let _ = writeln!(text, "[{name}], Return={status}, {count}");
        }
    }
    if kind.mismatched > 0 {
        let _ = writeln!(text, "[VERIFY], Return=UNEXPECTED_STATE, {}", kind.mismatched);
    }
}
