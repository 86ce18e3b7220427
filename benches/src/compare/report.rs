//! What a comparison reports: one table, or JSON.

use serde::Serialize;

use crate::report::format::{Align, aligned, count, grouped, latency};
use crate::report::host::Host;
use crate::report::{DriverFacts, PhaseReport, WorkloadFacts, table};
use crate::target::Description;
use crate::workload::mix::Operation;

/// What the titles do not say by themselves.
const FOOTNOTE: &str = "
ratio: of operations a second, to the first one's. In a closed loop the making of keys and values and the checks between
requests count for them, on all alike. Latencies: of whole requests, a batch is one, from the call to the copied answer.
memory/key: what the load took, for the key, its value and all that is kept beside them.
";

/// All that a comparison has to say. Its JSON form is this structure, and what follows from it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CompareReport {
    /// [`crate::report::FORMAT`].
    pub format: u32,
    /// The load generator's version.
    pub version: String,
    /// Where it ran.
    pub host: Host,
    /// With which work.
    pub workload: WorkloadFacts,
    /// Driven how.
    pub driver: DriverFacts,
    /// How often the stores took turns.
    pub turns: u32,
    /// How long each turn was, seconds; none if it ended with its operations.
    pub turn_s: Option<f64>,
    /// The stores, in the order in which they were named.
    pub contenders: Vec<ContenderReport>,
}

/// One store.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContenderReport {
    /// What it was called.
    pub name: String,
    /// What it is, and the way to it.
    pub store: Description,
    /// How its server was started.
    pub started: String,
    /// What its records take, if that can be told.
    pub memory: Option<MemoryReport>,
    /// Loading it.
    pub load: PhaseReport,
    /// All its turns; none if it was not loaded, or a signal came first.
    pub run: Option<PhaseReport>,
}

/// Memory that a store took for the records that were loaded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemoryReport {
    /// Bytes for each key.
    pub bytes_per_key: f64,
    /// Of what it was measured.
    pub of: String,
}

impl ContenderReport {
    fn throughput(&self) -> Option<f64> {
        self.run.as_ref().map(|run| run.throughput)
    }

    fn succeeded(&self) -> bool {
        self.load.succeeded() && self.run.as_ref().is_some_and(|run| run.succeeded() && run.comparable())
    }
}

impl CompareReport {
    /// Whether all that was done on all of them succeeded.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.contenders.iter().all(ContenderReport::succeeded)
    }

    /// Operations a second of `contender` as a multiple of the first one's.
    fn ratio(&self, contender: &ContenderReport) -> Option<f64> {
        let first = self.contenders.first()?.throughput().filter(|&first| first > 0.0)?;
        Some(contender.throughput()? / first)
    }

    /// The report in JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_value(self).expect("a report has nothing that JSON cannot say");
        json["succeeded"] = self.succeeded().into();
        for (position, contender) in self.contenders.iter().enumerate() {
            let json = &mut json["contenders"][position];
            json["ratio"] = self.ratio(contender).into();
            json["succeeded"] = contender.succeeded().into();
        }
        format!("{json:#}\n")
    }

    /// The report for people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = format!("farside-bench {} compare\n\n", self.version);
        text.push_str(&self.head());
        text.push('\n');
        text.push_str(&self.figures());
        text.push_str(FOOTNOTE);
        for contender in self.contenders.iter().filter(|contender| !contender.succeeded()) {
            for phase in std::iter::once(&contender.load).chain(&contender.run) {
                for remark in table::verdict(phase, self.workload.verified).lines() {
                    text.push_str(&format!("\n{}: {remark}", contender.name));
                }
            }
            text.push('\n');
        }
        text
    }

    fn head(&self) -> String {
        let Self { host, workload, driver, .. } = self;
        let turns = match (self.turns, self.turn_s) {
            (1, Some(seconds)) => format!("one after the other, {seconds:.1} s each"),
            (1, None) => "one after the other".to_owned(),
            (turns, seconds) => format!("{turns} turns of {:.1} s each", seconds.unwrap_or_default()),
        };
        let mut lines = vec![
            ("host".to_owned(), format!("{}, {} x {}, {}", host.name, host.cores, host.cpu, host.kernel)),
            (
                "workload".to_owned(),
                format!("{}: {}; {}", workload.name, workload.mix, workload.distribution),
            ),
            (
                "records".to_owned(),
                format!("{}, keys {}, {}", grouped(workload.records), workload.keys, workload.values),
            ),
        ];
        lines.extend(workload.scans.clone().map(|scans| ("scans".to_owned(), scans)));
        lines.push(("driver".to_owned(), format!("{}; {turns}", table::driving(driver, workload.seed))));
        lines.extend(self.contenders.iter().map(
            |ContenderReport { name, store, started, memory, .. }| {
                let memory =
                    memory.iter().map(|memory| format!("; memory: {}", memory.of)).collect::<String>();
                (name.clone(), format!("{}, {}, {started}{memory}", store.version, store.transport))
            },
        ));
        let rows: Vec<Vec<String>> = lines.into_iter().map(|(name, text)| vec![name, text]).collect();
        aligned(&rows, &[Align::Left, Align::Left])
    }

    fn figures(&self) -> String {
        let kinds: Vec<Operation> = match self.contenders.iter().find_map(|contender| contender.run.as_ref())
        {
            Some(run) => run.kinds.iter().map(|kind| kind.operation).collect(),
            None => Vec::new(),
        };
        let mut titles = vec![String::new(), "ops/s".to_owned(), "ratio".to_owned()];
        for &kind in &kinds {
            titles.extend(["p50", "p99"].map(|quantile| format!("{} {quantile}", table::short(kind))));
        }
        titles.push("memory/key".to_owned());
        let mut rows = vec![titles];
        for contender in &self.contenders {
            let none = || "-".to_owned();
            let mut row = vec![
                contender.name.clone(),
                contender.throughput().map_or_else(none, |rate| count(rate.round() as u64)),
                self.ratio(contender).map_or_else(none, |ratio| format!("{ratio:.3}")),
            ];
            for &kind in &kinds {
                let found =
                    contender.run.iter().flat_map(|run| &run.kinds).find(|found| found.operation == kind);
                let service = found.map(|found| &found.service).filter(|service| service.count() > 0);
                row.extend([0.5, 0.99].map(|quantile| {
                    service.map_or_else(none, |service| latency(service.quantile(quantile) as f64))
                }));
            }
            row.push(
                contender.memory.as_ref().map_or_else(none, |memory| {
                    format!("{} B", grouped(memory.bytes_per_key.round() as u64))
                }),
            );
            rows.push(row);
        }
        let mut aligns = vec![Align::Right; rows[0].len()];
        aligns[0] = Align::Left;
        aligned(&rows, &aligns)
    }
}
