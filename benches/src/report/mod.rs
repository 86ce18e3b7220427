//! What a job reports: one model, and the forms it is written in.

pub mod csv;
pub mod format;
pub mod hdr;
pub mod host;
pub mod html;
pub mod merge;
pub mod output;
pub mod progress;
pub mod svg;
pub mod table;
pub mod ycsb;

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::measure::histogram::Latencies;
use crate::measure::interval::OperationStats;
use crate::measure::series::Row;
use crate::run::Outcome;
use crate::run::phase::{Kind, Phase};
use crate::target::{Counts, Description, ErrorKind};
use crate::workload::mix::Operation;
use host::Host;

/// Version of the JSON form; it changes when a field changes its meaning or goes.
pub const FORMAT: u32 = 1;

/// All that a job has to say. Its JSON form is this structure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// The load generator's version.
    pub version: String,
    /// Where it ran.
    pub host: Host,
    /// Against what.
    pub store: Description,
    /// With which work.
    pub workload: WorkloadFacts,
    /// Driven how.
    pub driver: DriverFacts,
    /// Phase by phase.
    pub phases: Vec<PhaseReport>,
}

/// The workload, in words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadFacts {
    /// Its name: a letter, or the files it was read from.
    pub name: String,
    /// The mix.
    pub mix: String,
    /// Request distribution.
    pub distribution: String,
    /// How many records scans ask for, and in which order; none if it does not scan.
    #[serde(default)]
    pub scans: Option<String>,
    /// Records in the table once loaded.
    pub records: u64,
    /// Keys.
    pub keys: String,
    /// Values.
    pub values: String,
    /// Longest value, bytes.
    pub value_bytes: usize,
    /// Seed of all random streams.
    pub seed: u64,
    /// Whether every read was checked.
    pub verified: bool,
}

/// How the work was driven.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DriverFacts {
    /// Threads, of all processes together.
    pub threads: u64,
    /// Operations in a request.
    pub batch: usize,
    /// Operations a second that an open loop aimed at, all processes together; none for a closed loop.
    pub target: Option<u64>,
    /// Time before measuring, seconds.
    pub warm_up_s: f64,
    /// The processes whose figures these are, by their numbers.
    pub clients: Vec<u64>,
    /// The processes that shared the run.
    pub client_count: u64,
    /// What reading the clock costs, nanoseconds; every latency contains about this much.
    pub clock_ns: u64,
}

/// One phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseReport {
    /// Load or run.
    pub name: Kind,
    /// When measuring began, milliseconds since 1970.
    pub started_at_ms: u64,
    /// From there to the end of the last operation, nanoseconds.
    pub elapsed_ns: u64,
    /// Operations of the mix.
    pub operations: u64,
    /// Operations a second; of merged processes, the sum of theirs.
    pub throughput: f64,
    /// By kind of operation.
    pub kinds: Vec<KindReport>,
    /// Operations of an open loop that were due and never started.
    pub unissued: u64,
    /// Failures and mismatches while warming up.
    pub warm_up_problems: u64,
    /// Whether it was ended before its time because nothing but failures came.
    pub gave_up: bool,
    /// Whether a signal ended it before its time.
    pub interrupted: bool,
    /// Connections to the server made again, after one broke.
    #[serde(default)]
    pub reconnects: u64,
    /// Whether another server answered at the end than at the beginning.
    #[serde(default)]
    pub server_replaced: bool,
    /// Processor time that the store's servers used meanwhile for connections and requests, nanoseconds, if they tell.
    pub server_cpu_ns: Option<u64>,
    /// Processor time that they used to keep the store tidy, which goes by time and not by requests.
    pub server_upkeep_ns: Option<u64>,
    /// The first thing that went wrong on each thread.
    pub problems: Vec<String>,
    /// Second by second.
    pub series: Vec<Row>,
}

/// One kind of operation in a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KindReport {
    /// The kind.
    pub operation: Operation,
    /// Done.
    pub done: u64,
    /// Reads that found nothing.
    pub not_found: u64,
    /// Failures by kind.
    pub failed: BTreeMap<ErrorKind, u64>,
    /// Reads that returned what they must not, or such records of scans.
    pub mismatched: u64,
    /// Records that scans brought.
    #[serde(default)]
    pub records: u64,
    /// From the call to its answer; successes only.
    pub service: Latencies,
    /// From the intended start to the answer; successes only, open loop only.
    pub response: Option<Latencies>,
    /// What all of them did on the fabric.
    pub counts: Counts,
}

impl PhaseReport {
    /// What came of `phase`.
    #[must_use]
    pub fn new(phase: &Phase<'_>, outcome: Outcome, interrupted: bool) -> Self {
        let Outcome { started_at, elapsed, collected, server_cpu, reconnects, server_replaced } = outcome;
        let seconds = elapsed.as_secs_f64();
        let operations = collected.total.operations;
        Self {
            name: phase.kind,
            started_at_ms: started_at
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX)),
            elapsed_ns: nanoseconds(elapsed),
            operations,
            throughput: if seconds > 0.0 { operations as f64 / seconds } else { 0.0 },
            kinds: collected
                .total
                .iter()
                .map(|(operation, stats)| KindReport::new(operation, stats))
                .collect(),
            unissued: collected.ends.iter().map(|end| end.unissued).sum(),
            warm_up_problems: collected.warm_up_problems,
            gave_up: collected.ends.iter().any(|end| end.gave_up),
            interrupted,
            reconnects,
            server_replaced,
            server_cpu_ns: server_cpu.map(|time| nanoseconds(time.serving)),
            server_upkeep_ns: server_cpu.map(|time| nanoseconds(time.upkeep)),
            problems: collected
                .ends
                .iter()
                .filter_map(|end| end.problem.as_ref())
                .map(|problem| format!("{} of {}: {}", problem.operation, problem.key, problem.what))
                .collect(),
            series: collected.rows,
        }
    }

    /// Calls that failed; a read-modify-write is two.
    #[must_use]
    pub fn failures(&self) -> u64 {
        let calls = self.kinds.iter().filter(|kind| kind.operation != Operation::ReadModifyWrite);
        calls.map(KindReport::failures).sum()
    }

    /// Reads that returned what they must not.
    #[must_use]
    pub fn mismatches(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.mismatched).sum()
    }

    /// Reads and scans that found nothing.
    #[must_use]
    pub fn not_found(&self) -> u64 {
        self.reads().map(|kind| kind.not_found).sum()
    }

    /// Reads and scans that the store answered, with a record or without.
    #[must_use]
    pub fn reads_answered(&self) -> u64 {
        self.reads().map(|kind| kind.done + kind.not_found).sum()
    }

    fn reads(&self) -> impl Iterator<Item = &KindReport> {
        self.kinds.iter().filter(|kind| matches!(kind.operation, Operation::Read | Operation::Scan))
    }

    /// The scans, if it had any.
    #[must_use]
    pub fn scans(&self) -> Option<&KindReport> {
        self.kinds.iter().find(|kind| kind.operation == Operation::Scan)
    }

    /// Whether it read and no read found anything: then it measured nothing that it was meant to.
    #[must_use]
    pub fn found_nothing(&self) -> bool {
        self.not_found() > 0 && self.not_found() == self.reads_answered()
    }

    /// Whether the figures are those of one server from beginning to end.
    #[must_use]
    pub fn comparable(&self) -> bool {
        !self.server_replaced
    }

    /// Whether every operation was done, every check held, and reads found something.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        let problems = self.failures() + self.mismatches() + self.warm_up_problems;
        problems == 0 && !self.gave_up && !self.found_nothing()
    }

    /// The server's processor time for each one-sided read, nanoseconds, in a phase that does nothing else: where
    /// others are mixed in, nobody can tell whose time it was.
    #[must_use]
    pub fn server_cpu_per_one_sided_get(&self) -> Option<f64> {
        let [kind] = &self.kinds[..] else { return None };
        let one_sided = kind.operations().saturating_sub(kind.counts.two_sided);
        let measurable = kind.operation == Operation::Read && kind.counts.reads > 0 && one_sided > 0;
        measurable.then_some(self.server_cpu_ns? as f64 / one_sided as f64)
    }
}

impl KindReport {
    fn new(operation: Operation, stats: &OperationStats) -> Self {
        Self {
            operation,
            done: stats.done,
            not_found: stats.not_found,
            failed: ErrorKind::ALL.into_iter().zip(stats.failed).filter(|&(_, count)| count > 0).collect(),
            mismatched: stats.mismatched,
            records: stats.records,
            service: stats.service.clone(),
            response: stats.response.clone(),
            counts: stats.counts,
        }
    }

    /// Failures, whatever their kind.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// All operations, however they ended.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.done + self.not_found + self.failures()
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn elements(json: &mut serde_json::Value) -> &mut [serde_json::Value] {
    json.as_array_mut().map_or(&mut [], Vec::as_mut_slice)
}

impl Report {
    /// The report in JSON: its fields, and what follows from them for whoever reads it without a calculator.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_value(self).expect("a report has nothing that JSON cannot say");
        json["succeeded"] = self.succeeded().into();
        for (phase, json) in self.phases.iter().zip(elements(&mut json["phases"])) {
            json["comparable"] = phase.comparable().into();
            json["server_cpu_ns_per_one_sided_get"] = phase.server_cpu_per_one_sided_get().into();
            for (kind, json) in phase.kinds.iter().zip(elements(&mut json["kinds"])) {
                let operations = kind.operations().max(1) as f64;
                let each = kind
                    .counts
                    .named()
                    .map(|(name, total)| (name.to_owned(), (total as f64 / operations).into()));
                json["per_operation"] = serde_json::Value::Object(each.into_iter().collect());
            }
        }
        format!("{json:#}\n")
    }

    /// Whether every phase succeeded; where reads are checked, against the same server from beginning to end.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        let one_server = self.phases.iter().all(PhaseReport::comparable);
        self.phases.iter().all(PhaseReport::succeeded) && (one_server || !self.workload.verified)
    }
}
