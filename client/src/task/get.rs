//! GET.

use super::{Attempt, Outcome, Task, Together};
use crate::core::{OneSided, Steps, Way};
use crate::stats::Operation;
use crate::value::Meta;
use farside_hashtable::Io;
use farside_hashtable::plan::{self, Failure, Got};
use farside_protocol::wire::{Request, Response};
use farside_protocol::{Key, Version};
use farside_transport::{Fabric, drive};
use std::ops::Range;
use std::pin::pin;

/// Where a value goes.
pub(crate) enum Into<'a> {
    /// It stays in the buffer it was read into, if it was read one-sidedly, else it goes to `answer`.
    Lent { answer: &'a mut Vec<u8> },
    /// It is copied.
    Buffer(&'a mut Vec<u8>),
}

/// The answer says whether a value was found; what else there is to tell is left here, each part where it is read.
pub(crate) struct GetTask<'a> {
    pub(crate) key: Key<'a>,
    pub(crate) into: Into<'a>,
    /// Of the value that was found.
    pub(crate) meta: Meta,
    /// Where the value lies in the incoming buffer, if it was left there.
    pub(crate) lent: Option<Range<usize>>,
}

impl<'a> GetTask<'a> {
    #[inline]
    pub(crate) const fn new(key: Key<'a>, into: Into<'a>) -> Self {
        Self { key, into, meta: Meta::new(Version::from_bits(0), 0, 0), lent: None }
    }

    /// Takes in what was found.
    #[inline]
    fn take_in<F: Fabric>(&mut self, way: &mut Way<'_, F>, got: Got) {
        if let Some(hint) = got.hint {
            way.remember(hint);
        }
        match &mut self.into {
            Into::Lent { .. } => self.lent = Some(got.value),
            Into::Buffer(buffer) => {
                buffer.clear();
                buffer.extend_from_slice(&way.io.incoming()[got.value]);
            }
        }
        self.meta = Meta::new(got.version, got.expires_at_ms, got.flags);
    }

    #[cold]
    fn attempt_cold<F: Fabric>(&mut self, way: &mut Way<'_, F>, outcome: &mut Outcome<bool>) -> Attempt {
        let Steps { io, table, op, duties, updates, .. } = way.steps();
        let got = drive(pin!(plan::get_cold(io, table, op, updates.then_some(duties))));
        self.finish(way, (), got, outcome)
    }
}

impl<'a> Task<'a> for GetTask<'a> {
    type Answer = bool;

    fn operation(&self) -> Operation {
        Operation::Get
    }

    fn key(&self) -> Key<'a> {
        self.key
    }

    #[inline]
    fn attempt<F: Fabric>(&mut self, way: &mut Way<'_, F>, outcome: &mut Outcome<Self::Answer>) -> Attempt {
        if !way.reads() {
            return Attempt::TwoSided;
        }
        if let Some(hint) = &way.hint
            && let Some(got) = drive(plan::get_warm(&mut way.io, way.table, &way.op, hint))
        {
            self.take_in(way, got);
            return outcome.answer(true);
        }
        self.attempt_cold(way, outcome)
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
                self.meta = Meta::new(version, expires_at_ms, flags);
                Some(true)
            }
            Response::Absent => Some(false),
            _ => None,
        }
    }
}

impl<'a> Together<'a> for GetTask<'a> {
    type Held = ();
    type Planned = Result<Option<Got>, Failure>;

    fn prepare<F: Fabric>(&mut self, way: &mut Way<'_, F>, _: &mut Outcome<bool>) -> Result<(), Attempt> {
        if way.reads() { Ok(()) } else { Err(Attempt::TwoSided) }
    }

    fn plan<I: Io>(&self, steps: Steps<'_, I>, (): &()) -> impl Future<Output = Self::Planned> {
        let Steps { io, table, op, hint, duties, updates } = steps;
        async move { plan::get(io, table, op, hint.as_ref(), updates.then_some(duties)).await }
    }

    fn finish<F: Fabric>(
        &mut self,
        way: &mut Way<'_, F>,
        (): (),
        got: Self::Planned,
        outcome: &mut Outcome<bool>,
    ) -> Attempt {
        outcome.answer(match got {
            Ok(Some(got)) => {
                self.take_in(way, got);
                true
            }
            Ok(None) => {
                way.forget();
                false
            }
            Err(failure) => return Attempt::from_failure(failure, outcome),
        })
    }
}
