//! One report out of those of the processes that shared a run.
//!
//! Histograms and counts add up exactly. Throughput is the sum of the processes' own, each over its own time; that is
//! only the run's if they ran at the same time, so a note says when they did not. Medians of single seconds do not
//! add and are left out.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use super::{FORMAT, KindReport, PhaseReport, Report};
use crate::measure::series::{Row, RowKind};

/// Processes should run at the same time for at least this share of the time that any of them ran.
const OVERLAP: f64 = 0.9;

/// Reports that do not make one.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file holds something else.
    #[error("{} is not a report that farside-bench wrote with --json: {source}", path.display())]
    NoReport {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A report of another version of the form.
    #[error("{} has format {found}, this farside-bench merges format {FORMAT}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// Reports of different runs.
    #[error("the reports are of different runs: {what} is {first} in one and {second} in another")]
    Different {
        /// What differs.
        what: &'static str,
        /// In the first report.
        first: String,
        /// In a later one.
        second: String,
    },
    /// The same process twice.
    #[error("two reports are of process {0} (--client-index {0})")]
    SameClient(u64),
    /// No report at all.
    #[error("name at least one report to merge")]
    Nothing,
}

/// Reads a report.
///
/// # Errors
/// If `path` holds none.
pub fn read(path: &Path) -> Result<Report, MergeError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| MergeError::Unreadable { path: path.to_owned(), source })?;
    let report: Report = serde_json::from_str(&text)
        .map_err(|source| MergeError::NoReport { path: path.to_owned(), source })?;
    if report.format != FORMAT {
        return Err(MergeError::Format { path: path.to_owned(), found: report.format });
    }
    Ok(report)
}

/// Merges the reports; the notes say what the figures do not show.
///
/// # Errors
/// If they are not of one run.
pub fn merge(reports: Vec<Report>) -> Result<(Report, Vec<String>), MergeError> {
    let mut reports = reports.into_iter();
    let mut merged = reports.next().ok_or(MergeError::Nothing)?;
    let mut notes = Vec::new();
    let rest: Vec<Report> = reports.collect();
    for report in &rest {
        same_run(&merged, report)?;
        for &client in &report.driver.clients {
            if merged.driver.clients.contains(&client) {
                return Err(MergeError::SameClient(client));
            }
            merged.driver.clients.push(client);
        }
        merged.driver.threads += report.driver.threads;
        merged.driver.clock_ns = merged.driver.clock_ns.max(report.driver.clock_ns);
        if merged.host != report.host {
            merged.host.name = format!("{}, {}", merged.host.name, report.host.name);
        }
    }
    merged.driver.clients.sort_unstable();
    let (have, all) = (merged.driver.clients.len() as u64, merged.driver.client_count);
    if have < all {
        notes.push(format!("only {have} of the run's {all} processes are in these reports"));
    }
    for (position, phase) in merged.phases.iter_mut().enumerate() {
        let others: Vec<&PhaseReport> = rest.iter().map(|report| &report.phases[position]).collect();
        notes.extend(merge_phase(phase, &others));
    }
    Ok((merged, notes))
}

fn same_run(first: &Report, second: &Report) -> Result<(), MergeError> {
    let names = |report: &Report| -> Vec<String> {
        report.phases.iter().map(|phase| phase.name.to_string()).collect()
    };
    let facts = |report: &Report| {
        let (store, driver) = (&report.store, &report.driver);
        [
            ("the store", format!("{} {}", store.store, store.version)),
            ("the transport", store.transport.clone()),
            ("the workload", format!("{:?}", report.workload)),
            ("the batch", driver.batch.to_string()),
            ("the target", format!("{:?}", driver.target)),
            ("the number of processes", driver.client_count.to_string()),
            ("the phases", names(report).join(" and ")),
        ]
    };
    for ((what, first), (_, second)) in facts(first).into_iter().zip(facts(second)) {
        if first != second {
            return Err(MergeError::Different { what, first, second });
        }
    }
    Ok(())
}

fn merge_phase(phase: &mut PhaseReport, others: &[&PhaseReport]) -> Option<String> {
    let end_ms = |phase: &PhaseReport| phase.started_at_ms + phase.elapsed_ns / 1_000_000;
    let all = || std::iter::once(&*phase).chain(others.iter().copied());
    let first_start = all().map(|phase| phase.started_at_ms).min()?;
    let last_start = all().map(|phase| phase.started_at_ms).max()?;
    let (first_end, last_end) = (all().map(end_ms).min()?, all().map(end_ms).max()?);
    let overlap = first_end.saturating_sub(last_start) as f64 / (last_end - first_start).max(1) as f64;
    let note = (!others.is_empty() && overlap < OVERLAP).then(|| {
        format!(
            "{}: the processes ran at the same time for {:.0} % of the time only; the summed throughput is not that \
             of one run",
            phase.name,
            overlap * 100.0
        )
    });

    let mut series = Vec::new();
    add_series(&mut series, phase, first_start);
    for other in others {
        add_series(&mut series, other, first_start);
        phase.operations += other.operations;
        phase.throughput += other.throughput;
        phase.unissued += other.unissued;
        phase.warm_up_problems += other.warm_up_problems;
        phase.gave_up |= other.gave_up;
        phase.interrupted |= other.interrupted;
        phase.reconnects += other.reconnects;
        phase.server_replaced |= other.server_replaced;
        phase.problems.extend(other.problems.iter().cloned());
        // Each process asked the same servers.
        phase.server_cpu_ns = phase.server_cpu_ns.max(other.server_cpu_ns);
        phase.server_upkeep_ns = phase.server_upkeep_ns.max(other.server_upkeep_ns);
        for (mine, theirs) in phase.kinds.iter_mut().zip(&other.kinds) {
            merge_kind(mine, theirs);
        }
    }
    phase.started_at_ms = first_start;
    phase.elapsed_ns = phase.elapsed_ns.max((last_end - first_start) * 1_000_000);
    phase.series = sum_by_second(series, others.is_empty());
    note
}

fn merge_kind(mine: &mut KindReport, theirs: &KindReport) {
    mine.done += theirs.done;
    mine.not_found += theirs.not_found;
    for (&kind, &count) in &theirs.failed {
        *mine.failed.entry(kind).or_default() += count;
    }
    mine.mismatched += theirs.mismatched;
    mine.records += theirs.records;
    mine.service.add(&theirs.service);
    if let (Some(mine), Some(theirs)) = (&mut mine.response, &theirs.response) {
        mine.add(theirs);
    }
    mine.counts += theirs.counts;
}

/// Adds the rows of `phase`, counted from `first_start`.
fn add_series(series: &mut Vec<Row>, phase: &PhaseReport, first_start: u64) {
    let later = u32::try_from((phase.started_at_ms - first_start + 500) / 1000).unwrap_or(u32::MAX);
    series.extend(
        phase.series.iter().map(|row| Row { second: row.second.saturating_add(later), ..row.clone() }),
    );
}

fn sum_by_second(series: Vec<Row>, alone: bool) -> Vec<Row> {
    let mut seconds: BTreeMap<u32, Row> = BTreeMap::new();
    for mut row in series {
        if !alone {
            for kind in &mut row.kinds {
                (kind.p50_ns, kind.p99_ns) = (None, None);
            }
        }
        match seconds.entry(row.second) {
            Entry::Vacant(entry) => {
                entry.insert(row);
            }
            Entry::Occupied(entry) => {
                let sum = entry.into_mut();
                sum.operations += row.operations;
                for (mine, theirs) in sum.kinds.iter_mut().zip(&row.kinds) {
                    add_row_kind(mine, theirs);
                }
            }
        }
    }
    seconds.into_values().collect()
}

fn add_row_kind(mine: &mut RowKind, theirs: &RowKind) {
    mine.done += theirs.done;
    mine.failed += theirs.failed;
    mine.max_ns = mine.max_ns.max(theirs.max_ns);
}
