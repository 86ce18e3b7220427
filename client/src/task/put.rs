//! PUT, put-if-absent and compare-exchange.

use super::{Attempt, Outcome, Task, Together};
use crate::core::{OneSided, Steps, Way};
use crate::stats::Operation;
use crate::value::Put;
use farside_hashtable::Io;
use farside_hashtable::plan::{self, Failure, Lease};
use farside_protocol::wire::{Condition, Request, Response};
use farside_protocol::{Key, Record};
use farside_transport::{Fabric, drive};
use std::pin::pin;

#[derive(Clone)]
pub(crate) struct PutTask<'a> {
    pub(crate) record: Record<'a>,
    pub(crate) condition: Condition,
}

impl<'a> Task<'a> for PutTask<'a> {
    type Answer = Put;

    fn operation(&self) -> Operation {
        match self.condition {
            Condition::Always => Operation::Put,
            Condition::Absent => Operation::PutIfAbsent,
            Condition::Version(_) => Operation::CompareExchange,
        }
    }

    fn key(&self) -> Key<'a> {
        self.record.key
    }

    #[inline]
    fn attempt<F: Fabric>(&mut self, way: &mut Way<'_, F>, outcome: &mut Outcome<Put>) -> Attempt {
        let lease = match self.prepare(way, outcome) {
            Ok(lease) => lease,
            Err(attempt) => return attempt,
        };
        let stored = drive(pin!(self.plan(way.steps(), &lease)));
        self.finish(way, lease, stored, outcome)
    }

    fn request(&self) -> Request<'_> {
        let Record { key, value, expires_at_ms, .. } = self.record;
        Request::Put { key, value, expires_at_ms, condition: self.condition }
    }

    fn settle(&mut self, response: &Response<'_>, asked_ns: u64, near: Option<&mut OneSided>) -> Option<Put> {
        match *response {
            Response::Stored { version, hint } => {
                if let Some(near) = near {
                    let expires = self.record.expires_at_ms != 0;
                    near.learn(self.record.key, version, hint, self.record.len(), expires, asked_ns);
                }
                Some(version.map_or(Put::Absorbed, |version| Put::Stored { version }))
            }
            Response::Mismatch { current } => {
                if let Some(near) = near {
                    near.forget(self.record.key);
                }
                Some(Put::Mismatch { current })
            }
            _ => None,
        }
    }
}

impl<'a> Together<'a> for PutTask<'a> {
    type Held = Lease;
    type Planned = Result<plan::Put, Failure>;

    #[inline]
    fn prepare<F: Fabric>(
        &mut self,
        way: &mut Way<'_, F>,
        outcome: &mut Outcome<Put>,
    ) -> Result<Lease, Attempt> {
        let class = self.record.class();
        way.lease(class, outcome).map(|life| Lease { life, class })
    }

    #[inline]
    fn plan<I: Io>(&self, steps: Steps<'_, I>, lease: &Lease) -> impl Future<Output = Self::Planned> {
        let Steps { io, table, op, hint, duties, .. } = steps;
        plan::put(io, table, op, &self.record, self.condition, *lease, hint, duties)
    }

    #[inline]
    fn finish<F: Fabric>(
        &mut self,
        way: &mut Way<'_, F>,
        lease: Lease,
        stored: Self::Planned,
        outcome: &mut Outcome<Put>,
    ) -> Attempt {
        if !plan::Put::spends_lease(&stored) {
            way.put_back(lease.class, lease.life);
        }
        if let Ok(plan::Put::Stored { hint, .. }) = stored {
            way.remember(hint);
        } else {
            way.forget();
        }
        outcome.answer(match stored {
            Ok(plan::Put::Stored { version, .. }) => Put::Stored { version },
            Ok(plan::Put::Absorbed) => Put::Absorbed,
            Ok(plan::Put::Mismatch { current }) => Put::Mismatch { current },
            Err(failure) => return Attempt::from_failure(failure, outcome),
        })
    }
}
