//! Several operations at once, of a session or a client. Over RDMA they are posted together. Over shared memory they are
//! done one by one, and it is the memory that is waited for: a batch of GETs first touches all that it is going to read.
//! Those that have to wait, as for the server's answer, wait together. So wherever the table is, a batch costs about one
//! round trip and not one for each item.

mod of_client;
mod of_session;

pub(crate) use of_client::{get_all, put_all};
pub(crate) use of_session::{get_many, put_many};

use crate::core::Core;
use crate::error::Result;
use crate::task::{Attempt, Deadline, Outcome, Together};
use std::time::Duration;

/// The most operations that wait together: more would only wait for each other.
const TOGETHER_MAX: usize = 64;

/// An operation that was begun and has to wait.
struct Waiting<T> {
    number: usize,
    task: T,
    deadline: Deadline,
    attempt: Attempt,
}

/// What came of a first attempt. `Err`: when the operation must have ended, and what it waits for.
type Begun<A> = std::result::Result<Result<A>, (Deadline, Attempt)>;

/// Tries `tasks` at once. What came of each is handed to `done`, with its number and what it read.
fn begin<'a, T: Together<'a>>(
    core: &mut Core,
    limit: Duration,
    tasks: &mut [T],
    mut done: impl FnMut(usize, &mut T, Begun<T::Answer>, &[u8]),
) {
    let Some(first) = tasks.first() else { return };
    let operation = first.operation();
    core.begin(operation);
    let begun = |attempt, mut outcome: Outcome<_>, deadline| match attempt {
        Attempt::Done => Ok(outcome.take()),
        attempt => Err((deadline, attempt)),
    };
    if core.gains_together(operation) {
        let deadline = Deadline::after(limit);
        core.attempt_together(tasks, deadline.first_slice(), |number, task, attempt, outcome, read| {
            done(number, task, begun(attempt, outcome, deadline), read);
        });
        return;
    }
    for (number, task) in tasks.iter_mut().enumerate() {
        let (deadline, mut outcome) = (Deadline::after(limit), Outcome::unknown());
        let attempt = core.attempt(task, deadline.first_slice(), &mut outcome);
        done(number, task, begun(attempt, outcome, deadline), core.incoming());
    }
}
