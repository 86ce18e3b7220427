//! From the command line and the property files to what is to be done, or why it cannot be.

use std::thread::available_parallelism;
use std::time::Duration;

use crate::cli::{DrivingFlags, WorkloadFlags};
use crate::run::phase::Client;
use crate::workload::error::WorkloadError;
use crate::workload::mix::Operation;
use crate::workload::properties::{Origin, Properties};
use crate::workload::value::MIN_CHECKED;
use crate::workload::{self, Workload};

/// The default job's records: 200 MB of values.
const DEFAULT_RECORDS: &str = "200000";

/// The default job's run.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Most bytes of the buffers in which a process keeps what it reads and writes.
const BUFFERS_MAX: u64 = 8 << 30;

/// What to run, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// No command: load, then run.
    Default,
    /// Load only.
    Load,
    /// Run only.
    Run,
    /// Load several stores, then run on them in turns.
    Compare,
}

impl Job {
    /// Whether what the user leaves open has a default, for it is to work without any file or flag.
    #[must_use]
    pub fn has_defaults(self) -> bool {
        matches!(self, Self::Default | Self::Compare)
    }

    /// Whether the job loads.
    #[must_use]
    pub fn loads(self) -> bool {
        self != Self::Run
    }

    /// Whether the job runs the workload.
    #[must_use]
    pub fn runs(self) -> bool {
        self != Self::Load
    }
}

/// All that a job needs to know, checked.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What to run.
    pub job: Job,
    /// The workload's name, for the report.
    pub name: String,
    /// The workload.
    pub workload: Workload,
    /// This process.
    pub client: Client,
    /// Threads of this process.
    pub threads: u64,
    /// Operations in one request.
    pub batch: usize,
    /// Operations a second.
    pub target: Option<u64>,
    /// Time before measuring.
    pub warm_up: Duration,
    /// Time to measure at most.
    pub duration: Option<Duration>,
    /// Seed of all random streams.
    pub seed: u64,
    /// Properties that the user set and that change nothing.
    pub without_effect: Vec<String>,
}

impl Plan {
    /// Bytes that a table of this workload needs, generously: blocks come in size classes, retired ones rest for a
    /// while, and the index takes its part.
    ///
    /// # Errors
    /// If that is more than can be counted.
    pub fn table_memory(&self) -> Result<u64, WorkloadError> {
        const LEAST: u64 = 64 << 20;
        const PER_RECORD: u64 = 64;
        let record = (self.workload.values.max_len() + self.workload.keys.max_len()) as u64 + PER_RECORD;
        let records = self.workload.records.saturating_add(self.workload.expected_inserts());
        records
            .checked_mul(2 * record)
            .and_then(|bytes| bytes.max(LEAST).checked_next_multiple_of(1 << 20))
            .ok_or_else(|| contradiction(format!("no memory holds {records} records of {record} bytes")))
    }

    /// What `job` means with these options.
    ///
    /// # Errors
    /// On anything that is unknown, out of range, or in contradiction.
    pub fn new(job: Job, flags: &WorkloadFlags, driving: &DrivingFlags) -> Result<Self, WorkloadError> {
        let (name, properties) = properties(job, flags, driving)?;
        let mut workload = Workload::from_properties(&properties)?;
        workload.verify |= flags.verify;
        if workload.verify && workload.values.min_len() < MIN_CHECKED {
            return Err(contradiction(format!(
                "--verify needs values of at least {MIN_CHECKED} bytes, to tell one write from another; raise \
                 fieldcount or fieldlength"
            )));
        }
        let client = Client { index: driving.client_index, count: driving.client_count };
        if job == Job::Compare && client.count > 1 {
            return Err(contradiction(
                "a comparison is made by one process; leave out --client-count".into(),
            ));
        }
        if client.index >= client.count {
            return Err(contradiction(format!(
                "--client-index {} is none of the {} processes of --client-count; they count from 0",
                client.index, client.count
            )));
        }
        let threads = agreed("--threads", driving.threads, "threadcount", workload.threads)?;
        if threads.is_some_and(|threads| threads > 1024) {
            return Err(contradiction(
                "threadcount is at most 1024; use several processes (--client-count)".into(),
            ));
        }
        let cores = available_parallelism().map_or(1, usize::from) as u64;
        let threads = threads.unwrap_or(if job == Job::Default { cores.min(4) } else { 1 });
        if client.count * threads > 1 << 16 {
            return Err(contradiction("more than 65,536 threads in all processes cannot share a run".into()));
        }
        let value = workload.values.max_len() as u64;
        // One to read and one to write for each operation of a request, and the records of each scan.
        let scanned = match workload.mix.share(Operation::Scan) {
            0.0 => 0,
            _ => (workload.scans.max() as u64).saturating_mul(value + workload.keys.max_len() as u64),
        };
        let buffers =
            (2 * value).saturating_add(scanned).saturating_mul(driving.batch).saturating_mul(threads);
        if buffers > BUFFERS_MAX {
            return Err(contradiction(format!(
                "batches of {} values of {value} bytes in {threads} threads need {} GiB of buffers, more than {} GiB; \
                 lower --batch, --threads, fieldlength or maxscanlength",
                driving.batch,
                buffers >> 30,
                BUFFERS_MAX >> 30
            )));
        }
        let duration = duration(job, driving, &workload)?;
        if job.runs() {
            // The chooser of one thread tells what is wrong with all.
            workload.distribution.chooser(&workload, 0, 1)?;
        }
        Ok(Self {
            job,
            name,
            client,
            threads,
            batch: driving.batch as usize,
            target: agreed("--target", driving.target, "target", workload.target)?,
            warm_up: driving.warmup,
            duration,
            seed: flags.seed,
            without_effect: properties.without_effect().into_iter().map(str::to_owned).collect(),
            workload,
        })
    }
}

fn contradiction(message: String) -> WorkloadError {
    WorkloadError::Contradiction(message)
}

/// The layers of properties, the named workload first, and the workload's name.
fn properties(
    job: Job,
    flags: &WorkloadFlags,
    driving: &DrivingFlags,
) -> Result<(String, Properties), WorkloadError> {
    let standard = match &flags.name {
        Some(name) => Some(name.as_str()),
        None => flags.files.is_empty().then_some("a"),
    };
    let mut names: Vec<String> = standard.iter().map(|&name| name.to_owned()).collect();
    let mut properties = standard.map(workload::standard).transpose()?.unwrap_or_default();
    if job.has_defaults() {
        properties.set("recordcount", DEFAULT_RECORDS, Origin::BuiltIn("the default job"));
    }
    // The thousand operations of YCSB's files are there to be changed; a time that was asked for changes them.
    if job.has_defaults() || driving.duration.is_some() {
        properties.remove("operationcount");
    }
    for file in &flags.files {
        properties.add_file(file)?;
        names.push(file.display().to_string());
    }
    for assignment in &flags.properties {
        properties.add_assignment(assignment)?;
    }
    Ok((names.join(" and "), properties))
}

/// The value of a flag and of the property that means the same.
fn agreed(
    flag: &str,
    given: Option<u64>,
    name: &str,
    set: Option<u64>,
) -> Result<Option<u64>, WorkloadError> {
    match (given, set) {
        (Some(given), Some(set)) if given != set => Err(contradiction(format!(
            "{flag} {given} and {name}={set} contradict each other; keep one of them"
        ))),
        _ => Ok(given.or(set)),
    }
}

fn duration(
    job: Job,
    driving: &DrivingFlags,
    workload: &Workload,
) -> Result<Option<Duration>, WorkloadError> {
    if !job.runs() {
        return match (driving.duration, driving.warmup.is_zero()) {
            (None, true) => Ok(workload.max_time),
            _ => Err(contradiction(
                "a load ends when all records are there; --duration and --warmup are for runs".into(),
            )),
        };
    }
    match (driving.duration, workload.max_time) {
        (Some(given), Some(set)) if given != set => Err(contradiction(format!(
            "--duration {} and maxexecutiontime={} contradict each other; keep one of them",
            humantime::format_duration(given),
            set.as_secs()
        ))),
        (Some(time), _) if time.is_zero() => {
            Err(contradiction("--duration must be more than nothing".into()))
        }
        (None, None) if workload.operations.is_none() => match job.has_defaults() {
            true => Ok(Some(DEFAULT_DURATION)),
            false => Err(contradiction("the run has no end; set operationcount or --duration".into())),
        },
        (given, set) => Ok(given.or(set)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::Parser;
    use std::io::Write;

    fn plan(job: Job, flags: &str) -> Result<Plan, WorkloadError> {
        let arguments = std::iter::once("farside-bench").chain(flags.split_whitespace());
        let cli = Cli::try_parse_from(arguments).expect("a good command line");
        Plan::new(job, &cli.options.workload, &cli.options.driving)
    }

    fn refusal(job: Job, flags: &str) -> String {
        plan(job, flags).expect_err("must be refused").to_string()
    }

    #[test]
    fn the_default_job_is_workload_a_for_ten_seconds() {
        let plan = plan(Job::Default, "").expect("the default job");
        assert_eq!((plan.name.as_str(), plan.workload.records), ("a", 200_000));
        assert_eq!((plan.workload.operations, plan.duration), (None, Some(Duration::from_secs(10))));
        assert_eq!(plan.seed, 42);
    }

    #[test]
    fn a_table_has_room_for_all_its_records() {
        let room = |flags| plan(Job::Default, flags).expect("a good plan").table_memory();
        let memory = |flags| room(flags).expect("a size");
        // 200,000 records of 1000 B, 24 B of key, and what a record costs.
        assert_eq!(memory(""), 416 << 20);
        assert_eq!(memory("-p recordcount=1"), 64 << 20);
        assert!(memory("-w d") >= 2 * memory("-w a") - (1 << 20));
        let said = room("-p recordcount=281474976710656 -p fieldlength=1000000")
            .expect_err("2^71 bytes")
            .to_string();
        assert!(said.starts_with("no memory holds 281474976710656 records of 10000"), "{said}");
    }

    #[test]
    fn counts_and_times_of_the_user_hold() {
        let sized = plan(Job::Default, "-p recordcount=5 -p operationcount=7").expect("a good plan");
        assert_eq!((sized.workload.records, sized.workload.operations, sized.duration), (5, Some(7), None));
        let timed = plan(Job::Run, "-w b --duration 3s").expect("a good plan");
        assert_eq!((timed.workload.operations, timed.duration), (None, Some(Duration::from_secs(3))));
        let both = plan(Job::Run, "-p operationcount=7 --duration 3s").expect("whichever comes first");
        assert_eq!((both.workload.operations, both.duration), (Some(7), Some(Duration::from_secs(3))));
        let seconds = plan(Job::Run, "-p maxexecutiontime=4").expect("a good plan");
        assert_eq!(
            (seconds.workload.operations, seconds.duration),
            (Some(1000), Some(Duration::from_secs(4)))
        );
    }

    #[test]
    fn files_replace_the_named_workload() {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        writeln!(file, "recordcount=9\noperationcount=9\nrequestdistribution=latest\ntable=t")
            .expect("it is written");
        let path = file.path().display().to_string();
        let plan = plan(Job::Run, &format!("-P {path}")).expect("a good plan");
        assert_eq!((plan.name, plan.workload.records), (path, 9));
        assert_eq!(
            plan.workload.mix.to_string(),
            "95 % read, 5 % update",
            "YCSB's defaults, not workload a's"
        );
        assert_eq!(plan.without_effect, ["table"]);
    }

    #[test]
    fn contradictions_are_explained() {
        for (job, flags, message) in [
            (Job::Run, "--threads 2 -p threadcount=3", "--threads 2 and threadcount=3 contradict"),
            (Job::Run, "--target 2 -p target=3", "--target 2 and target=3 contradict"),
            (
                Job::Run,
                "--duration 2s -p maxexecutiontime=3",
                "--duration 2s and maxexecutiontime=3 contradict",
            ),
            (Job::Run, "--duration 0s", "--duration must be more"),
            (Job::Run, "-p operationcount=0", "the run has no end"),
            (Job::Load, "--duration 2s", "a load ends when"),
            (Job::Load, "--warmup 2s", "a load ends when"),
            (Job::Run, "--client-count 2 --client-index 2", "--client-index 2 is none of the 2 processes"),
            (
                Job::Run,
                "--verify -p fieldcount=1 -p fieldlength=23",
                "--verify needs values of at least 24 bytes",
            ),
            (
                Job::Run,
                "--batch 4096 -p fieldcount=1 -p fieldlength=16777216",
                "batches of 4096 values of 16777216 bytes in 1 threads need 128 GiB of buffers, more than 8 GiB",
            ),
            (
                Job::Run,
                "-p recordcount=18446744073709551615",
                "recordcount=18446744073709551615 is more than",
            ),
            (Job::Run, "-p threadcount=1025", "threadcount is at most 1024"),
            (Job::Run, "-w e -p minscanlength=101", "minscanlength=101 and maxscanlength=100: "),
            (
                Job::Run,
                "-w e -p fieldlength=1000000 -p maxscanlength=1000",
                "batches of 1 values of 10000000 bytes in 1 threads need 9 GiB of buffers, more than 8 GiB",
            ),
            (Job::Run, "-w x", "unknown workload \"x\""),
            (
                Job::Run,
                "-p recordcont=1",
                "-p: unknown property \"recordcont\"; did you mean \"recordcount\"?",
            ),
            (Job::Run, "-P /nowhere/at/all", "cannot read the workload file /nowhere/at/all"),
            (
                Job::Run,
                "-p requestdistribution=hotspot -p hotspotdatafraction=0",
                "hotspotdatafraction=0 of 1000",
            ),
        ] {
            let said = refusal(job, flags);
            assert!(said.starts_with(message), "{flags}: {said}");
        }
    }
}
