//! The operations, each in the three ways it is carried out: one-sidedly by a plan, by asking the server, and in
//! what order these are tried.

mod delete;
mod fetch_add;
mod get;
mod put;

pub(crate) use delete::DeleteTask;
pub(crate) use fetch_add::FetchAddTask;
pub(crate) use get::{GetTask, Into};
pub(crate) use put::PutTask;

use crate::core::{OneSided, Steps, Way};
use crate::error::{Error, Result};
use crate::stats::Operation;
use farside_hashtable::Io;
use farside_hashtable::plan::Failure;
use farside_protocol::Key;
use farside_protocol::wire::{Request, Response};
use farside_transport::{Fabric, clock};
use std::time::{Duration, Instant};

/// One operation on its way.
pub(crate) trait Task<'a> {
    /// What it is answered with.
    type Answer;

    /// Under which name it is counted.
    fn operation(&self) -> Operation;

    /// The key.
    fn key(&self) -> Key<'a>;

    /// Tries it one-sidedly, to the way's deadline at the latest. Holds the thread for no longer.
    fn attempt<F: Fabric>(&mut self, way: &mut Way<'_, F>, outcome: &mut Outcome<Self::Answer>) -> Attempt;

    /// The same as a request to the server.
    fn request(&self) -> Request<'_>;

    /// Takes in the server's answer to it, which was asked at `asked_ns`; `near` learns where the record is.
    fn settle(
        &mut self,
        response: &Response<'_>,
        asked_ns: u64,
        near: Option<&mut OneSided>,
    ) -> Option<Self::Answer>;
}

/// An operation of which several can be tried at once, their plans side by side.
pub(crate) trait Together<'a>: Task<'a> {
    /// What it holds while its plan runs.
    type Held;
    /// What its plan comes to.
    type Planned;

    /// Takes what the plan needs.
    fn prepare<F: Fabric>(
        &mut self,
        way: &mut Way<'_, F>,
        outcome: &mut Outcome<Self::Answer>,
    ) -> std::result::Result<Self::Held, Attempt>;

    /// The plan.
    fn plan<I: Io>(&self, steps: Steps<'_, I>, held: &Self::Held) -> impl Future<Output = Self::Planned>;

    /// Takes in what the plan came to.
    fn finish<F: Fabric>(
        &mut self,
        way: &mut Way<'_, F>,
        held: Self::Held,
        planned: Self::Planned,
        outcome: &mut Outcome<Self::Answer>,
    ) -> Attempt;
}

/// Where an attempt that is done leaves its answer, or else the error. A place and no return value, and one for each
/// of the two, for what is returned is moved, and parts that have just been written stall the processor when they
/// are moved as a whole.
pub(crate) struct Outcome<T> {
    answer: Option<T>,
    error: Option<Error>,
}

impl<T> Outcome<T> {
    /// Of an operation that is not done.
    #[inline]
    pub(crate) const fn unknown() -> Self {
        Self { answer: None, error: None }
    }

    /// The operation ended well.
    #[inline]
    pub(crate) fn answer(&mut self, answer: T) -> Attempt {
        self.answer = Some(answer);
        Attempt::Done
    }

    /// The operation ended with an error.
    #[cold]
    pub(crate) fn fail(&mut self, error: Error) -> Attempt {
        self.error = Some(error);
        Attempt::Done
    }

    /// Whether the operation ended well.
    #[inline]
    pub(crate) fn is_answer(&self) -> bool {
        self.answer.is_some()
    }

    /// Takes out what was left.
    ///
    /// # Panics
    /// If nothing was.
    #[inline]
    pub(crate) fn take(&mut self) -> Result<T> {
        match self.answer.take() {
            Some(answer) => Ok(answer),
            None => Err(self.error.take().expect("an attempt that is done has an outcome")),
        }
    }
}

/// What came of an attempt.
#[derive(Clone, Copy)]
pub(crate) enum Attempt {
    /// The outcome is known.
    Done,
    /// The time of this attempt was not enough. Nothing was changed.
    Unfinished,
    /// It needs a block, which the server was asked for. The number tells how often its core had taken in leases: when
    /// it has done so again there may be one.
    Lease(u64),
    /// It needs a block, and the server has none to give for a while.
    Later(Duration),
    /// It is the server's to do.
    TwoSided,
    /// The connection is known to be broken. Nothing was changed.
    Broken,
}

impl Attempt {
    /// What a plan's failure means for its operation.
    #[cold]
    pub(crate) fn from_failure<T>(failure: Failure, outcome: &mut Outcome<T>) -> Self {
        outcome.fail(match failure {
            Failure::Deadline => return Self::Unfinished,
            // Of a damaged record the server is to know, which drops it.
            Failure::Contended | Failure::Corrupt => return Self::TwoSided,
            Failure::Indeterminate => Error::Indeterminate("the connection broke".into()),
            Failure::Full => Error::IndexFull,
            Failure::NotACounter => Error::NotACounter,
            Failure::Overflow => Error::Overflow,
        })
    }
}

/// When an operation must have ended, on the clock of [`clock::coarse_ns`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    limit_ns: u64,
    began_ns: u64,
}

/// The time of one attempt, on the same clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    pub(crate) began_ns: u64,
    pub(crate) until_ns: u64,
    /// When the operation must have ended. What was posted on a network is waited for until then: given up earlier, a
    /// change would be indeterminate.
    pub(crate) end_ns: u64,
}

/// How long the first attempt of an operation may take, which holds a thread that may be an executor's, and which
/// would not notice a broken connection. What takes longer is not another client's step but its being paused.
const SLICE_NS: u64 = 10_000_000;
/// A slice doubles from attempt to attempt, so that a thread that gets little of the processor, or moves much,
/// gets done as well.
const SLICE_DOUBLINGS_MAX: u32 = 8;
/// The longest limit, three hundred years, and nothing to overflow.
const LIMIT_NS_MAX: u64 = 1 << 63;

impl Deadline {
    /// `limit` from now on.
    #[inline]
    pub(crate) fn after(limit: Duration) -> Self {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(LIMIT_NS_MAX).min(LIMIT_NS_MAX);
        Self { limit_ns, began_ns: clock::coarse_ns() }
    }

    /// The time of the first attempt.
    #[inline]
    pub(crate) fn first_slice(&self) -> Slice {
        let until_ns = self.began_ns + self.limit_ns.min(SLICE_NS);
        Slice { began_ns: self.began_ns, until_ns, end_ns: self.began_ns + self.limit_ns }
    }

    /// The time of an attempt that begins now, after `rounds` others.
    pub(crate) fn slice(&self, rounds: u32) -> Slice {
        let slice_ns = SLICE_NS << rounds.min(SLICE_DOUBLINGS_MAX);
        let began_ns = clock::coarse_ns();
        let end_ns = self.began_ns + self.limit_ns;
        Slice { began_ns, until_ns: (began_ns + slice_ns).min(end_ns), end_ns }
    }

    pub(crate) fn left(&self) -> Duration {
        Duration::from_nanos((self.began_ns + self.limit_ns).saturating_sub(clock::coarse_ns()))
    }

    /// The same moment on the standard library's clock.
    pub(crate) fn instant(&self) -> Instant {
        // What is further away than a year will do as never.
        const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
        Instant::now() + self.left().min(YEAR)
    }

    pub(crate) fn error(&self) -> Error {
        Error::Deadline(Duration::from_nanos(self.limit_ns))
    }
}
