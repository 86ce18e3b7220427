//! One record after the other.

/// YCSB's `SequentialGenerator`: `start`, `start + 1`, and so on, round and round.
///
/// YCSB's threads share one counter; here thread `first` of `step` threads takes every `step`-th number, so that
/// all together run through the same sequence without sharing a cache line.
#[derive(Debug, Clone)]
pub struct Sequential {
    start: u64,
    count: u64,
    next: u64,
    step: u64,
}

impl Sequential {
    /// Over `count` records (at least one is taken) from `start` on, beginning with number `first`, going on by
    /// `step`.
    #[must_use]
    pub fn new(start: u64, count: u64, first: u64, step: u64) -> Self {
        Self { start, count: count.max(1), next: first, step }
    }

    /// The next record.
    pub fn advance(&mut self) -> u64 {
        let record = self.start + self.next % self.count;
        self.next = self.next.wrapping_add(self.step);
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_together_visit_each_record_once_a_round() {
        let mut seen: Vec<u64> = (0..3)
            .flat_map(|thread| {
                let mut chooser = Sequential::new(10, 6, thread, 3);
                [chooser.advance(), chooser.advance()]
            })
            .collect();
        seen.sort_unstable();
        assert_eq!(seen, [10, 11, 12, 13, 14, 15]);
    }
}
