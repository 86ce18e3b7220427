//! A call's future, and its answer.

use super::error::CallError;
use bytes::Bytes;
use farside_protocol::wire::{DecodeError, Response};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::oneshot;

/// An answer as it came: the body is a part of the buffer into which the socket was read, not a copy.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(super) kind: u8,
    pub(super) body: Bytes,
}

impl Answer {
    /// What the server said.
    pub fn response(&self) -> Result<Response<'_>, DecodeError> {
        Response::decode(self.kind, &self.body)
    }

    pub(super) fn into_result(self) -> Result<Self, CallError> {
        if !Response::is_error(self.kind) {
            return Ok(self);
        }
        match self.response()? {
            Response::Error { kind, message } => Err(CallError::Answered { kind, message: message.into() }),
            _ => Ok(self),
        }
    }
}

/// The future of a call's answer. It needs no particular executor. Dropping it only loses the answer.
#[derive(Debug)]
#[must_use = "the request was sent; await this for its answer, or use `post`"]
pub struct Call(pub(super) State);

#[derive(Debug)]
pub(super) enum State {
    /// It failed before anything was sent.
    Failed(Option<CallError>),
    Sent {
        answer: oneshot::Receiver<Result<Answer, CallError>>,
        address: Arc<crate::Address>,
    },
}

impl Future for Call {
    type Output = Result<Answer, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Failed(error) => Poll::Ready(Err(error.take().expect("polled after its end"))),
            State::Sent { answer, address } => Pin::new(answer).poll(context).map(|outcome| match outcome {
                Ok(outcome) => outcome.and_then(Answer::into_result),
                // The I/O thread ended with the call in its hands.
                Err(_) => Err(CallError::Indeterminate {
                    cause: format!("the channel to {address} was closed").into(),
                }),
            }),
        }
    }
}
