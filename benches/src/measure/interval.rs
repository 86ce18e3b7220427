//! What one thread measures in one interval.

use crate::measure::histogram::Latencies;
use crate::target::{Counts, ErrorKind};
use crate::workload::mix::{Mix, Operation};

/// The figures of one kind of operation.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationStats {
    /// From the call to its answer, successes only; one entry per batch.
    pub service: Latencies,
    /// From the intended start to the answer, successes only; open loop only.
    pub response: Option<Latencies>,
    /// Operations that were done.
    pub done: u64,
    /// Reads that found nothing.
    pub not_found: u64,
    /// Failures, in the order of [`ErrorKind::ALL`].
    pub failed: [u64; ErrorKind::ALL.len()],
    /// Reads that returned what they must not.
    pub mismatched: u64,
    /// Records that scans brought.
    pub records: u64,
    /// What all of these did on the fabric.
    pub counts: Counts,
}

impl OperationStats {
    /// Nothing yet; with response times for an open loop.
    #[must_use]
    pub fn new(open_loop: bool) -> Self {
        Self {
            service: Latencies::new(),
            response: open_loop.then(Latencies::new),
            done: 0,
            not_found: 0,
            failed: [0; ErrorKind::ALL.len()],
            mismatched: 0,
            records: 0,
            counts: Counts::default(),
        }
    }

    /// All failures, whatever their kind.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failed.iter().sum()
    }

    /// Adds the figures of `other`.
    pub fn add(&mut self, other: &Self) {
        self.service.add(&other.service);
        match (&mut self.response, &other.response) {
            (Some(mine), Some(theirs)) => mine.add(theirs),
            (None, Some(theirs)) => self.response = Some(theirs.clone()),
            (_, None) => {}
        }
        self.done += other.done;
        self.not_found += other.not_found;
        for (mine, theirs) in self.failed.iter_mut().zip(other.failed) {
            *mine += theirs;
        }
        self.mismatched += other.mismatched;
        self.records += other.records;
        self.counts += other.counts;
    }

    fn clear(&mut self) {
        self.service.clear();
        if let Some(response) = &mut self.response {
            response.clear();
        }
        self.done = 0;
        self.not_found = 0;
        self.failed = [0; ErrorKind::ALL.len()];
        self.mismatched = 0;
        self.records = 0;
        self.counts = Counts::default();
    }
}

/// The figures of all kinds that a mix reports.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// Operations of the mix, however they ended; the halves of a read-modify-write are one.
    pub operations: u64,
    /// In the order of [`Operation::ALL`]; none for kinds that do not occur.
    stats: [Option<Box<OperationStats>>; Operation::ALL.len()],
}

impl Interval {
    /// Nothing yet, for the kinds that `mix` reports.
    #[must_use]
    pub fn new(mix: &Mix, open_loop: bool) -> Self {
        let stats = Operation::ALL
            .map(|operation| mix.reports(operation).then(|| Box::new(OperationStats::new(open_loop))));
        Self { operations: 0, stats }
    }

    /// The figures of `operation`, if it occurs.
    #[must_use]
    pub fn get(&self, operation: Operation) -> Option<&OperationStats> {
        self.stats[operation as usize].as_deref()
    }

    /// The figures of `operation`, to add to.
    ///
    /// # Panics
    /// If the mix does not report `operation`: nobody may count what nobody reports.
    pub fn get_mut(&mut self, operation: Operation) -> &mut OperationStats {
        self.stats[operation as usize].as_mut().expect("only operations of the mix are run")
    }

    /// The kinds that occur, with their figures.
    pub fn iter(&self) -> impl Iterator<Item = (Operation, &OperationStats)> {
        Operation::ALL
            .into_iter()
            .zip(&self.stats)
            .filter_map(|(operation, stats)| Some((operation, stats.as_deref()?)))
    }

    /// Adds the figures of `other`, which reports the same kinds.
    pub fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        for (mine, theirs) in self.stats.iter_mut().zip(&other.stats) {
            if let (Some(mine), Some(theirs)) = (mine, theirs) {
                mine.add(theirs);
            }
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.operations = 0;
        self.stats.iter_mut().flatten().for_each(|stats| stats.clear());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(latency: u64) -> Interval {
        let mut interval = Interval::new(&Mix::LOAD, true);
        interval.operations = 3;
        let stats = interval.get_mut(Operation::Insert);
        stats.service.record(latency);
        stats.response.as_mut().expect("an open loop").record(10 * latency);
        stats.done = 1;
        stats.not_found = 2;
        stats.failed[ErrorKind::Deadline as usize] = 3;
        stats.mismatched = 4;
        stats.records = 6;
        stats.counts.reads = 5;
        interval
    }

    #[test]
    fn intervals_add_up_and_clear() {
        let mut sum = measured(100);
        sum.add(&measured(200));
        assert_eq!(sum.operations, 6);
        let stats = sum.get(Operation::Insert).expect("the load inserts");
        assert_eq!((stats.done, stats.not_found, stats.failures(), stats.mismatched), (2, 4, 6, 8));
        assert_eq!((stats.service.count(), stats.counts.reads, stats.records), (2, 10, 12));
        assert_eq!(stats.response.as_ref().map(Latencies::count), Some(2));
        sum.clear();
        assert_eq!(sum, Interval::new(&Mix::LOAD, true));
    }

    #[test]
    fn only_kinds_of_the_mix_are_kept() {
        let interval = Interval::new(&Mix::LOAD, false);
        let kinds: Vec<_> = interval.iter().map(|(operation, _)| operation).collect();
        assert_eq!(kinds, [Operation::Insert]);
        assert!(interval.get(Operation::Read).is_none());
    }
}
