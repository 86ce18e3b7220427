//! A phase, and its division among threads and processes.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::inserts::{Inserts, Numbering};
use super::pacing::{Pacing, Schedule};
use super::worker::Task;
use crate::generator::KeyChooser;
use crate::generator::acknowledged::AcknowledgedCounter;
use crate::generator::random::Random;
use crate::generator::uniform::Uniform;
use crate::workload::Workload;
use crate::workload::error::WorkloadError;
use crate::workload::mix::{Mix, Operation};

/// Load or run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Put the records there.
    Load,
    /// Do the workload's operations.
    Run,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Load => "load",
            Self::Run => "run",
        })
    }
}

/// This process among those that share the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    /// Its number, from 0.
    pub index: u64,
    /// How many there are.
    pub count: u64,
}

impl Client {
    /// The only one.
    pub const ALONE: Self = Self { index: 0, count: 1 };
}

/// All that makes a phase. Counts and rates are those of the whole run, all processes together.
#[derive(Debug, Clone)]
pub struct Phase<'a> {
    /// Load or run.
    pub kind: Kind,
    /// The workload.
    pub workload: &'a Workload,
    /// This process.
    pub client: Client,
    /// Threads of this process.
    pub threads: u64,
    /// Operations in one request.
    pub batch: usize,
    /// Operations a second; none for a closed loop.
    pub target: Option<u64>,
    /// Time before measuring.
    pub warm_up: Duration,
    /// Time to measure at most.
    pub duration: Option<Duration>,
    /// Seed of all random streams.
    pub seed: u64,
    /// What tells this run's writes from those of any other run.
    pub run_id: u64,
}

impl Phase<'_> {
    /// Which kinds of operations the phase does.
    #[must_use]
    pub fn mix(&self) -> Mix {
        match self.kind {
            Kind::Load => Mix::LOAD,
            Kind::Run => self.workload.mix,
        }
    }

    /// Whether the phase adds records to those that the load put there.
    #[must_use]
    pub fn appends(&self) -> bool {
        self.kind == Kind::Run && self.workload.mix.share(Operation::Insert) > 0.0
    }

    /// Operations that this process does, if there is an end.
    #[must_use]
    pub fn operations(&self) -> Option<u64> {
        let all = match self.kind {
            Kind::Load => Some(self.workload.insert_count),
            Kind::Run => self.workload.operations,
        };
        all.map(|all| share(all, self.client.index, self.client.count))
    }

    /// What each thread is to do. `appended` counts the records that the phase appends, if it does.
    ///
    /// # Errors
    /// If the workload's values leave nothing to choose from, or the rate is too low for the batch.
    pub fn tasks<'c>(
        &self,
        appended: Option<&'c AcknowledgedCounter>,
    ) -> Result<Vec<Task<'c>>, WorkloadError> {
        (0..self.threads).map(|thread| self.task(thread, appended)).collect()
    }

    fn task<'c>(
        &self,
        thread: u64,
        appended: Option<&'c AcknowledgedCounter>,
    ) -> Result<Task<'c>, WorkloadError> {
        let Self { workload, client, threads, .. } = *self;
        let global = client.index * threads + thread;
        let chooser = match self.kind {
            Kind::Load => KeyChooser::Uniform(Uniform::new(0, 1)),
            Kind::Run => workload.distribution.chooser(workload, global, client.count * threads)?,
        };
        let inserts = match (self.kind, appended) {
            (Kind::Load, _) => self.slice(thread),
            (Kind::Run, Some(counter)) => Inserts::Append(counter),
            (Kind::Run, None) => Inserts::Never,
        };
        Ok(Task {
            mix: self.mix(),
            chooser,
            keys: workload.keys,
            values: workload.values.clone(),
            scans: workload.scans.clone(),
            random: Random::new(self.seed, global),
            inserts,
            numbering: Numbering { loaded: workload.records, client: client.index, clients: client.count },
            pacing: self.pacing(thread)?,
            batch: self.batch,
            quota: self.operations().map(|operations| share(operations, thread, threads)),
            origin: (self.kind == Kind::Run).then_some((self.run_id << 16) | (global & 0xFFFF)),
            verify: workload.verify,
        })
    }

    /// The records that `thread` loads: this process has a range of its own, whose records its threads take in
    /// turn.
    fn slice(&self, thread: u64) -> Inserts<'static> {
        let Self { workload, client, threads, .. } = *self;
        let before: u64 =
            (0..client.index).map(|index| share(workload.insert_count, index, client.count)).sum();
        let start = workload.insert_start + before;
        let end = start + share(workload.insert_count, client.index, client.count);
        Inserts::Load { next: start + thread, end, step: threads }
    }

    fn pacing(&self, thread: u64) -> Result<Pacing, WorkloadError> {
        let Some(target) = self.target else { return Ok(Pacing::Closed) };
        let requests = u128::from(target) * 1000 / (self.batch as u128 * u128::from(self.client.count));
        match u64::try_from(requests) {
            Ok(rate_millis @ 1..) => {
                Ok(Pacing::Open(Schedule { rate_millis, thread, threads: self.threads }))
            }
            _ => Err(WorkloadError::Contradiction(format!(
                "--target {target} is out of range for batches of {} and {} processes",
                self.batch, self.client.count
            ))),
        }
    }
}

/// The share of `index` when `all` is divided evenly among `count`.
fn share(all: u64, index: u64, count: u64) -> u64 {
    all / count + u64::from(index < all % count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload;
    use proptest::prelude::*;

    fn workload(changes: &[&str]) -> Workload {
        let mut properties = workload::standard("a").expect("a standard workload");
        for assignment in changes {
            properties.add_assignment(assignment).expect("a good assignment");
        }
        Workload::from_properties(&properties).expect("a good workload")
    }

    fn phase(workload: &Workload, kind: Kind, client: Client, threads: u64) -> Phase<'_> {
        Phase {
            kind,
            workload,
            client,
            threads,
            batch: 1,
            target: None,
            warm_up: Duration::ZERO,
            duration: None,
            seed: 1,
            run_id: 1,
        }
    }

    proptest! {
        #[test]
        fn processes_and_threads_load_each_record_once(
            records in 1_u64..200, start in 0_u64..50, processes in 1_u64..5, threads in 1_u64..5,
        ) {
            let changes = [format!("recordcount={}", start + records), format!("insertstart={start}")];
            let workload = workload(&[&changes[0], &changes[1]]);
            let mut loaded = Vec::new();
            for index in 0..processes {
                let phase = phase(&workload, Kind::Load, Client { index, count: processes }, threads);
                for mut task in phase.tasks(None).expect("good tasks") {
                    let before = loaded.len();
                    loaded.extend(std::iter::from_fn(|| task.inserts.take()));
                    prop_assert_eq!(task.quota, Some((loaded.len() - before) as u64));
                }
            }
            loaded.sort_unstable();
            prop_assert!(loaded.into_iter().eq(start..start + records));
        }

        #[test]
        fn shares_add_up(all in 0_u64..10_000, count in 1_u64..50) {
            prop_assert_eq!((0..count).map(|index| share(all, index, count)).sum::<u64>(), all);
        }
    }

    #[test]
    fn rates_are_divided_and_must_leave_something() {
        let workload = workload(&[]);
        let mut phase = phase(&workload, Kind::Run, Client { index: 1, count: 2 }, 3);
        (phase.target, phase.batch) = (Some(1000), 10);
        let schedule = Schedule { rate_millis: 50_000, thread: 2, threads: 3 };
        assert_eq!(phase.pacing(2).expect("50 requests a second"), Pacing::Open(schedule));
        (phase.target, phase.batch) = (Some(1), 10_000);
        assert!(phase.pacing(0).is_err());
    }

    #[test]
    fn no_two_threads_write_the_same_marks() {
        let workload = workload(&[]);
        let mut origins: Vec<_> = (0..3)
            .flat_map(|index| {
                let phase = phase(&workload, Kind::Run, Client { index, count: 3 }, 2);
                phase.tasks(None).expect("good tasks").into_iter().map(|task| task.origin)
            })
            .collect();
        origins.sort_unstable();
        origins.dedup();
        assert_eq!(origins.len(), 6);
    }
}
