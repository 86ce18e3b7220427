//! The report for people: at most 100 columns wide.

use super::format::{Align, aligned, count, grouped, latency, per_operation};
use super::{DriverFacts, KindReport, PhaseReport, Report};
use crate::measure::histogram::{Latencies, QUANTILES};
use crate::run::phase::Kind;
use crate::workload::mix::Operation;

/// The whole report.
#[must_use]
pub fn table(report: &Report) -> String {
    let mut text = header(report);
    text.push('\n');
    text.push_str(&latencies(report));
    if report.store.counts_fabric {
        text.push('\n');
        text.push_str(&counts(report));
    }
    text.push('\n');
    for phase in &report.phases {
        text.push_str(&verdict(phase, report.workload.verified));
    }
    text
}

fn header(report: &Report) -> String {
    let Report { host, store, workload, driver, .. } = report;
    let mut lines = vec![
        ("store", format!("{} {}, {}", store.store, store.version, store.place)),
        ("path", store.transport.clone()),
    ];
    if let Some(device) = &store.device {
        lines.push(("device", device.clone()));
    }
    if let Some(authority) = &store.authority {
        lines.push(("authority", authority.clone()));
    }
    lines.push(("workload", format!("{}: {}; {}", workload.name, workload.mix, workload.distribution)));
    lines.push((
        "records",
        format!("{}, keys {}, {}", grouped(workload.records), workload.keys, workload.values),
    ));
    lines.extend(workload.scans.clone().map(|scans| ("scans", scans)));
    lines.push(("driver", driving(driver, workload.seed)));
    lines.push(("clock", format!("{} ns to read, part of each latency", driver.clock_ns)));
    lines.push(("host", format!("{}, {} x {}, {}", host.name, host.cores, host.cpu, host.kernel)));

    let rows: Vec<Vec<String>> = lines.into_iter().map(|(name, text)| vec![name.to_owned(), text]).collect();
    format!("farside-bench {}\n\n{}", report.version, aligned(&rows, &[Align::Left, Align::Left]))
}

/// How the work was driven.
pub(crate) fn driving(driver: &DriverFacts, seed: u64) -> String {
    let pace = match driver.target {
        Some(target) => format!("open loop at {} ops/s", grouped(target)),
        None => "closed loop".to_owned(),
    };
    let batch = if driver.batch > 1 { format!(", batches of {}", driver.batch) } else { String::new() };
    let warm_up = match driver.warm_up_s {
        0.0 => String::new(),
        seconds => format!(", {seconds} s of warm-up"),
    };
    let shared = match (driver.clients.len() as u64, driver.client_count) {
        (_, 1) => String::new(),
        (1, all) => format!(", process {} of {all}", driver.clients[0] + 1),
        (some, all) => format!(", {some} of {all} processes merged"),
    };
    let threads = if driver.threads == 1 { "thread" } else { "threads" };
    format!("{} {threads}, {pace}{batch}{warm_up}{shared}, seed {seed}", driver.threads)
}

/// Rows are named by phase and kind; an open loop has two for each.
fn latencies(report: &Report) -> String {
    let mut rows = vec![vec!["".to_owned(), "ops".to_owned(), "ops/s".to_owned(), "mean".to_owned()]];
    rows[0].extend(QUANTILES.map(|(name, _)| name.to_owned()));
    rows[0].push("max".to_owned());
    for phase in &report.phases {
        for kind in &phase.kinds {
            let name = format!("{} {}", phase.name, short(kind.operation));
            match &kind.response {
                None => rows.push(latency_row(name, phase, kind, &kind.service)),
                Some(response) => {
                    rows.push(latency_row(format!("{name} service"), phase, kind, &kind.service));
                    let mut row = latency_row("  response".to_owned(), phase, kind, response);
                    row[1].clear();
                    row[2].clear();
                    rows.push(row);
                }
            }
        }
    }
    let mut aligns = vec![Align::Right; rows[0].len()];
    aligns[0] = Align::Left;
    aligned(&rows, &aligns)
}

fn latency_row(name: String, phase: &PhaseReport, kind: &KindReport, latencies: &Latencies) -> Vec<String> {
    let seconds = phase.elapsed_ns as f64 / 1e9;
    let rate = if seconds > 0.0 { kind.done as f64 / seconds } else { 0.0 };
    let mut row = vec![name, count(kind.done), count(rate.round() as u64)];
    if latencies.count() == 0 {
        row.resize(QUANTILES.len() + 5, "-".to_owned());
        return row;
    }
    row.push(latency(latencies.mean()));
    row.extend(QUANTILES.map(|(_, quantile)| latency(latencies.quantile(quantile) as f64)));
    row.push(latency(latencies.max() as f64));
    row
}

/// What the titles of the counts do not say by themselves.
const COUNTS_FOOTNOTE: &str = "\
missed hints: the key's place was not remembered, or had changed; forwards: slots brought up to
their newest record, off the operations' path; upkeep: round trips for that, not among the trips
";

/// What each kind of operation did on the fabric.
fn counts(report: &Report) -> String {
    let titles = [
        "per operation",
        "trips",
        "READs",
        "WRITEs",
        "CAS",
        "bytes",
        "retries",
        "2-sided",
        "missed hints",
        "forwards",
        "upkeep",
    ];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for phase in &report.phases {
        for kind in &phase.kinds {
            let mut row = vec![format!("{} {}", phase.name, short(kind.operation))];
            row.extend(kind.counts.named().map(|(_, total)| per_operation(total, kind.operations())));
            rows.push(row);
        }
    }
    let mut aligns = vec![Align::Right; rows[0].len()];
    aligns[0] = Align::Left;
    aligned(&rows, &aligns) + COUNTS_FOOTNOTE
}

/// The name in the table; YCSB's READ-MODIFY-WRITE would cost the latencies their place.
pub(crate) fn short(operation: Operation) -> String {
    match operation {
        Operation::ReadModifyWrite => "RMW".to_owned(),
        other => other.to_string(),
    }
}

/// The phase in a sentence, and what there is to remark on.
pub(crate) fn verdict(phase: &PhaseReport, verified: bool) -> String {
    let mut summary = format!(
        "{} operations in {:.2} s, {} ops/s, {} not found, {} failed",
        grouped(phase.operations),
        phase.elapsed_ns as f64 / 1e9,
        grouped(phase.throughput.round() as u64),
        grouped(phase.not_found()),
        grouped(phase.failures()),
    );
    if verified && phase.name == Kind::Run {
        let checked = grouped(phase.reads_answered());
        let scanned = match phase.scans() {
            Some(scans) => format!(" with {} records of scans", grouped(scans.records)),
            None => String::new(),
        };
        summary
            .push_str(&format!(", {checked} reads checked{scanned}, {} wrong", grouped(phase.mismatches())));
    }
    let lines = std::iter::once(summary).chain(remarks(phase, verified));
    lines.map(|line| format!("{}: {line}\n", phase.name)).collect()
}

fn remarks(phase: &PhaseReport, verified: bool) -> Vec<String> {
    let mut remarks = Vec::new();
    if !phase.comparable() {
        remarks.push(
            "NOT COMPARABLE: the server was replaced by another in the middle of this, which began without records"
                .to_owned(),
        );
    }
    if phase.reconnects > 0 {
        remarks.push(format!("connections made again after one broke: {}", grouped(phase.reconnects)));
    }
    if let Some(nanoseconds) = phase.server_cpu_ns {
        let each = match phase.server_cpu_per_one_sided_get() {
            Some(each) => format!("{} per one-sided GET", latency(each)),
            None => format!("{} per operation", latency(nanoseconds as f64 / phase.operations.max(1) as f64)),
        };
        let upkeep = latency(phase.server_upkeep_ns.unwrap_or(0) as f64);
        let serving = latency(nanoseconds as f64);
        remarks.push(format!("server processor time {serving}, {each}; and {upkeep} of upkeep"));
    }
    if let Some(scans) = phase.scans() {
        let seconds = phase.elapsed_ns.max(1) as f64 / 1e9;
        remarks.push(format!(
            "{} records scanned, {} a second, {:.1} in each scan",
            grouped(scans.records),
            grouped((scans.records as f64 / seconds).round() as u64),
            scans.records as f64 / scans.operations().max(1) as f64
        ));
    }
    for kind in &phase.kinds {
        for (error, times) in &kind.failed {
            remarks.push(format!("{} {} failed: {error}", grouped(*times), kind.operation));
        }
    }
    if phase.found_nothing() {
        remarks.push(
            "no read found anything, so this measured nothing: the store is not loaded; run `farside-bench load` with \
             the same workload and properties first"
                .to_owned(),
        );
    } else if phase.not_found() > 0 && !verified {
        remarks.push(format!(
            "{} of {} reads found nothing: was the store loaded with this recordcount, insertorder and zeropadding?",
            grouped(phase.not_found()),
            grouped(phase.reads_answered())
        ));
    }
    let mut remark_if = |applies: bool, remark: String| remarks.extend(applies.then_some(remark));
    remark_if(
        phase.unissued > 0,
        format!(
            "{} operations were due and never started: the rate was not reached",
            grouped(phase.unissued)
        ),
    );
    remark_if(
        phase.warm_up_problems > 0,
        format!("failed or wrong while warming up: {}", grouped(phase.warm_up_problems)),
    );
    let why = match phase.name {
        Kind::Load => "an insert failed",
        Kind::Run => "nothing but failures for 5 s",
    };
    remark_if(phase.gave_up, format!("given up: {why}"));
    remark_if(phase.interrupted, "interrupted: these are the figures up to then".to_owned());
    remarks.extend(phase.problems.iter().map(|problem| format!("first problem of a thread: {problem}")));
    remarks
}
