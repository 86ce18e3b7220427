//! Batches of a session, whose values are lent.

use super::{TOGETHER_MAX, Waiting, begin};
use crate::core::Core;
use crate::error::Result;
use crate::perform::{Cores, perform};
use crate::shared::Shared;
use crate::task::{GetTask, Into, PutTask};
use crate::value::{Condition, Put, Value};
use farside_protocol::{Key, Record, Version};
use farside_transport::channel::block_on;
use futures_util::future::join_all;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

/// The most bytes of values that are sent together, unless one value alone is longer.
const TOGETHER_BYTES_MAX: usize = 4 << 20;

/// Lends a session's core to operations in turn: none of them holds it across an await.
struct Turns<'a, 'c>(&'a RefCell<&'c mut Core>);

impl Cores for Turns<'_, '_> {
    fn with<R>(&mut self, f: impl FnOnce(&mut Core) -> R) -> R {
        f(&mut self.0.borrow_mut())
    }
}

/// Looks `keys` up and hands each answer to `each`, with the number of its key.
pub(crate) fn get_many<K: AsRef<[u8]>>(
    core: &mut Core,
    shared: &Arc<Shared>,
    limit: Duration,
    keys: &[K],
    mut each: impl FnMut(usize, Result<Option<Value<&[u8]>>>),
) {
    let mut numbered = keys.iter().enumerate();
    while numbered.len() > 0 {
        let mut chosen = Vec::with_capacity(TOGETHER_MAX.min(numbered.len()));
        for (number, key) in numbered.by_ref().take(TOGETHER_MAX) {
            match Key::new(key.as_ref()) {
                Ok(key) => chosen.push((number, key)),
                Err(error) => each(number, Err(error.into())),
            }
        }
        core.touch(chosen.iter().map(|(_, key)| *key));
        let mut waiting = Vec::new();
        // Where the server's answers would go, which is not asked in a first attempt.
        let mut unused = vec![Vec::new(); chosen.len()];
        let mut tasks: Vec<_> = (chosen.iter().zip(&mut unused))
            .map(|((_, key), answer)| GetTask::new(*key, Into::Lent { answer }))
            .collect();
        begin(core, limit, &mut tasks, |index, task, begun, read| {
            let (number, key) = chosen[index];
            match begun {
                Ok(found) => {
                    let value =
                        || Value::new(task.lent.clone().map_or(&[][..], |lent| &read[lent]), task.meta);
                    each(number, found.map(|found| found.then(value)));
                }
                Err((deadline, attempt)) => waiting.push(Waiting { number, task: key, deadline, attempt }),
            }
        });
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
        let (mut waiting, mut chosen, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
        for (key, value) in together(&items[answers.len()..]) {
            // For one that waits, in place of its answer.
            let mut answer = Ok(None);
            match Key::new(key.as_ref()).and_then(|key| Record::new(key, value.as_ref())) {
                Ok(record) => {
                    chosen.push(answers.len());
                    tasks.push(PutTask { record, condition: Condition::Always });
                }
                Err(error) => answer = Err(error.into()),
            }
            answers.push(answer);
        }
        begin(core, limit, &mut tasks, |index, task, begun, _| match (chosen[index], begun) {
            (number, Ok(stored)) => answers[number] = stored.map(Put::version),
            (number, Err((deadline, attempt))) => {
                waiting.push(Waiting { number, task: task.clone(), deadline, attempt });
            }
        });
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
