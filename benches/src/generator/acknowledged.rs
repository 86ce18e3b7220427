//! Which of the records that a run inserts are known to exist.

use std::sync::atomic::{AtomicU64, Ordering};

/// Inserts that may be in flight or out of order at once, as in YCSB.
const WINDOW: u64 = 1 << 20;

/// YCSB's `AcknowledgedCounterGenerator`: hands out the numbers of records to insert, and tells the highest
/// number up to which *every* insert was acknowledged.
///
/// Lock-free: a slot of the window holds the last number acknowledged there, so it needs no clearing, and anyone
/// who acknowledges moves the limit over all that is complete.
#[derive(Debug)]
pub struct AcknowledgedCounter {
    next: AtomicU64,
    /// All records below this number exist.
    limit: AtomicU64,
    window: Box<[AtomicU64]>,
}

impl AcknowledgedCounter {
    /// With records `0..existing` there already.
    #[must_use]
    pub fn new(existing: u64) -> Self {
        Self {
            next: AtomicU64::new(existing),
            limit: AtomicU64::new(existing),
            window: (0..WINDOW).map(|_| AtomicU64::new(u64::MAX)).collect(),
        }
    }

    /// The number of the next record to insert. `None` while the window is full: an insert is still unanswered
    /// and a million newer ones are done.
    pub fn take(&self) -> Option<u64> {
        let limit = self.limit.load(Ordering::Relaxed);
        self.next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                (next - limit < WINDOW).then_some(next + 1)
            })
            .ok()
    }

    /// Says that the insert of `number` was acknowledged.
    pub fn acknowledge(&self, number: u64) {
        // Sequentially consistent, as one thread writes a slot and reads the limit while another writes the limit
        // and reads that slot: one of the two must see the other's write, or a number stays behind.
        self.slot(number).store(number, Ordering::SeqCst);
        let mut limit = self.limit.load(Ordering::SeqCst);
        while self.slot(limit).load(Ordering::SeqCst) == limit {
            match self.limit.compare_exchange_weak(limit, limit + 1, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => limit += 1,
                Err(now) => limit = now,
            }
        }
    }

    /// The number of records known to exist: all below it do.
    pub fn existing(&self) -> u64 {
        self.limit.load(Ordering::Acquire)
    }

    fn slot(&self, number: u64) -> &AtomicU64 {
        &self.window[(number % WINDOW) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_waits_for_the_oldest() {
        let counter = AcknowledgedCounter::new(100);
        assert_eq!([counter.take(), counter.take(), counter.take()], [Some(100), Some(101), Some(102)]);
        counter.acknowledge(102);
        counter.acknowledge(101);
        assert_eq!(counter.existing(), 100);
        counter.acknowledge(100);
        assert_eq!(counter.existing(), 103);
    }

    #[test]
    fn a_full_window_gives_no_number_until_the_oldest_is_answered() {
        let counter = AcknowledgedCounter::new(0);
        for expected in 0..WINDOW {
            assert_eq!(counter.take(), Some(expected));
        }
        (1..WINDOW).for_each(|number| counter.acknowledge(number));
        assert_eq!((counter.take(), counter.existing()), (None, 0));
        counter.acknowledge(0);
        assert_eq!((counter.take(), counter.existing()), (Some(WINDOW), WINDOW));
    }

    #[test]
    fn racing_threads_leave_no_number_behind() {
        let counter = AcknowledgedCounter::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50_000 {
                        let number = counter.take().expect("four in flight do not fill the window");
                        assert!(counter.existing() <= number);
                        counter.acknowledge(number);
                    }
                });
            }
        });
        assert_eq!(counter.existing(), 200_000);
    }
}
