//! `farside-bench compare`: the same work on several stores, in turns, and one table of what came of it.

pub mod contender;
pub mod process;
pub mod report;
mod servers;
pub mod spec;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use contender::Contender;
use report::{CompareReport, ContenderReport, MemoryReport};
use spec::Spec;

use crate::cli::Compare;
use crate::job::{self, Follower, JobError};
use crate::plan::{Job, Plan};
use crate::report::host::Host;
use crate::report::output::{Files, Outputs};
use crate::report::{FORMAT, PhaseReport};
use crate::run::clock::MonotonicClock;
use crate::run::phase::{Kind, Phase};
use crate::run::{Outcome, PhaseError};
use crate::signals::Stop;
use crate::store::StoreError;
use crate::workload::error::WorkloadError;
use crate::workload::mix::Operation;

/// A comparison that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The workload or the flags are wrong.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A store that cannot do the workload.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A server that is not installed.
    #[error(
        "{0} needs {programs}, which is not on the PATH: install the package {package} (Debian, Ubuntu: apt-get install \
         {package}), or leave out with --skip-missing what is not installed",
        programs = .0.programs.join(" or "),
        package = .0.programs[0]
    )]
    Missing(Spec),
    /// A store that did not start.
    #[error("{spec} does not start: {why}")]
    Start {
        /// Which.
        spec: Spec,
        /// What it said.
        why: String,
    },
    /// A store that has no place in this process.
    #[error(transparent)]
    Here(#[from] Box<JobError>),
    /// A phase that could not begin.
    #[error("{spec}: {error}")]
    Phase {
        /// On which.
        spec: Spec,
        /// Why.
        error: Box<PhaseError>,
    },
    /// Nothing that could be compared is installed.
    #[error("nothing that was to be compared is there")]
    Nothing,
    /// A signal came before anything was measured.
    #[error("interrupted before anything was measured")]
    Interrupted,
    /// The system refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl CompareError {
    /// 2 for wrong usage, 1 for what failed.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Workload(_) | Self::Store(_) => 2,
            Self::Here(error) => error.exit_code(),
            _ => 1,
        }
    }
}

/// Compares as the flags say.
///
/// # Errors
/// If it cannot; what fails on one of the stores is part of the report.
pub fn compare(flags: &Compare) -> Result<ExitCode, JobError> {
    let plan = Plan::new(Job::Compare, &flags.workload, &flags.driving)?;
    let outputs = Outputs::open(&Files { json: flags.json.clone(), ..Files::default() })?;
    let stop = Stop::on_signals()?;
    let folder = tempfile::tempdir()?;
    let mut contenders = Vec::new();
    for spec in present(flags, &plan)? {
        let own = folder.path().join(contenders.len().to_string());
        std::fs::create_dir(&own)?;
        match Contender::start(spec, &plan, flags, &own, &stop) {
            Ok(contender) => contenders.push(contender),
            Err(CompareError::Interrupted) => break,
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(signal) = stop.signal() {
        job::note(CompareError::Interrupted);
        return Ok(ExitCode::from(128 + signal));
    }
    let report = measure(&plan, flags, &contenders, &stop)?;
    drop(contenders);
    outputs.write_as(&report.table(), |_| report.to_json())?;
    Ok(match stop.signal() {
        Some(signal) => ExitCode::from(128 + signal),
        None => ExitCode::from(u8::from(!report.succeeded())),
    })
}

/// What of the stores that the flags name is there. Nothing is started for those that are not.
fn present(flags: &Compare, plan: &Plan) -> Result<Vec<Spec>, CompareError> {
    let mut present = Vec::new();
    for &spec in &flags.targets {
        match contender::check(spec, plan) {
            Ok(()) => present.push(spec),
            Err(error @ (CompareError::Missing(_) | CompareError::Store(StoreError::NotBuilt)))
                if flags.skip_missing =>
            {
                let _ = writeln!(io::stderr(), "\n!!! SKIPPED {spec}: {error}\n");
            }
            Err(error) => return Err(error),
        }
    }
    if present.is_empty() { Err(CompareError::Nothing) } else { Ok(present) }
}

fn measure(
    plan: &Plan,
    flags: &Compare,
    contenders: &[Contender],
    stop: &Stop,
) -> Result<CompareReport, CompareError> {
    let clock = MonotonicClock::start();
    let turns = turns(plan, flags);
    let run = |contender: &Contender, phase: &Phase<'_>| {
        let mut follower = Follower::new(phase, None);
        contender
            .run(phase, &clock, stop.flag(), &mut follower)
            .map_err(|error| CompareError::Phase { spec: contender.spec, error: Box::new(error) })
    };
    let load = job::phase(plan, Kind::Load);
    let mut reports = Vec::new();
    for contender in contenders {
        let before = if contender.counts_its_own { Some(0) } else { contender.memory() };
        let outcome = run(contender, &load)?;
        let grown = contender.memory().zip(before).map(|(after, before)| after.saturating_sub(before));
        reports.push(ContenderReport {
            name: contender.spec.to_string(),
            store: contender.description(),
            started: contender.started.clone(),
            memory: grown.map(|bytes| MemoryReport {
                bytes_per_key: bytes as f64 / plan.workload.insert_count as f64,
                of: contender.memory_of.to_owned(),
            }),
            load: PhaseReport::new(&load, outcome, stop.signal().is_some()),
            run: None,
        });
    }
    let mut outcomes: Vec<Option<Outcome>> = contenders.iter().map(|_| None).collect();
    let mut phase = job::phase(plan, Kind::Run);
    phase.duration = phase.duration.map(|time| time / turns);
    for turn in 0..turns {
        phase.seed = plan.seed.wrapping_add(turn.into());
        for ((contender, outcome), report) in contenders.iter().zip(&mut outcomes).zip(&reports) {
            if stop.signal().is_some() || !report.load.succeeded() {
                continue;
            }
            let next = run(contender, &phase)?;
            match outcome {
                Some(all) => all.go_on(next),
                None => *outcome = Some(next),
            }
        }
    }
    for (report, outcome) in reports.iter_mut().zip(outcomes) {
        report.run = outcome.map(|outcome| PhaseReport::new(&phase, outcome, stop.signal().is_some()));
    }
    Ok(CompareReport {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: Host::this(),
        workload: job::workload_facts(plan, "each in its store's own order"),
        driver: job::driver_facts(plan, &clock),
        turns,
        turn_s: phase.duration.as_ref().map(Duration::as_secs_f64),
        contenders: reports,
    })
}

/// How often the stores take turns. Where records are inserted, once: another turn would insert them again.
fn turns(plan: &Plan, flags: &Compare) -> u32 {
    let inserts = plan.workload.mix.share(Operation::Insert) > 0.0;
    if inserts || plan.duration.is_none() { 1 } else { flags.rounds }
}
