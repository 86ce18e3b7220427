//! When each request is meant to start.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::clock::Clock;

/// Sleeping may overshoot by about this much, so the last stretch is spent spinning.
const SPIN: Duration = Duration::from_micros(100);

/// Longest sleep between two looks at the stop flag.
const LOOK: Duration = Duration::from_millis(50);

/// The schedule of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pacing {
    /// Closed loop: each request starts when the last has ended.
    Closed,
    /// Open loop: requests are due at fixed times, whether or not earlier ones have ended.
    Open(Schedule),
}

/// The times of an open loop: requests of all threads are evenly spaced, and thread `thread` makes every
/// `threads`-th one. A request that is late does not move the later ones, so that the time it kept others waiting is
/// measured ("coordinated omission" is the error of leaving it out).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Requests a second of all threads together, in thousandths.
    pub rate_millis: u64,
    /// This thread.
    pub thread: u64,
    /// All threads.
    pub threads: u64,
}

impl Schedule {
    /// When this thread's request `number` is due, nanoseconds after the start. Exact for any number: no error adds
    /// up.
    #[must_use]
    pub fn due(&self, number: u64) -> u64 {
        let position = u128::from(number) * u128::from(self.threads) + u128::from(self.thread);
        let offset = position * 1_000_000_000_000 / u128::from(self.rate_millis);
        u64::try_from(offset).unwrap_or(u64::MAX)
    }

    /// How many of this thread's requests are due before `time`, nanoseconds after the start.
    #[must_use]
    pub fn due_before(&self, time: u64) -> u64 {
        // Positions p with p * 10^12 / rate < time, that is p < time * rate / 10^12, rounded up.
        let positions = (u128::from(time) * u128::from(self.rate_millis)).div_ceil(1_000_000_000_000);
        let mine = positions.saturating_sub(u128::from(self.thread)).div_ceil(u128::from(self.threads));
        u64::try_from(mine).unwrap_or(u64::MAX)
    }
}

/// Waits until `due`; gives up early, and returns false, once `stop` is set.
pub fn wait_until(due: u64, clock: &impl Clock, stop: &AtomicBool) -> bool {
    loop {
        let left = Duration::from_nanos(due.saturating_sub(clock.now()));
        if left.is_zero() {
            return true;
        }
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        if left > SPIN {
            clock.sleep((left - SPIN).min(LOOK));
        } else {
            clock.spin();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::clock::virtual_clock::VirtualClock;
    use super::*;
    use proptest::prelude::*;

    fn schedule(rate: u64, thread: u64, threads: u64) -> Schedule {
        Schedule { rate_millis: rate * 1000, thread, threads }
    }

    #[test]
    fn threads_take_turns() {
        let due = |thread, number| schedule(1000, thread, 4).due(number);
        assert_eq!([due(0, 0), due(1, 0), due(3, 0)], [0, 1_000_000, 3_000_000]);
        assert_eq!([due(0, 1), due(0, 1000)], [4_000_000, 4_000_000_000]);
    }

    #[test]
    fn a_rate_that_divides_nothing_does_not_drift() {
        assert_eq!(schedule(3, 0, 1).due(3_000_000), 1_000_000_000_000_000);
    }

    #[test]
    fn waiting_ends_on_time_or_when_stopped() {
        let (clock, stop) = (VirtualClock::default(), AtomicBool::new(false));
        assert!(wait_until(3_000_000_000, &clock, &stop));
        assert_eq!(clock.now(), 3_000_000_000);
        assert!(wait_until(5, &clock, &stop), "a moment long past is no wait");
        stop.store(true, Ordering::Relaxed);
        assert!(!wait_until(4_000_000_000, &clock, &stop));
        assert_eq!(clock.now(), 3_000_000_000);
    }

    proptest! {
        #[test]
        fn due_and_due_before_agree(
            rate in 1_u64..10_000_000,
            threads in 1_u64..64,
            number in 0_u64..1_000_000,
            thread in 0_u64..64,
        ) {
            let schedule = schedule(rate, thread % threads, threads);
            let due = schedule.due(number);
            prop_assert!(schedule.due_before(due) <= number);
            prop_assert!(schedule.due_before(due + 1) > number);
        }
    }
}
