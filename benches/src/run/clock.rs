//! Time for measuring and pacing.

use std::time::Duration;

/// Nanoseconds since some moment before the run; a virtual one stands in for tests.
pub trait Clock: Sync {
    /// Now.
    fn now(&self) -> u64;

    /// Lets about this much time pass without using the processor.
    fn sleep(&self, time: Duration);

    /// Called again and again while waiting for a moment that is too close for [`Self::sleep`].
    fn spin(&self);
}

/// The processor's time stamp counter where it is steady, the operating system's monotonic clock elsewhere.
#[derive(Debug, Clone)]
pub struct MonotonicClock {
    clock: quanta::Clock,
    start: u64,
}

impl MonotonicClock {
    /// Starts at 0. The first one of a process calibrates the counter, up to 200 ms.
    #[must_use]
    pub fn start() -> Self {
        let clock = quanta::Clock::new();
        let start = clock.raw();
        Self { clock, start }
    }

    /// What reading the clock costs, nanoseconds: every service time contains about this much.
    #[must_use]
    pub fn overhead_ns(&self) -> u64 {
        const READINGS: u64 = 10_000;
        let start = self.now();
        for _ in 1..READINGS {
            std::hint::black_box(self.now());
        }
        (self.now() - start) / READINGS
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> u64 {
        self.clock.delta_as_nanos(self.start, self.clock.raw())
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn spin(&self) {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
pub(crate) mod virtual_clock {
    //! Time that passes only when someone lets it.

    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::Clock;

    /// Starts at 0; each `spin` takes 1 us.
    #[derive(Debug, Default)]
    pub(crate) struct VirtualClock(AtomicU64);

    impl VirtualClock {
        pub(crate) fn pass(&self, nanoseconds: u64) {
            self.0.fetch_add(nanoseconds, Ordering::Relaxed);
        }
    }

    impl Clock for VirtualClock {
        fn now(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }

        fn sleep(&self, time: Duration) {
            self.pass(time.as_nanos() as u64);
        }

        fn spin(&self) {
            self.pass(1000);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_keeps_real_time() {
        let clock = MonotonicClock::start();
        let (before, real) = (clock.now(), std::time::Instant::now());
        clock.sleep(Duration::from_millis(50));
        let (measured, real) = (clock.now() - before, real.elapsed().as_nanos() as u64);
        assert!(measured.abs_diff(real) < 5_000_000, "{measured} ns for {real} ns");
        assert!(clock.overhead_ns() < 10_000);
    }
}
