//! Batches of a client. Each of its cores begins with what is at home there.

use super::{TOGETHER_MAX, Waiting, begin};
use crate::error::Result;
use crate::perform::perform;
use crate::pool::Pooled;
use crate::shared::Shared;
use crate::task::{GetTask, Into, PutTask};
use crate::value::{Condition, Put, Value};
use farside_protocol::{Key, Record, Version};
use futures_util::{StreamExt as _, stream};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

/// Looks `keys` up.
pub(crate) async fn get_all<K: AsRef<[u8]>>(
    shared: &Arc<Shared>,
    limit: Duration,
    keys: &[K],
) -> Vec<Result<Option<Value>>> {
    let mut answers: Vec<_> = keys.iter().map(|_| Ok(None)).collect();
    let keys = keys.iter().map(|key| Ok(Key::new(key.as_ref())?));
    let mut waiting = Vec::new();
    for group in at_home(shared, keys, |key| *key, &mut answers) {
        let mut buffers = vec![Vec::new(); group.len()];
        let mut tasks: Vec<_> = (group.iter().zip(&mut buffers))
            .map(|((_, key), buffer)| GetTask::new(*key, Into::Buffer(buffer)))
            .collect();
        let mut found = Vec::with_capacity(group.len());
        Pooled::new(shared, group[0].1).with_home_or_free(|core| {
            core.touch(group.iter().map(|(_, key)| *key));
            begin(core, limit, &mut tasks, |index, task, begun, _| {
                let (number, key) = group[index];
                match begun {
                    Ok(outcome) => found.push((index, outcome.map(|found| found.then_some(task.meta)))),
                    Err((deadline, attempt)) => {
                        waiting.push(Waiting { number, task: key, deadline, attempt });
                    }
                }
            });
        });
        drop(tasks);
        for (index, outcome) in found {
            let value = |meta| Value::new(mem::take(&mut buffers[index]), meta);
            answers[group[index].0] = outcome.map(|found| found.map(value));
        }
    }
    let get = async |Waiting { number, task: key, deadline, attempt }| {
        let mut bytes = Vec::new();
        let mut task = GetTask::new(key, Into::Buffer(&mut bytes));
        let found = perform(&mut Pooled::new(shared, key), shared, &mut task, deadline, attempt).await;
        let meta = task.meta;
        (number, found.map(|found| found.then(|| Value::new(bytes, meta))))
    };
    let mut waiting = stream::iter(waiting).map(get).buffer_unordered(TOGETHER_MAX);
    while let Some((number, value)) = waiting.next().await {
        answers[number] = value;
    }
    answers
}

/// Stores `items`, whatever was there.
pub(crate) async fn put_all<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    shared: &Arc<Shared>,
    limit: Duration,
    items: &[(K, V)],
) -> Vec<Result<Option<Version>>> {
    let mut answers: Vec<_> = items.iter().map(|_| Ok(None)).collect();
    let tasks = items.iter().map(|(key, value)| {
        let record = Record::new(Key::new(key.as_ref())?, value.as_ref())?;
        Ok(PutTask { record, condition: Condition::Always })
    });
    let mut waiting = Vec::new();
    for group in at_home(shared, tasks, |task| task.record.key, &mut answers) {
        let (numbers, mut tasks): (Vec<_>, Vec<_>) = group.into_iter().unzip();
        let mut cores = Pooled::new(shared, tasks[0].record.key);
        cores.with_home_or_free(|core| {
            begin(core, limit, &mut tasks, |index, task, begun, _| match (numbers[index], begun) {
                (number, Ok(stored)) => answers[number] = stored.map(Put::version),
                (number, Err((deadline, attempt))) => {
                    waiting.push(Waiting { number, task: task.clone(), deadline, attempt });
                }
            });
        });
    }
    let put = async |Waiting { number, mut task, deadline, attempt }: Waiting<PutTask<'_>>| {
        let mut cores = Pooled::new(shared, task.record.key);
        (number, perform(&mut cores, shared, &mut task, deadline, attempt).await)
    };
    let mut waiting = stream::iter(waiting).map(put).buffer_unordered(TOGETHER_MAX);
    while let Some((number, stored)) = waiting.next().await {
        answers[number] = stored.map(Put::version);
    }
    answers
}

/// Groups `items` by the core at which the `key` of each is at home, each with its number. What is none has its answer.
fn at_home<'a, T, A>(
    shared: &Shared,
    items: impl Iterator<Item = Result<T>>,
    key: impl Fn(&T) -> Key<'a>,
    answers: &mut [Result<A>],
) -> Vec<Vec<(usize, T)>> {
    let mut homes: Vec<Vec<_>> = (0..shared.pool().len()).map(|_| Vec::new()).collect();
    let mut full = Vec::new();
    for (number, item) in items.enumerate() {
        match item {
            Ok(item) => {
                let home = &mut homes[shared.pool().home(key(&item))];
                home.push((number, item));
                if home.len() == TOGETHER_MAX {
                    full.push(mem::take(home));
                }
            }
            Err(error) => answers[number] = Err(error),
        }
    }
    full.extend(homes.into_iter().filter(|home| !home.is_empty()));
    full
}
