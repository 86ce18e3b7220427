//! Faults that others can repeat at will: each kind is counted, and logged once a second at most.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const INTERVAL_MS: u64 = 1000;

/// One kind of fault.
pub(crate) struct Fault {
    total: AtomicU64,
    /// How many had happened when one was last logged.
    logged: AtomicU64,
    /// When the next may be logged, milliseconds since `start`.
    next_ms: AtomicU64,
    start: Instant,
}

impl Default for Fault {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Self { total: zero(), logged: zero(), next_ms: zero(), start: Instant::now() }
    }
}

impl Fault {
    /// How often it happened.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Counts one. `Some(n)`: log it; it stands for `n` of them. `None`: do not.
    #[must_use]
    pub(crate) fn note(&self) -> Option<u64> {
        self.note_at(self.start.elapsed().as_millis() as u64)
    }

    fn note_at(&self, now_ms: u64) -> Option<u64> {
        let total = self.total.fetch_add(1, Ordering::Relaxed) + 1;
        let next = self.next_ms.load(Ordering::Relaxed);
        let won = now_ms >= next
            && self
                .next_ms
                .compare_exchange(next, now_ms + INTERVAL_MS, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        won.then(|| total - self.logged.swap(total, Ordering::Relaxed))
    }
}

/// The kinds.
#[derive(Default)]
pub(crate) struct Faults {
    /// A connection could not be accepted: the system is out of something.
    pub(crate) accept: Fault,
    /// A connection more than the server takes.
    pub(crate) too_many: Fault,
    /// Who connected does not speak this protocol, or not in time.
    pub(crate) handshake: Fault,
    /// A token that is wrong, or none where one is needed.
    pub(crate) token: Fault,
    /// Bytes that are no request.
    pub(crate) garbage: Fault,
    /// A large request more than there is room for.
    pub(crate) no_room: Fault,
    /// Who does not take its answers.
    pub(crate) slow_reader: Fault,
    /// A session that was silent for longer than its lease.
    pub(crate) silent: Fault,
    /// A committed record that does not verify.
    pub(crate) damaged: Fault,
}

/// Logs a fault at level warn, unless one of its kind was logged within the last second.
macro_rules! log_fault {
    ($fault:expr, $($what:tt)+) => {
        if let Some(count) = $fault.note() {
            tracing::warn!(count, $($what)+);
        }
    };
}
pub(crate) use log_fault;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_a_second_is_logged_and_says_how_many_it_stands_for() {
        let fault = Fault::default();
        assert_eq!(fault.note_at(0), Some(1));
        assert_eq!(fault.note_at(1), None);
        assert_eq!(fault.note_at(999), None);
        assert_eq!(fault.note_at(1000), Some(3));
        assert_eq!(fault.note_at(5000), Some(1));
        assert_eq!(fault.total(), 5);
    }
}
