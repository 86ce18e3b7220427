//! Memory that all connections together may hold for large requests that are still coming in.
//!
//! A small request's room is part of what a connection costs. A large one's, up to 16 MiB, is taken from here before
//! its bytes are read: else whoever begins many and finishes none would hold as much memory as there is.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Never less than this: some of the largest requests must be able to come at once.
const MIN: u64 = 64 << 20;
/// Else one part of so many of the server's memory.
const PART: u64 = 4;
/// What the semaphore counts in, bytes: so the largest request is far from the range of its numbers.
const UNIT: usize = 1 << 10;

/// How long a request waits for its turn: less than the deadline that a client's operations have if nothing is said.
const PATIENCE: Duration = Duration::from_secs(3);

/// What is left.
pub(crate) struct Budget(Arc<Semaphore>);

/// Some of it, given back when dropped.
#[derive(Debug)]
pub(crate) struct Share(#[expect(dead_code, reason = "held, not used")] OwnedSemaphorePermit);

impl Budget {
    /// Beside a table of so many bytes.
    pub(crate) fn beside(memory: u64) -> Self {
        let units = (memory / PART).max(MIN) / UNIT as u64;
        Self(Arc::new(Semaphore::new((units as usize).min(Semaphore::MAX_PERMITS))))
    }

    /// Room for `bytes`, first come first served; `None`: there was none in time.
    pub(crate) async fn take(&self, bytes: usize) -> Option<Share> {
        let units = bytes.div_ceil(UNIT) as u32;
        timeout(PATIENCE, self.0.clone().acquire_many_owned(units)).await.ok()?.ok().map(Share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farside_protocol::wire::BODY_LEN_MAX;

    #[tokio::test]
    async fn what_is_held_is_bounded_and_given_back() {
        for (memory, bound) in [(0, MIN), (1 << 40, 1 << 38)] {
            let budget = Budget::beside(memory);
            let at_once = || timeout(Duration::from_millis(1), budget.take(BODY_LEN_MAX));
            let mut held = Vec::new();
            while let Ok(share) = at_once().await {
                held.push(share);
            }
            let bytes = (held.len() * BODY_LEN_MAX) as u64;
            assert!(bytes <= bound && bytes + 2 * BODY_LEN_MAX as u64 > bound, "{bytes} of {bound}");
            held.pop();
            assert!(at_once().await.is_ok_and(|share| share.is_some()));
        }
    }
}
