//! Ends calls at their deadlines and keeps the session alive, also while the link is down.

use super::shared::Shared;
use std::time::Instant;

/// Runs until it is dropped.
pub(super) async fn run(shared: &Shared) {
    loop {
        match shared.tick(Instant::now()) {
            Some(next) => {
                // Ends early if an earlier deadline comes.
                let _ = tokio::time::timeout_at(next.into(), shared.clock.notified()).await;
            }
            None => shared.clock.notified().await,
        }
    }
}
