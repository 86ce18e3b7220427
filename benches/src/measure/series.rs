//! From the intervals of all threads to one row a second, and to the total.
//!
//! Threads cross a second at different times. A second is complete when every thread has moved past it; only then
//! is its row made, so that no memory grows with the length of a run but the rows themselves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::interval::Interval;
use crate::workload::mix::Operation;

/// One second of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Seconds since measuring began: operations that *ended* in `second..second + 1`.
    pub second: u32,
    /// Operations of the mix.
    pub operations: u64,
    /// By kind.
    pub kinds: Vec<RowKind>,
}

/// One kind of operation in one second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RowKind {
    /// The kind.
    pub operation: Operation,
    /// Done.
    pub done: u64,
    /// Failed.
    pub failed: u64,
    /// Median service time, nanoseconds; none where processes were merged, as medians do not add.
    pub p50_ns: Option<u64>,
    /// 99th percentile, likewise.
    pub p99_ns: Option<u64>,
    /// The longest, nanoseconds.
    pub max_ns: u64,
}

/// Gathers the intervals of all threads.
#[derive(Debug)]
pub struct Series {
    blank: Interval,
    /// For each thread the first second that it may still report.
    reached: Vec<u32>,
    open: BTreeMap<u32, Interval>,
    rows: Vec<Row>,
    total: Interval,
}

impl Series {
    /// For `threads` threads whose intervals look like `blank`, which is empty.
    #[must_use]
    pub fn new(threads: usize, blank: Interval) -> Self {
        Self {
            total: blank.clone(),
            blank,
            reached: vec![0; threads],
            open: BTreeMap::new(),
            rows: Vec::new(),
        }
    }

    /// Adds what `thread` measured in `second`; it reports no earlier second any more. Hands each second that is
    /// now complete to `complete`, in order.
    pub fn add(
        &mut self,
        thread: usize,
        second: u32,
        interval: &Interval,
        complete: &mut dyn FnMut(&Row, &Interval),
    ) {
        self.open.entry(second).or_insert_with(|| self.blank.clone()).add(interval);
        self.reached[thread] = second;
        self.close(complete);
    }

    /// Says that `thread` reports nothing any more.
    pub fn finish(&mut self, thread: usize, complete: &mut dyn FnMut(&Row, &Interval)) {
        self.reached[thread] = u32::MAX;
        self.close(complete);
    }

    /// All rows and the sum of all intervals, once every thread has finished.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Row>, Interval) {
        (self.rows, self.total)
    }

    fn close(&mut self, complete: &mut dyn FnMut(&Row, &Interval)) {
        let open_from = self.reached.iter().copied().min().unwrap_or(u32::MAX);
        while let Some(entry) = self.open.first_entry().filter(|entry| *entry.key() < open_from) {
            let (second, interval) = entry.remove_entry();
            let row = row(second, &interval);
            complete(&row, &interval);
            self.rows.push(row);
            self.total.add(&interval);
        }
    }
}

fn row(second: u32, interval: &Interval) -> Row {
    let kinds = interval
        .iter()
        .map(|(operation, stats)| RowKind {
            operation,
            done: stats.done,
            failed: stats.failures(),
            p50_ns: Some(stats.service.quantile(0.5)),
            p99_ns: Some(stats.service.quantile(0.99)),
            max_ns: stats.service.max(),
        })
        .collect();
    Row { second, operations: interval.operations, kinds }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::mix::Mix;

    fn interval(operations: u64) -> Interval {
        let mut interval = Interval::new(&Mix::LOAD, false);
        interval.operations = operations;
        interval
    }

    #[test]
    fn a_second_is_complete_when_all_threads_are_past_it() {
        let mut series = Series::new(2, interval(0));
        let mut seen = Vec::new();
        let mut note = |row: &Row, _: &Interval| seen.push((row.second, row.operations));
        series.add(0, 0, &interval(1), &mut note);
        series.add(0, 1, &interval(2), &mut note);
        // Thread 1 stalls through second 0 and reports second 1 first.
        series.add(1, 1, &interval(4), &mut note);
        series.add(0, 2, &interval(8), &mut note);
        series.add(1, 3, &interval(16), &mut note);
        series.finish(0, &mut note);
        series.finish(1, &mut note);
        assert_eq!(seen, [(0, 1), (1, 6), (2, 8), (3, 16)]);
        let (rows, total) = series.into_parts();
        assert_eq!((rows.len(), total.operations), (4, 31));
    }
}
