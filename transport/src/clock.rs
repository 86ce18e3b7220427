//! The clocks of processes that share memory.
//!
//! They share the host and its clocks, so an operation keeps to the quarantine (rule T2) by the kernel's last tick,
//! [`coarse_ns`], in a quarter of the time of an exact reading. How far that lags is not bounded: in a virtual
//! machine the processor that keeps the time may itself be stopped. It need not be, given the rule that
//!
//! > the server **stamps a retirement with [`fine_ns`] and ends the quarantine by [`coarse_ns`]**.
//!
//! For a client that began at coarse time `c` and still sees the block when it is leased again, later, the coarse
//! clock, the same for both, has reached `stamp + Q`, and `stamp >= c` since the exact clock is never behind: the
//! client sees that more than `Q` has passed, whatever the lag. A remote client, whose clock is its own and
//! exact, sees it too, since the coarse clock is never ahead. Neither clock counts suspend, as all who share
//! memory are suspended together, and a remote client that counts it only gives up earlier.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC` at the kernel's last tick: never ahead of [`fine_ns`], and never back.
#[inline]
pub fn coarse_ns() -> u64 {
    nanoseconds(ClockId::MonotonicCoarse)
}

/// Nanoseconds of `CLOCK_MONOTONIC`, exact.
#[inline]
pub fn fine_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// Milliseconds of the Unix epoch at the kernel's last tick, for expiry alone.
#[inline]
pub fn wall_ms() -> u64 {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    // A clock set before 1970 makes everything unexpired, not nonsense.
    u64::try_from(now.tv_sec).unwrap_or(0) * 1000 + now.tv_nsec as u64 / 1_000_000
}

#[inline]
fn nanoseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the rule in the module's head rests on.
    #[test]
    fn the_coarse_clock_is_never_ahead_and_never_back() {
        let mut last = 0;
        for _ in 0..100_000 {
            let (coarse, fine) = (coarse_ns(), fine_ns());
            assert!(last <= coarse && coarse <= fine);
            last = coarse;
        }
    }

    #[test]
    fn the_coarse_clock_moves() {
        let began = coarse_ns();
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(coarse_ns() > began);
    }

    #[test]
    fn wall_time_is_the_systems() {
        let system = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        assert!((system.as_millis() as u64).abs_diff(wall_ms()) < 1000);
    }
}
