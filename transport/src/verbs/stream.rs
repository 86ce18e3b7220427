//! A [`Pipe`] in an event loop. An idle one sleeps until its device has something to tell.

use super::pipe::{Direction, Pipe, Ready};
use bytes::BufMut;
use farside_verbs_sys::CompletionQueue;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// A stream of bytes each way over a queue pair. Any thread may try to read and write; only one task may wait.
#[derive(Debug)]
pub struct Stream {
    pipe: Arc<Pipe>,
    received: Events,
    sent: Events,
}

/// Where a completion queue tells that something has completed.
#[derive(Debug)]
struct Events {
    source: AsyncFd<Source>,
    /// Whether an event has been asked for and not come.
    requested: AtomicBool,
}

#[derive(Debug)]
struct Source(Arc<CompletionQueue>);

impl AsRawFd for Source {
    fn as_raw_fd(&self) -> RawFd {
        let fd = self.0.event_fd().expect("a pipe's queues have events");
        fd.as_fd().as_raw_fd()
    }
}

impl Events {
    fn of(queue: &Arc<CompletionQueue>) -> io::Result<Self> {
        #[expect(
            deprecated,
            reason = "what is to take its place is unsafe; a queue keeps its descriptor open"
        )]
        let source = AsyncFd::with_interest(Source(Arc::clone(queue)), Interest::READABLE)?;
        Ok(Self { source, requested: AtomicBool::new(false) })
    }

    /// Ready when the queue is to be looked at once more: something may have completed, or an event was asked for only
    /// now, and of what completed before there is none.
    fn poll(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let queue = &self.source.get_ref().0;
        if !self.requested.swap(true, Ordering::Relaxed) {
            return Poll::Ready(queue.request_event().map_err(io::Error::other));
        }
        let mut readable = ready!(self.source.poll_read_ready(context))?;
        queue.take_events().map_err(io::Error::other)?;
        readable.clear_ready();
        self.requested.store(false, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl Stream {
    /// In the event loop of the runtime that this is called in.
    pub fn new(pipe: Arc<Pipe>) -> io::Result<Self> {
        let (received, sent) = pipe.queues();
        let (received, sent) = (Events::of(received)?, Events::of(sent)?);
        Ok(Self { pipe, received, sent })
    }

    /// Reads what is there into the room that `into` has; 0: the connection has ended.
    pub fn try_read(&self, into: &mut impl BufMut) -> io::Result<usize> {
        self.pipe.try_read(into)
    }

    /// Sends what the peer takes of `bytes` now.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.pipe.try_write(bytes)
    }

    /// Ready when there is something to read, or the connection has ended.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_ready(Direction::Read, context)
    }

    /// Ready when something can be written, or the connection has ended.
    pub fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_ready(Direction::Write, context)
    }

    fn poll_ready(&self, direction: Direction, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.pipe.ready(direction, context) {
                Ready::Yes => return Poll::Ready(Ok(())),
                Ready::AfterReceive => ready!(self.received.poll(context))?,
                Ready::AfterSend => ready!(self.sent.poll(context))?,
            }
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match self.try_read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                outcome => return Poll::Ready(outcome.map(drop)),
            }
            ready!(self.poll_readable(context))?;
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.try_write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                outcome => return Poll::Ready(outcome),
            }
            ready!(self.poll_writable(context))?;
        }
    }

    /// Ready when all that was written has reached the peer's device, or the connection has ended.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.pipe.delivered() {
            ready!(self.sent.poll(context))?;
        }
        Poll::Ready(Ok(()))
    }

    /// As [`poll_flush`](Self::poll_flush): a queue pair ends both ways at once.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}
