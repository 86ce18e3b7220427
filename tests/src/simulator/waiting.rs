//! Futures that the simulator's tasks wait with. Each poll moves the world by one step, as a fabric's does.

use farside_transport::sim::World;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Ends `ns` nanoseconds from now.
pub(super) async fn sleep(world: &World, ns: u64) {
    let until = world.now_ns() + ns;
    poll_fn(|_| {
        if world.now_ns() >= until {
            return Poll::Ready(());
        }
        world.step();
        Poll::Pending
    })
    .await;
}

/// Ends `steps` steps from now.
pub(super) async fn think(world: &World, steps: u64) {
    let until = world.steps() + steps;
    poll_fn(|_| {
        if world.steps() >= until {
            return Poll::Ready(());
        }
        world.step();
        Poll::Pending
    })
    .await;
}

/// Polls `future`, and drops it at poll number `at`; `None` then.
pub(super) async fn cancelled_at<T>(at: Option<u32>, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut polls = 0;
    poll_fn(|context| {
        if Some(polls) == at {
            return Poll::Ready(None);
        }
        polls += 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}
