//! Several operations of a session at once: what can be done here is done one by one, and those that have to wait, as
//! for the server's answer, wait together. So over TCP a batch costs about one round trip and not one for each item.
//! Over shared memory it is the memory that is waited for: a batch of GETs first touches all that it is going to read.

use crate::core::Core;
use crate::error::Result;
use crate::perform::{Cores, perform};
use crate::shared::Shared;
use crate::task::{Attempt, Deadline, GetTask, Into, Outcome, PutTask, Task};
use crate::value::{Condition, Put, Value};
use farside_protocol::{Key, Record, Version};
use farside_transport::channel::block_on;
use futures_util::future::join_all;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

/// The most operations that wait together: more would only wait for each other.
const TOGETHER_MAX: usize = 64;
/// The most bytes of values that are sent together, unless one value alone is longer.
const TOGETHER_BYTES_MAX: usize = 4 << 20;

/// Lends a session's core to operations in turn: none of them holds it across an await.
struct Turns<'a, 'c>(&'a RefCell<&'c mut Core>);

impl Cores for Turns<'_, '_> {
    fn with<R>(&mut self, f: impl FnOnce(&mut Core) -> R) -> R {
        f(&mut self.0.borrow_mut())
    }
}

/// An operation that was begun and has to wait.
struct Waiting<T> {
    number: usize,
    task: T,
    deadline: Deadline,
    attempt: Attempt,
}

/// Tries `task` at once. `Err`: when it must have ended, and what it waits for.
fn begin<'a, T: Task<'a>>(
    core: &mut Core,
    limit: Duration,
    task: &mut T,
) -> std::result::Result<Result<T::Answer>, (Deadline, Attempt)> {
    core.begin(task.operation());
    let deadline = Deadline::after(limit);
    let mut outcome = Outcome::unknown();
    match core.attempt(task, deadline.first_slice(), &mut outcome) {
        Attempt::Done => Ok(outcome.take()),
        attempt => Err((deadline, attempt)),
    }
}

/// Looks `keys` up and hands each answer to `each`, with the number of its key. `answer` is a buffer to use.
pub(crate) fn get_many<K: AsRef<[u8]>>(
    core: &mut Core,
    shared: &Arc<Shared>,
    limit: Duration,
    keys: &[K],
    answer: &mut Vec<u8>,
    mut each: impl FnMut(usize, Result<Option<Value<&[u8]>>>),
) {
    let mut numbered = keys.iter().enumerate();
    while numbered.len() > 0 {
        let mut waiting = Vec::new();
        core.touch(numbered.clone().take(TOGETHER_MAX).filter_map(|(_, key)| Key::new(key.as_ref()).ok()));
        for (number, key) in numbered.by_ref().take(TOGETHER_MAX) {
            let key = match Key::new(key.as_ref()) {
                Ok(key) => key,
                Err(error) => {
                    each(number, Err(error.into()));
                    continue;
                }
            };
            let mut task = GetTask::new(key, Into::Lent { answer: &mut *answer });
            match begin(core, limit, &mut task) {
                Ok(found) => {
                    let (meta, lent) = (task.meta, task.lent);
                    let value = || Value::new(lent.map_or(&answer[..], |lent| &core.incoming()[lent]), meta);
                    each(number, found.map(|found| found.then(value)));
                }
                Err((deadline, attempt)) => waiting.push(Waiting { number, task: key, deadline, attempt }),
            }
        }
        let core = RefCell::new(&mut *core);
        let get = async |Waiting { number, task: key, deadline, attempt }| {
            let mut bytes = Vec::new();
            let mut task = GetTask::new(key, Into::Buffer(&mut bytes));
            let found = perform(&mut Turns(&core), shared, &mut task, deadline, attempt).await;
            let meta = task.meta;
            (number, found.map(|found| found.then(|| Value::new(bytes, meta))))
        };
        for (number, value) in block_on(join_all(waiting.into_iter().map(get))) {
            each(number, value.as_ref().map(|value| value.as_ref().map(Value::lend)).map_err(Clone::clone));
        }
    }
}

/// Stores `items`, whatever was there, and answers item by item.
pub(crate) fn put_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    core: &mut Core,
    shared: &Arc<Shared>,
    limit: Duration,
    items: &[(K, V)],
) -> Vec<Result<Option<Version>>> {
    let mut answers = Vec::with_capacity(items.len());
    while answers.len() < items.len() {
        let mut waiting = Vec::new();
        for (key, value) in together(&items[answers.len()..]) {
            let number = answers.len();
            // For one that waits, in place of its answer.
            let mut answer = Ok(None);
            match Key::new(key.as_ref()).and_then(|key| Record::new(key, value.as_ref())) {
                Ok(record) => {
                    let mut task = PutTask { record, condition: Condition::Always };
                    match begin(core, limit, &mut task) {
                        Ok(stored) => answer = stored.map(Put::version),
                        Err((deadline, attempt)) => waiting.push(Waiting { number, task, deadline, attempt }),
                    }
                }
                Err(error) => answer = Err(error.into()),
            }
            answers.push(answer);
        }
        let core = RefCell::new(&mut *core);
        let put = async |Waiting { number, mut task, deadline, attempt }| {
            (number, perform(&mut Turns(&core), shared, &mut task, deadline, attempt).await)
        };
        for (number, stored) in block_on(join_all(waiting.into_iter().map(put))) {
            answers[number] = stored.map(Put::version);
        }
    }
    answers
}

/// As many of the first `items` as go together, one at least.
fn together<K, V: AsRef<[u8]>>(items: &[(K, V)]) -> &[(K, V)] {
    let mut bytes = 0;
    let fits = |(_, value): &&(K, V)| {
        bytes += value.as_ref().len();
        bytes <= TOGETHER_BYTES_MAX
    };
    &items[..items.iter().take(TOGETHER_MAX).take_while(fits).count().max(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_values_go_alone_and_small_ones_together() {
        let items = |len: usize, count: usize| vec![((), vec![0; len]); count];
        assert_eq!(together(&items(1, 1000)).len(), TOGETHER_MAX);
        assert_eq!(together(&items(1, 5)).len(), 5);
        assert_eq!(together(&items(TOGETHER_BYTES_MAX / 2, 5)).len(), 2);
        assert_eq!(together(&items(TOGETHER_BYTES_MAX + 1, 5)).len(), 1);
    }
}
