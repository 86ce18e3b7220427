//! Connecting again, one attempt at a time and with growing pauses between attempts.

use crate::error::Error;
use parking_lot::Mutex;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// First and longest time between two attempts.
const BACKOFF_FIRST: Duration = Duration::from_millis(20);
const BACKOFF_LAST: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Reconnection {
    state: Mutex<State>,
    attempted: Notify,
}

#[derive(Default)]
struct State {
    under_way: bool,
    /// Attempts that failed since one did not.
    failures: u32,
    failure: Option<Error>,
    /// When the last attempt ended.
    ended: Option<Instant>,
}

impl Reconnection {
    /// Begins an attempt: after how long a pause it may be made; `None` if one is under way.
    pub(crate) fn begin(&self) -> Option<Duration> {
        let mut state = self.state.lock();
        if state.under_way {
            return None;
        }
        state.under_way = true;
        let pause = if state.failures == 0 {
            Duration::ZERO
        } else {
            BACKOFF_FIRST.saturating_mul(1 << (state.failures - 1).min(16)).min(BACKOFF_LAST)
        };
        let passed = state.ended.map_or(BACKOFF_LAST, |ended| ended.elapsed());
        Some(pause.saturating_sub(passed))
    }

    /// Ends an attempt, and wakes who waits for it.
    pub(crate) fn end(&self, failure: Option<Error>) {
        let mut state = self.state.lock();
        state.under_way = false;
        state.failures = if failure.is_some() { state.failures + 1 } else { 0 };
        state.failure = failure;
        state.ended = Some(Instant::now());
        drop(state);
        self.attempted.notify_waiters();
    }

    /// Why the last attempt failed, if it did.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.state.lock().failure.clone()
    }

    /// Ends with the next attempt that ends after this call.
    pub(crate) fn attempted(&self) -> Notified<'_> {
        self.attempted.notified()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_come_one_at_a_time_and_ever_more_seldom() {
        let reconnection = Reconnection::default();
        assert_eq!(reconnection.begin(), Some(Duration::ZERO));
        assert_eq!(reconnection.begin(), None, "one is under way");
        let mut longest = Duration::ZERO;
        for _ in 0..40 {
            reconnection.end(Some(Error::ReadOnly));
            let pause = reconnection.begin().unwrap();
            assert!(pause + Duration::from_millis(10) >= longest && pause <= BACKOFF_LAST);
            longest = longest.max(pause);
        }
        assert!(longest > BACKOFF_LAST / 2);
        reconnection.end(None);
        assert_eq!((reconnection.begin(), reconnection.failure()), (Some(Duration::ZERO), None));
    }
}
