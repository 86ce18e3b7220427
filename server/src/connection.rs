//! The bytes of one connection: what is read, what waits to be written, and when it is given up.

use crate::budget::Budget;
use crate::inbox::{FrameError, Inbox};
use crate::stream::Stream;
use farside_protocol::ErrorKind;
use farside_protocol::wire::{PARTING, Response};
use farside_transport::verbs::Pipe;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

/// Answers that may wait to be written before the next request is worked off: a client that does not take its
/// answers holds this much, and one answer more.
pub(crate) const OUTBOX_MAX: usize = 64 << 10;

/// How long a connection that is being closed by this side may take to let go. Closing it at once could destroy
/// the error that is still on its way.
const LINGER: Duration = Duration::from_secs(1);

/// Why a connection ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The other side closed it.
    Closed,
    /// The server is ending.
    Stopping,
    /// Nothing came for longer than the lease.
    Silent,
    /// It did not take its answers for as long.
    SlowReader,
    /// What came is no request, or none that may come now; in answer to the request with this number.
    Garbage(u64, String),
    /// There was no room for the large request with this number.
    NoRoom(u64),
    /// The socket failed.
    Io(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // A queue pair's messages, which are checked before what is in them.
            io::ErrorKind::InvalidData => Self::Garbage(PARTING, error.to_string()),
            _ => Self::Io(error),
        }
    }
}

impl From<FrameError> for End {
    fn from(error: FrameError) -> Self {
        Self::Garbage(error.id(), error.to_string())
    }
}

/// A connection.
pub(crate) struct Connection {
    stream: Stream,
    /// What came in.
    pub(crate) inbox: Inbox,
    /// What goes out with the next [`Connection::flush`].
    pub(crate) outbox: Vec<u8>,
    stopped: Pin<Box<OwnedNotified>>,
    /// Fires at some time before or at `heard` + `lease`. It is set anew only when it fires, not at every read.
    timer: Pin<Box<Sleep>>,
    heard: Instant,
    lease: Duration,
}

impl Connection {
    /// A connection that is given up when it is silent for longer than `lease`, or when `stopping` is notified.
    pub(crate) fn new(stream: Stream, inbox: Inbox, lease: Duration, stopping: Arc<Notify>) -> Self {
        let heard = Instant::now();
        Self {
            stream,
            inbox,
            outbox: Vec::new(),
            stopped: Box::pin(stopping.notified_owned()),
            timer: Box::pin(sleep_until(heard + lease)),
            heard,
            lease,
        }
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Goes on over the queue pair that `pipe` brings, if it does before the connection ends or was silent for longer
    /// than its lease.
    pub(crate) async fn go_over(&mut self, pipe: impl Future<Output = Option<Arc<Pipe>>>) -> Result<(), End> {
        let pipe = tokio::select! {
            pipe = pipe => pipe.ok_or(End::Closed)?,
            came = self.read() => {
                came?;
                return Err(End::Garbage(PARTING, "requests of this session go over its queue pair".into()));
            }
        };
        self.stream.go_over_to(pipe)?;
        self.forgive();
        Ok(())
    }

    /// Takes room for a large request that has begun to come in, and waits for it: the rest of the request does too.
    pub(crate) async fn take_room(&mut self, budget: &Budget) -> Result<(), End> {
        let Some((id, len)) = self.inbox.lacks_share() else { return Ok(()) };
        tokio::select! {
            share = budget.take(len) => self.inbox.give_share(share.ok_or(End::NoRoom(id))?),
            () = &mut self.stopped => return Err(End::Stopping),
        }
        Ok(())
    }

    /// Reads what there is, waiting for it if there is nothing.
    pub(crate) async fn read(&mut self) -> Result<(), End> {
        loop {
            tokio::select! {
                biased;
                read = self.stream.read_buf(self.inbox.make_room()) => {
                    if read? == 0 {
                        return Err(End::Closed);
                    }
                    self.heard = Instant::now();
                    return Ok(());
                }
                () = &mut self.stopped => return Err(End::Stopping),
                () = &mut self.timer => {}
            }
            let until = self.heard + self.lease;
            if until <= Instant::now() {
                return Err(End::Silent);
            }
            self.timer.as_mut().reset(until);
        }
    }

    /// Takes a silent connection for alive until a lease from now.
    pub(crate) fn forgive(&mut self) {
        self.heard = Instant::now();
        self.timer.as_mut().reset(self.heard + self.lease);
    }

    /// Writes all answers that wait. Fails if none of them moves for as long as a lease.
    pub(crate) async fn flush(&mut self) -> Result<(), End> {
        let mut rest = &self.outbox[..];
        while !rest.is_empty() {
            let written =
                timeout(self.lease, self.stream.write(rest)).await.map_err(|_| End::SlowReader)??;
            rest = &rest[written..];
        }
        self.outbox.clear();
        // One large answer should not hold its memory for as long as the connection lives.
        self.outbox.shrink_to(OUTBOX_MAX);
        Ok(())
    }

    /// Writes all answers that wait, and sees that they survive the end of this side.
    pub(crate) async fn deliver(&mut self) -> Result<(), End> {
        self.flush().await?;
        timeout(LINGER, self.stream.flush()).await.map_err(|_| End::SlowReader)??;
        Ok(())
    }

    /// Says why the connection is closed from this side, and waits for the other one to close it too: not for
    /// long, unless it shares memory, which it does until then.
    pub(crate) async fn close(&mut self, id: u64, kind: ErrorKind, message: &str, shares_memory: bool) {
        Response::Error { kind, message }.encode(id, &mut self.outbox);
        // Whatever fails here, the connection is at its end already.
        let _ = timeout(LINGER, async {
            let _ = self.flush().await;
            let _ = self.stream.shutdown().await;
            self.drain().await;
        })
        .await;
        if shares_memory {
            self.drain().await;
        }
    }

    /// Reads to the end of the connection or the server, and heeds nothing.
    pub(crate) async fn drain(&mut self) {
        loop {
            let pending = self.inbox.pending().len();
            self.inbox.advance(pending);
            match self.read().await {
                Ok(()) => {}
                Err(End::Silent) => self.forgive(),
                Err(_) => return,
            }
        }
    }
}
