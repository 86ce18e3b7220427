//! fetch-add.

use super::{Attempt, Outcome, Task};
use crate::core::{OneSided, Way};
use crate::stats::Operation;
use farside_hashtable::plan::{self, Failure, Lease};
use farside_protocol::wire::{Request, Response};
use farside_protocol::{Class, Key, record};
use farside_transport::{Fabric, drive};
use std::pin::pin;

pub(crate) struct FetchAddTask<'a> {
    pub(crate) key: Key<'a>,
    pub(crate) delta: i64,
}

impl FetchAddTask<'_> {
    fn record_len(&self) -> usize {
        record::len(self.key.as_bytes().len(), size_of::<i64>())
    }
}

impl<'a> Task<'a> for FetchAddTask<'a> {
    /// The counter before the addition.
    type Answer = i64;

    fn operation(&self) -> Operation {
        Operation::FetchAdd
    }

    fn key(&self) -> Key<'a> {
        self.key
    }

    #[inline]
    fn attempt<F: Fabric>(&mut self, way: &mut Way<'_, F>, outcome: &mut Outcome<i64>) -> Attempt {
        let class = Class::holding(self.record_len()).expect("the longest key leaves room for a counter");
        let lease = match way.lease(class, outcome) {
            Ok(life) => Lease { life, class },
            Err(attempt) => return attempt,
        };
        let hint = way.hint;
        let Way { io, table, op, duties, .. } = &mut *way;
        let added = drive(pin!(plan::fetch_add(io, table, op, self.delta, lease, hint, duties)));
        match added {
            Ok(added) => {
                way.remember(added.hint);
                outcome.answer(self.before(added.value))
            }
            Err(failure) => {
                way.forget();
                if failure != Failure::Indeterminate {
                    way.put_back(class, lease.life);
                }
                Attempt::from_failure(failure, outcome)
            }
        }
    }

    fn request(&self) -> Request<'_> {
        Request::FetchAdd { key: self.key, delta: self.delta }
    }

    fn settle(&mut self, response: &Response<'_>, asked_ns: u64, near: Option<&mut OneSided>) -> Option<i64> {
        let Response::Counter { value, version, hint } = *response else { return None };
        if let Some(near) = near {
            // A counter keeps its expiry, which the answer does not tell: taken to have one, a conditional
            // operation looks before it relies on the hint.
            near.learn(self.key, Some(version), hint, self.record_len(), true, asked_ns);
        }
        Some(self.before(value))
    }
}

impl FetchAddTask<'_> {
    /// An addition that would overflow is refused, so this gives what was there; a server that answers nonsense
    /// must not make it panic.
    fn before(&self, after: i64) -> i64 {
        after.wrapping_sub(self.delta)
    }
}
