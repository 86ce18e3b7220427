//! Carries an operation to its end when the first attempt was not enough: waits for blocks, asks the server,
//! connects again, tries again.
//!
//! Every await in here is on something that goes on without the operation (a lease that is under way, a timer, a
//! request that was sent, a connection being made), and no core is held across one. So dropping the future at any
//! await point leaves nothing half done: one-sided work runs inside `with`, from its start to its end.

use crate::core::Core;
use crate::error::Result;
use crate::shared::Shared;
use crate::task::{Attempt, Deadline, Outcome, Task};
use farside_transport::channel::CallError;
use farside_transport::clock;
use std::sync::Arc;
use std::time::Duration;

/// Lends a core, the same one each time.
pub(crate) trait Cores {
    fn with<R>(&mut self, f: impl FnOnce(&mut Core) -> R) -> R;
}

/// The core of a session.
pub(crate) struct Own<'a>(pub(crate) &'a mut Core);

impl Cores for Own<'_> {
    fn with<R>(&mut self, f: impl FnOnce(&mut Core) -> R) -> R {
        f(self.0)
    }
}

/// The pause before an operation is tried again that could not be finished.
pub(crate) const PAUSE: Duration = Duration::from_millis(1);

/// Goes on from the first `attempt` to the end of `task`.
pub(crate) async fn perform<'a, T: Task<'a>>(
    cores: &mut impl Cores,
    shared: &Arc<Shared>,
    task: &mut T,
    deadline: Deadline,
    mut attempt: Attempt,
) -> Result<T::Answer> {
    let (mut outcome, mut round) = (Outcome::unknown(), 0);
    loop {
        let step = match attempt {
            Attempt::Done => return outcome.take(),
            Attempt::TwoSided => ask(cores, shared, task, &deadline).await,
            Attempt::Lease(times) => await_lease(cores, shared, &deadline, times).await.map(|()| None),
            Attempt::Later(time) => pause(shared, time, &deadline).await.map(|()| None),
            Attempt::Unfinished => pause(shared, PAUSE, &deadline).await.map(|()| None),
            Attempt::Broken => reconnect(cores, shared, &deadline).await.map(|()| None),
        };
        match step {
            Ok(None) => {}
            Ok(Some(answer)) => {
                cores.with(|core| core.ended(task.operation(), true));
                return Ok(answer);
            }
            Err(error) => {
                cores.with(|core| core.ended(task.operation(), false));
                return Err(error);
            }
        }
        round += 1;
        let slice = deadline.slice(round);
        attempt = cores.with(|core| core.attempt(task, slice, &mut outcome));
    }
}

/// Asks the server's CPU. `None`: the request had no effect, and may be made again.
async fn ask<'a, T: Task<'a>>(
    cores: &mut impl Cores,
    shared: &Arc<Shared>,
    task: &mut T,
    deadline: &Deadline,
) -> Result<Option<T::Answer>> {
    let connection = cores.with(|core| {
        core.count_two_sided(task);
        Arc::clone(core.connection())
    });
    let asked_ns = clock::coarse_ns();
    let answer = match connection.call(&task.request(), deadline).await {
        Ok(answer) => answer,
        // The next attempt finds the connection broken.
        Err(CallError::Unavailable { .. }) if connection.is_broken() => return Ok(None),
        Err(error) => {
            let error = connection.call_error(error, deadline);
            return shared.bear(error, deadline).await.map(|()| None);
        }
    };
    let response = answer.response().map_err(|error| connection.call_error(error.into(), deadline))?;
    match cores.with(|core| core.settle(task, &response, asked_ns, &connection)) {
        Some(answer) => Ok(Some(answer)),
        None => Err(connection.nonsense()),
    }
}

/// Waits until leases have come since the core had taken them in `times`: they may be there already, or have been taken
/// in by another operation of the same core, which does not tell this one.
async fn await_lease(
    cores: &mut impl Cores,
    shared: &Arc<Shared>,
    deadline: &Deadline,
    times: u64,
) -> Result<()> {
    let inbox = cores.with(|core| core.inbox());
    let next = inbox.next();
    // What came before `next` was there to see it lies in the inbox, or has been taken out of it.
    if !inbox.is_empty() || cores.with(|core| core.has_taken_in_since(times)) {
        return Ok(());
    }
    shared.within(deadline, next).await
}

pub(crate) async fn pause(shared: &Arc<Shared>, time: Duration, deadline: &Deadline) -> Result<()> {
    let left = deadline.left();
    if left.is_zero() {
        return Err(deadline.error());
    }
    shared.sleep(time.min(left)).await;
    Ok(())
}

pub(crate) async fn reconnect(
    cores: &mut impl Cores,
    shared: &Arc<Shared>,
    deadline: &Deadline,
) -> Result<()> {
    let broken = cores.with(|core| Arc::clone(core.connection()));
    let connection = shared.reconnected(&broken, deadline).await?;
    cores.with(|core| core.rebind(&connection));
    Ok(())
}
