//! Running one phase, a load or a run, on all threads of this process.

pub mod clock;
pub mod collector;
pub mod exchange;
pub mod inserts;
pub mod pacing;
pub mod phase;
pub mod request;
pub mod server_cpu;
pub mod worker;

#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use clock::Clock;
use collector::{Collected, Observer, collect};
use exchange::Exchange;
use phase::Phase;
use server_cpu::CpuMeter;
use worker::{Times, Worker};

use crate::generator::acknowledged::AcknowledgedCounter;
use crate::measure::interval::Interval;
use crate::measure::series::Row;
use crate::target::{ServerCpu, SessionError, Target};
use crate::workload::error::WorkloadError;

/// What came of a phase.
#[derive(Debug)]
pub struct Outcome {
    /// When measuring began.
    pub started_at: SystemTime,
    /// From there to the end of the last operation.
    pub elapsed: Duration,
    /// All that was measured.
    pub collected: Collected,
    /// Processor time that the store's servers used meanwhile, if they tell.
    pub server_cpu: Option<ServerCpu>,
    /// Connections made again meanwhile, warm-up included, after one broke.
    pub reconnects: u64,
    /// Whether another server answers at the end than at the beginning.
    pub server_replaced: bool,
}

impl Outcome {
    /// Adds a later run of the same work on the same store.
    pub fn go_on(&mut self, next: Self) {
        let Collected { total, rows, warm_up_problems, ends } = next.collected;
        let all = &mut self.collected;
        let before = all.rows.last().map_or(0, |row| row.second + 1);
        all.rows.extend(rows.into_iter().map(|row| Row { second: row.second + before, ..row }));
        all.total.add(&total);
        all.warm_up_problems += warm_up_problems;
        all.ends.extend(ends);
        self.elapsed += next.elapsed;
        self.server_cpu = self.server_cpu.zip(next.server_cpu).map(|(mine, theirs)| ServerCpu {
            serving: mine.serving + theirs.serving,
            upkeep: mine.upkeep + theirs.upkeep,
        });
        self.reconnects += next.reconnects;
        self.server_replaced |= next.server_replaced;
    }
}

/// A phase that could not begin.
#[derive(Debug, thiserror::Error)]
pub enum PhaseError {
    /// The workload cannot be run as written.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The store cannot be reached.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// Runs `phase` against `target` until it is done or `stop` is set.
///
/// # Errors
/// If the phase cannot begin. What fails later is part of the outcome.
pub fn run<T: Target, C: Clock>(
    target: &T,
    phase: &Phase<'_>,
    clock: &C,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Outcome, PhaseError> {
    let appended = phase.appends().then(|| AcknowledgedCounter::new(phase.workload.records));
    let tasks = phase.tasks(appended.as_ref())?;
    let blank = Interval::new(&phase.mix(), phase.target.is_some());
    let (exchanges, reports, returns) = Exchange::new(tasks.len(), &blank);
    let (ready, opened) = mpsc::channel();

    std::thread::scope(|scope| {
        // Sessions belong to their threads, so each thread opens its own; none begins before all are open.
        let starts: Vec<_> = tasks
            .into_iter()
            .zip(exchanges)
            .map(|(task, exchange)| {
                let ready = ready.clone();
                let (start, started) = mpsc::channel::<Times>();
                scope.spawn(move || {
                    let session = match target.session() {
                        Ok(session) => session,
                        Err(error) => {
                            let _ = ready.send(Err(error));
                            return;
                        }
                    };
                    let worker = Worker::new(task, session, clock, stop, exchange);
                    let _ = ready.send(Ok(()));
                    if let Ok(times) = started.recv() {
                        worker.run(times);
                    }
                });
                start
            })
            .collect();
        drop(ready);
        opened.iter().take(starts.len()).collect::<Result<(), _>>()?;

        let before = target.link();
        let mut server_cpu = CpuMeter::start(target);
        let mut started_at = SystemTime::now();
        let start = clock.now();
        let measure_from = start.saturating_add(nanoseconds(phase.warm_up));
        let deadline = phase.duration.map_or(u64::MAX, |time| measure_from.saturating_add(nanoseconds(time)));
        for worker in starts {
            // A thread that is gone has panicked, which the scope passes on.
            let _ = worker.send(Times { start, measure_from, deadline });
        }
        let mut warmed_up = || {
            if !phase.warm_up.is_zero() {
                started_at = SystemTime::now();
                server_cpu.restart();
            }
        };
        let collected = collect(&reports, &returns, blank, observer, &mut warmed_up);
        let server_cpu = server_cpu.used();
        let after = target.link();
        let server_replaced = after.replaced_since(&before);
        let ended = collected.ends.iter().map(|end| end.at).max().unwrap_or(measure_from);
        let elapsed = Duration::from_nanos(ended.saturating_sub(measure_from));
        Ok(Outcome {
            started_at,
            elapsed,
            collected,
            // The figures of two servers say nothing together.
            server_cpu: server_cpu.filter(|_| !server_replaced),
            reconnects: after.reconnects - before.reconnects,
            server_replaced,
        })
    })
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
