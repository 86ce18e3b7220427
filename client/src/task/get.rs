//! GET.

use super::{Attempt, Task};
use crate::core::{OneSided, Way};
use crate::stats::Operation;
use crate::value::Meta;
use farside_hashtable::{Io as _, plan};
use farside_protocol::Key;
use farside_protocol::wire::{Request, Response};
use farside_transport::drive;
use std::ops::Range;

/// Where a value goes.
pub(crate) enum Into<'a> {
    /// It stays in the buffer it was read into, if it was read one-sidedly, else it goes to `answer`.
    Lent { answer: &'a mut Vec<u8> },
    /// It is copied.
    Buffer(&'a mut Vec<u8>),
}

/// A value that was found.
pub(crate) struct Found {
    pub(crate) meta: Meta,
    /// Where it lies in the incoming buffer, if it was left there.
    pub(crate) lent: Option<Range<usize>>,
}

pub(crate) struct GetTask<'a> {
    pub(crate) key: Key<'a>,
    pub(crate) into: Into<'a>,
}

impl<'a> Task<'a> for GetTask<'a> {
    type Answer = Option<Found>;

    fn operation(&self) -> Operation {
        Operation::Get
    }

    fn key(&self) -> Key<'a> {
        self.key
    }

    #[inline]
    fn attempt(&mut self, way: &mut Way<'_>) -> Attempt<Self::Answer> {
        if !way.reads() {
            return Attempt::TwoSided;
        }
        let hint = way.hint();
        let duties = way.updates().then_some(&mut *way.duties);
        match drive(plan::get(&mut way.io, way.table, &way.op, hint, duties)) {
            Ok(Some(got)) => {
                if hint != Some(got.hint) {
                    way.remember(got.hint);
                }
                let lent = match &mut self.into {
                    Into::Lent { .. } => Some(got.value),
                    Into::Buffer(buffer) => {
                        buffer.clear();
                        buffer.extend_from_slice(&way.io.incoming()[got.value]);
                        None
                    }
                };
                let meta = Meta::new(got.version, got.expires_at_ms, got.flags);
                Attempt::Done(Ok(Some(Found { meta, lent })))
            }
            Ok(None) => {
                way.forget();
                Attempt::Done(Ok(None))
            }
            Err(failure) => Attempt::from_failure(failure),
        }
    }

    fn request(&self) -> Request<'_> {
        Request::Get { key: self.key }
    }

    fn settle(
        &mut self,
        response: &Response<'_>,
        _asked_ns: u64,
        _near: Option<&mut OneSided>,
    ) -> Option<Self::Answer> {
        match *response {
            Response::Value { version, expires_at_ms, flags, value } => {
                let (Into::Lent { answer: buffer } | Into::Buffer(buffer)) = &mut self.into;
                buffer.clear();
                buffer.extend_from_slice(value);
                Some(Some(Found { meta: Meta::new(version, expires_at_ms, flags), lent: None }))
            }
            Response::Absent => Some(None),
            _ => None,
        }
    }
}
