//! DELETE, conditional or not.

use super::{Attempt, Outcome, Task};
use crate::core::{OneSided, Way};
use crate::stats::Operation;
use crate::value::Delete;
use farside_hashtable::plan;
use farside_protocol::Key;
use farside_protocol::wire::{Condition, Request, Response};
use farside_transport::{Fabric, drive};
use std::pin::pin;

pub(crate) struct DeleteTask<'a> {
    pub(crate) key: Key<'a>,
    /// Never [`Condition::Absent`].
    pub(crate) condition: Condition,
}

impl<'a> Task<'a> for DeleteTask<'a> {
    type Answer = Delete;

    fn operation(&self) -> Operation {
        Operation::Delete
    }

    fn key(&self) -> Key<'a> {
        self.key
    }

    #[inline]
    fn attempt<F: Fabric>(&mut self, way: &mut Way<'_, F>, outcome: &mut Outcome<Delete>) -> Attempt {
        if !way.updates() {
            return Attempt::TwoSided;
        }
        let hint = way.hint;
        way.forget();
        let deleted =
            drive(pin!(plan::delete(&mut way.io, way.table, &way.op, self.condition, hint, way.duties)));
        outcome.answer(match deleted {
            Ok(plan::Delete::Deleted) => Delete::Deleted,
            Ok(plan::Delete::Mismatch { current: Some(current) }) => Delete::Mismatch { current },
            Ok(plan::Delete::Absent | plan::Delete::Mismatch { current: None }) => Delete::Absent,
            Err(failure) => return Attempt::from_failure(failure, outcome),
        })
    }

    fn request(&self) -> Request<'_> {
        Request::Delete { key: self.key, condition: self.condition }
    }

    fn settle(
        &mut self,
        response: &Response<'_>,
        _asked_ns: u64,
        near: Option<&mut OneSided>,
    ) -> Option<Delete> {
        if let Some(near) = near {
            near.forget(self.key);
        }
        match *response {
            Response::Deleted { existed: true } => Some(Delete::Deleted),
            Response::Deleted { existed: false } | Response::Mismatch { current: None } => {
                Some(Delete::Absent)
            }
            Response::Mismatch { current: Some(current) } => Some(Delete::Mismatch { current }),
            _ => None,
        }
    }
}
