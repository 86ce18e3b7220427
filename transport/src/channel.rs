//! The two-sided path: requests and answers over one TCP connection or Unix socket, or over one RDMA queue pair.
//!
//! ```text
//! any thread, any executor                       the I/O thread
//!
//! call, post --> Outstanding: outbox ----------> writer --> socket or queue pair
//!                             calls by id <----- reader <--
//! Call (future) <-- answer or error              clock: deadlines, keepalive
//!                                                supervisor: connects again when a later call wants it
//! ```
//! Requests that come while a write is under way go out together in the next one. A call ends by its deadline,
//! whatever the server does; dropping its future only loses the answer.
//!
//! A session with queue pairs is opened over a socket, and goes on over a queue pair for its messages alone; the socket
//! stays as a sign of life. When either ends, so does the session.
//!
//! What a broken connection or a deadline means for a call: if its request was not handed to kernel or device whole, it
//! had no effect ([`ErrorKind::Unavailable`](farside_protocol::ErrorKind::Unavailable),
//! [`Deadline`](farside_protocol::ErrorKind::Deadline)). Otherwise a change may have happened
//! ([`Indeterminate`](farside_protocol::ErrorKind::Indeterminate)).

mod block_on;
mod call;
mod clock;
mod connect;
mod connection;
mod error;
mod handshake;
mod io_thread;
mod outstanding;
mod shared;

pub use block_on::block_on;
pub use call::{Answer, Call};
pub use error::{CallError, ConnectError};
pub use handshake::Memory;
pub use io_thread::IoThread;
pub use shared::{Lifeline, Pulse};

use crate::address::Address;
use crate::verbs::{Dial, Rdma, SetupError};
use farside_protocol::wire::{Request, Rights, Wants, Welcome};
use shared::{Ending, Shared};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How to open a channel.
#[derive(Clone)]
pub struct Options {
    /// Where.
    pub address: Address,
    /// The secret in the server's token file; empty: none.
    pub token: Vec<u8>,
    /// What the session wants to do.
    pub rights: Rights,
    /// What to ask for beside messages. A session with the shards' memory or with queue pairs is never opened anew
    /// behind its owner's back: what came with it belongs to the old one.
    pub wants: Wants,
    /// How queue pairs are made, if they are wanted.
    pub rdma: Rdma,
    /// What the client calls itself in the server's log.
    pub name: String,
    /// How long the server may take to accept a connection and the session.
    pub connect_timeout: Duration,
}

impl Options {
    /// A session that reads and writes, without a token, that waits for 5 s.
    pub fn new(address: Address) -> Self {
        Self {
            address,
            token: Vec::new(),
            rights: Rights::ReadWrite,
            wants: Wants::Messages,
            rdma: Rdma::default(),
            name: String::new(),
            connect_timeout: Duration::from_secs(5),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("address", &self.address)
            .field("token", &if self.token.is_empty() { "none" } else { "given" })
            .field("rights", &self.rights)
            .field("wants", &self.wants)
            .field("rdma", &self.rdma)
            .field("name", &self.name)
            .field("connect_timeout", &self.connect_timeout)
            .finish()
    }
}

/// An open session's two-sided path. Clones share it; it closes with the last of them.
#[derive(Clone, Debug)]
pub struct Channel {
    // Before the thread, which it needs for its orderly end.
    ending: Arc<Ending>,
    _thread: Arc<IoThread>,
}

impl Channel {
    /// Connects and opens a session. The descriptors of the shards' memory come with it if they were asked for.
    pub async fn connect(
        thread: &Arc<IoThread>,
        options: Options,
    ) -> Result<(Self, Option<Memory>), ConnectError> {
        let address = options.address.clone();
        let (shared, memory) =
            thread.run(connection::open(options)).await.unwrap_or(Err(ConnectError::Stopped { address }))?;
        Ok((Self { ending: Arc::new(Ending(shared)), _thread: Arc::clone(thread) }, memory))
    }

    /// [`Channel::connect`] for callers without an executor.
    pub fn connect_blocking(
        thread: &Arc<IoThread>,
        options: Options,
    ) -> Result<(Self, Option<Memory>), ConnectError> {
        block_on(Self::connect(thread, options))
    }

    fn shared(&self) -> &Shared {
        &self.ending.0
    }

    /// Sends `request`, at once and not when the future is polled, and returns its answer's future. The answer
    /// [`Response::Error`](farside_protocol::wire::Response::Error) becomes a [`CallError`].
    pub fn call(&self, request: &Request<'_>, deadline: Instant) -> Call {
        self.shared().call(request, deadline)
    }

    /// [`Channel::call`] for callers without an executor. Blocks to the deadline at most.
    pub fn call_blocking(&self, request: &Request<'_>, deadline: Instant) -> Result<Answer, CallError> {
        block_on(self.call(request, deadline))
    }

    /// Sends `request` without waiting for its answer. What goes wrong later is kept for
    /// [`Channel::take_post_failure`].
    pub fn post(&self, request: &Request<'_>, deadline: Instant) -> Result<(), CallError> {
        self.shared().post(request, deadline)
    }

    /// How many posted requests failed since this was last asked, and why the first of them did.
    pub fn take_post_failure(&self) -> Option<(u64, CallError)> {
        self.shared().take_post_failure()
    }

    /// What the server said when it accepted the current session, or the last one.
    pub fn welcome(&self) -> Arc<Welcome> {
        self.shared().welcome()
    }

    /// The way to the server's RDMA device, for a session that asked for queue pairs.
    pub(crate) fn dial(&self) -> Result<Dial, SetupError> {
        let Options { connect_timeout, rdma, .. } = &self.shared().options;
        Dial::to(&self.welcome(), *connect_timeout, rdma.clone())
    }

    /// Whether the connection stands, as far as is known.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.shared().is_up()
    }

    /// Tells whether the session still stands.
    pub fn pulse(&self) -> Pulse {
        self.shared().pulse()
    }

    /// How often the session was opened anew after its connection broke.
    pub fn reconnects(&self) -> u64 {
        self.shared().reconnects()
    }

    /// Closes the channel for all its clones; calls without an answer fail.
    pub fn close(&self) {
        self.shared().close("this client closed it");
    }
}

#[cfg(test)]
pub(crate) mod tests;
