//! A job from beginning to end: plan, outputs, phases, report, exit code.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use crate::cli::{Cli, Command, Db, Merge, Options};
use crate::compare::{self, CompareError, process};
use crate::measure::interval::Interval;
use crate::measure::series::Row;
use crate::plan::{Job, Plan};
use crate::report::hdr::HdrLog;
use crate::report::host::Host;
use crate::report::merge::{self, MergeError};
use crate::report::output::{OutputError, Outputs};
use crate::report::progress::Progress;
use crate::report::{DriverFacts, FORMAT, PhaseReport, Report, WorkloadFacts};
use crate::run::clock::MonotonicClock;
use crate::run::collector::Observer;
use crate::run::phase::{Kind, Phase};
use crate::run::{self, PhaseError};
use crate::signals::Stop;
use crate::store::{self, StoreError};
use crate::target::papaya::Papaya;
use crate::target::remote::memcached::Memcached;
use crate::target::remote::redis::Redis;
use crate::target::{SessionError, Target};
use crate::workload::error::WorkloadError;
use crate::workload::mix::Operation;

/// A job that cannot be done or finished.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The workload or the flags are wrong.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// An output cannot be had.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A comparison that cannot be made.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// Reports that do not make one.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// A store that cannot be used as asked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A store that cannot be reached or started.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Farside cannot be reached, started, or used as asked.
    #[error(transparent)]
    Farside(#[from] farside::Error),
    /// A phase that could not begin.
    #[error(transparent)]
    Phase(#[from] PhaseError),
    /// A report that could not be written, or signals that could not be caught.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl JobError {
    /// 2 for wrong usage, 1 for what failed.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Workload(_) | Self::Output(_) | Self::Merge(_) | Self::Store(_) => 2,
            Self::Compare(error) => error.exit_code(),
            Self::Session(_) => 1,
            Self::Phase(PhaseError::Workload(_)) => 2,
            Self::Farside(error) if error.kind() == farside::ErrorKind::Invalid => 2,
            Self::Farside(_) | Self::Phase(PhaseError::Session(_)) | Self::Io(_) => 1,
        }
    }
}

/// Does what the command line says, and returns the exit code: 0 done, 1 something failed or did not verify, 130 or
/// 143 after a signal.
///
/// # Errors
/// If it cannot; [`JobError::exit_code`] is then the exit code.
pub fn execute(cli: Cli) -> Result<ExitCode, JobError> {
    let (job, options) = match cli.command {
        None => (Job::Default, cli.options),
        Some(Command::Load(options)) => (Job::Load, options),
        Some(Command::Run(options)) => (Job::Run, options),
        Some(Command::Merge(files)) => return merge_files(&files),
        Some(Command::Compare(flags)) => return compare::compare(&flags),
        Some(Command::Guard(flags)) => return Ok(process::guard(&flags)?),
        Some(Command::Serve(flags)) => return Ok(process::serve(&flags)?),
    };
    let plan = Plan::new(job, &options.workload, &options.driving)?;
    if !plan.without_effect.is_empty() {
        note(format_args!("these properties have no effect here: {}", plan.without_effect.join(", ")));
    }
    store::check(&plan, &options.store)?;
    // From here on: a server in this process leaves nothing behind, whenever a signal comes.
    let stop = Stop::on_signals()?;
    match options.store.db {
        Db::Farside => {
            let target = store::farside(&plan, &options);
            if let Some(signal) = stop.signal() {
                note("interrupted before anything was measured");
                return Ok(ExitCode::from(128 + signal));
            }
            measure(&plan, &options, &target?, &stop)
        }
        Db::Papaya => measure(&plan, &options, &Papaya::new(), &stop),
        Db::Redis => measure(&plan, &options, &store::remote::<Redis>(&options.store)?, &stop),
        Db::Memcached => measure(&plan, &options, &store::remote::<Memcached>(&options.store)?, &stop),
        #[cfg(feature = "lmdb")]
        Db::Lmdb => measure(&plan, &options, &store::lmdb(&plan)?, &stop),
        #[cfg(not(feature = "lmdb"))]
        Db::Lmdb => Err(StoreError::NotBuilt.into()),
    }
}

/// Tells the user on the standard error, or nobody if that is gone.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(io::stderr(), "note: {text}");
}

fn merge_files(files: &Merge) -> Result<ExitCode, JobError> {
    let reports = files.reports.iter().map(|path| merge::read(path)).collect::<Result<_, _>>()?;
    let (report, notes) = merge::merge(reports)?;
    notes.iter().for_each(note);
    let outputs = Outputs::open(&files.files)?;
    outputs.write(&report)?;
    Ok(ExitCode::from(u8::from(!report.succeeded())))
}

/// Runs the phases of `plan` against `target`, and reports.
fn measure<T: Target>(plan: &Plan, options: &Options, target: &T, stop: &Stop) -> Result<ExitCode, JobError> {
    let mut outputs = Outputs::open(&options.output.files)?;
    let hdr = options.output.hdr.as_deref().map(|path| outputs.create_log("--hdr", path)).transpose()?;
    let mut hdr = hdr.map(|file| HdrLog::begin(BufWriter::new(file), SystemTime::now())).transpose()?;
    let clock = MonotonicClock::start();

    let mut report = Report {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: Host::this(),
        store: target.description(),
        workload: workload_facts(plan, store::order_of_scans(options.store.db)),
        driver: driver_facts(plan, &clock),
        phases: Vec::new(),
    };
    let kinds = [Kind::Load, Kind::Run].into_iter().zip([plan.job.loads(), plan.job.runs()]);
    for (kind, _) in kinds.filter(|(_, wanted)| *wanted) {
        let phase = phase(plan, kind);
        let mut follower = Follower::new(&phase, hdr.as_mut());
        let outcome = run::run(target, &phase, &clock, stop.flag(), &mut follower)?;
        follower.finish()?;
        report.phases.push(PhaseReport::new(&phase, outcome, stop.signal().is_some()));
        if !report.succeeded() || stop.signal().is_some() {
            break;
        }
    }
    outputs.write(&report)?;
    Ok(match stop.signal() {
        Some(signal) => ExitCode::from(128 + signal),
        None => ExitCode::from(u8::from(!report.succeeded())),
    })
}

/// The load or the run of `plan`.
pub(crate) fn phase(plan: &Plan, kind: Kind) -> Phase<'_> {
    let runs = kind == Kind::Run;
    Phase {
        kind,
        workload: &plan.workload,
        client: plan.client,
        threads: plan.threads,
        batch: plan.batch,
        // Of a job that loads and runs, rate and time are the run's.
        target: plan.target.filter(|_| runs || !plan.job.runs()),
        warm_up: if runs { plan.warm_up } else { Duration::ZERO },
        duration: plan.duration.filter(|_| runs || !plan.job.runs()),
        seed: plan.seed,
        run_id: run_id(),
    }
}

/// Unique enough to tell the writes of one run from those of any other: microseconds since 1970.
fn run_id() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // Only the low 48 bits matter; they last nine years.
    since.as_micros() as u64
}

/// The workload of `plan`, whose scans go in `order`, in words.
pub(crate) fn workload_facts(plan: &Plan, order: &str) -> WorkloadFacts {
    let workload = &plan.workload;
    WorkloadFacts {
        name: plan.name.clone(),
        mix: workload.mix.to_string(),
        distribution: workload.distribution.to_string(),
        scans: (workload.mix.share(Operation::Scan) > 0.0).then(|| format!("{}, {}", workload.scans, order)),
        records: workload.records,
        keys: workload.keys.to_string(),
        values: workload.values.describe(),
        value_bytes: workload.values.max_len(),
        seed: plan.seed,
        verified: workload.verify,
    }
}

/// How `plan` is driven, in words.
pub(crate) fn driver_facts(plan: &Plan, clock: &MonotonicClock) -> DriverFacts {
    DriverFacts {
        threads: plan.threads,
        batch: plan.batch,
        target: plan.target,
        warm_up_s: plan.warm_up.as_secs_f64(),
        clients: vec![plan.client.index],
        client_count: plan.client.count,
        clock_ns: clock.overhead_ns(),
    }
}

/// Follows a phase for those who watch it: the terminal and the HDR log.
pub(crate) struct Follower<'a> {
    progress: Progress,
    hdr: Option<&'a mut HdrLog<BufWriter<File>>>,
    phase: Kind,
    measured_from: SystemTime,
    failed: io::Result<()>,
}

impl<'a> Follower<'a> {
    pub(crate) fn new(phase: &Phase<'_>, hdr: Option<&'a mut HdrLog<BufWriter<File>>>) -> Self {
        Self {
            progress: Progress::new(phase.kind, phase.operations(), phase.duration),
            hdr,
            phase: phase.kind,
            measured_from: SystemTime::now() + phase.warm_up,
            failed: Ok(()),
        }
    }

    fn finish(self) -> io::Result<()> {
        self.failed
    }
}

impl Observer for Follower<'_> {
    fn second(&mut self, row: &Row, interval: &Interval) {
        self.progress.second(row);
        if let (Some(hdr), Ok(())) = (&mut self.hdr, &self.failed) {
            let from = self.measured_from + Duration::from_secs(row.second.into());
            self.failed = hdr.second(self.phase, from, interval);
        }
    }
}
