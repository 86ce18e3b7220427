//! Gathers what the workers report, on the main thread.

use std::sync::mpsc::{Receiver, Sender};

use super::exchange::Report;
use super::worker::End;
use crate::measure::interval::Interval;
use crate::measure::series::{Row, Series};

/// Someone who follows a phase, second by second: a progress bar, a log.
pub trait Observer {
    /// A second of all threads is complete.
    fn second(&mut self, row: &Row, interval: &Interval);
}

/// All that was measured in a phase.
#[derive(Debug)]
pub struct Collected {
    /// The sum.
    pub total: Interval,
    /// Second by second.
    pub rows: Vec<Row>,
    /// Failures and mismatches while warming up: not measured, but not forgiven either.
    pub warm_up_problems: u64,
    /// How each worker ended.
    pub ends: Vec<End>,
}

/// Gathers until all workers have ended. Intervals go back, cleared, to the workers they came from. `warmed_up` is
/// called once, when the first worker begins to measure.
pub fn collect(
    reports: &Receiver<Report>,
    returns: &[Sender<Box<Interval>>],
    blank: Interval,
    observer: &mut dyn Observer,
    warmed_up: &mut dyn FnMut(),
) -> Collected {
    let mut series = Series::new(returns.len(), blank);
    let mut ends = Vec::with_capacity(returns.len());
    let mut warm_up_problems = 0;
    let mut warming_up = true;
    let mut complete = |row: &Row, interval: &Interval| observer.second(row, interval);
    // The channel closes when the last worker has ended.
    for report in reports {
        if std::mem::take(&mut warming_up) {
            warmed_up();
        }
        match report {
            Report::Interval { thread, second, mut interval } => {
                match second {
                    Some(second) => series.add(thread, second, &interval, &mut complete),
                    None => {
                        let problems = interval.iter().map(|(_, stats)| stats.failures() + stats.mismatched);
                        warm_up_problems += problems.sum::<u64>();
                    }
                }
                interval.clear();
                // A worker that has ended needs no spare.
                let _ = returns[thread].send(interval);
            }
            Report::Ended { thread, end } => {
                series.finish(thread, &mut complete);
                ends.push(end);
            }
        }
    }
    let (rows, total) = series.into_parts();
    Collected { total, rows, warm_up_problems, ends }
}
