//! What callers and the I/O thread share: the state of the link and the outstanding calls, behind one lock that
//! is never held over I/O that waits.

use super::Options;
use super::call::{Answer, Call, State as CallState};
use super::connect::Stream;
use super::error::CallError;
use super::outstanding::{Effect, Outbox, Outstanding, Reply};
use crate::address::Address;
use crate::clock::coarse_ns;
use farside_protocol::limits::VALUE_LEN_MAX;
use farside_protocol::record::SizeError;
use farside_protocol::wire::{LIVES_MAX, Request, Welcome};
use parking_lot::{Mutex, MutexGuard};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};

/// Most bytes that may wait for a server which does not take them; a call beyond fails at once.
const UNSENT_MAX: u64 = 256 << 20;

/// Longest request that a caller's thread writes itself, bytes: the lock is held for as long as the copy takes.
const ALONE_MAX: u64 = 64 << 10;

/// A lease shorter than three of these is kept as well as can be.
const KEEPALIVE_MIN: Duration = Duration::from_millis(10);

#[derive(Debug)]
enum Link {
    Up(Arc<Stream>),
    /// Broken, and not to be tried again before `retry_at`.
    Down {
        cause: Arc<str>,
        retry_at: Instant,
    },
    /// A call wants it up again.
    Connecting,
    Closed {
        cause: Arc<str>,
    },
}

#[derive(Debug)]
struct State {
    link: Link,
    outstanding: Outstanding,
    welcome: Arc<Welcome>,
    /// No deadline of an outstanding call is earlier.
    next_sweep: Option<Instant>,
    last_sent: Instant,
    post_failures: u64,
    post_failure: Option<CallError>,
    reconnects: u64,
}

/// See the module's head.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) options: Options,
    address: Arc<Address>,
    up: Arc<Up>,
    state: Mutex<State>,
    /// The outbox is not empty any more.
    pub(super) writer: Notify,
    /// A call wants the link up.
    wanted: Notify,
    /// The channel was closed.
    closing: Notify,
    /// There is an earlier deadline.
    pub(super) clock: Notify,
}

/// Closes the channel when its last handle goes.
#[derive(Debug)]
pub(super) struct Ending(pub(super) Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.close("this client closed it");
    }
}

/// Keeps a session's socket open until what depends on the session is gone.
///
/// The server takes the end of the connection as proof that this process does not touch the memory it was passed
/// any more. So whoever maps that memory holds this and drops it after the mapping.
#[derive(Debug)]
pub struct Lifeline {
    up: Arc<Up>,
    _socket: OwnedFd,
}

impl Lifeline {
    /// Whether the session stands, as far as is known. Once it does not it never will again, and the memory
    /// should be let go.
    #[inline]
    pub fn is_intact(&self) -> bool {
        self.up.get()
    }
}

/// Tells whether a session still stands, to those who use it without asking the server.
#[derive(Clone, Debug)]
pub struct Pulse {
    up: Arc<Up>,
    /// How old the last answer may be.
    lease_ns: u64,
}

impl Pulse {
    /// Whether the session stands, as far as is known. That of a server that is stopped does.
    #[inline]
    pub fn is_up(&self) -> bool {
        self.up.get()
    }

    /// Whether the session stands, as far as is known, and cannot have run out: a process that was stopped for long
    /// finds by its clock that its session may be over, before it is told so.
    #[inline]
    pub fn is_felt(&self) -> bool {
        let heard_ns = self.up.heard_ns.load(Ordering::Relaxed);
        self.up.get() && coarse_ns().saturating_sub(heard_ns) < self.lease_ns
    }
}

/// Whether the link is up, as far as is known: a hint, which orders nothing. On a cache line of its own, since
/// each one-sided operation looks at it.
#[derive(Debug)]
#[repr(align(64))]
struct Up {
    up: AtomicBool,
    /// When the last answer came, on the clock of [`coarse_ns`].
    heard_ns: AtomicU64,
}

impl Up {
    fn new() -> Self {
        Self { up: AtomicBool::new(true), heard_ns: AtomicU64::new(coarse_ns()) }
    }

    #[inline]
    fn get(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }

    /// Seen by whoever finds that the memory was let go after it.
    fn set(&self, up: bool) {
        self.up.store(up, Ordering::SeqCst);
    }

    fn heard(&self) {
        self.heard_ns.store(coarse_ns(), Ordering::Relaxed);
    }
}

impl Shared {
    pub(super) fn new(options: Options, welcome: Welcome, stream: Arc<Stream>) -> Self {
        Self {
            address: Arc::new(options.address.clone()),
            options,
            up: Arc::new(Up::new()),
            state: Mutex::new(State {
                link: Link::Up(stream),
                outstanding: Outstanding::default(),
                welcome: Arc::new(welcome),
                next_sweep: None,
                last_sent: Instant::now(),
                post_failures: 0,
                post_failure: None,
                reconnects: 0,
            }),
            writer: Notify::new(),
            wanted: Notify::new(),
            closing: Notify::new(),
            clock: Notify::new(),
        }
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(super) fn welcome(&self) -> Arc<Welcome> {
        Arc::clone(&self.state.lock().welcome)
    }

    #[inline]
    pub(super) fn is_up(&self) -> bool {
        self.up.get()
    }

    pub(super) fn pulse(&self) -> Pulse {
        // A Ping is sent in each third of the lease, and its answer comes within another or not at all.
        let lease_ms = u64::from(self.welcome().lease_ms);
        Pulse { up: Arc::clone(&self.up), lease_ns: lease_ms * 1_000_000 / 3 * 2 }
    }

    pub(super) fn lifeline(&self, socket: OwnedFd) -> Lifeline {
        Lifeline { up: Arc::clone(&self.up), _socket: socket }
    }

    pub(super) fn reconnects(&self) -> u64 {
        self.state.lock().reconnects
    }

    pub(super) fn call(&self, request: &Request<'_>, deadline: Instant) -> Call {
        let (sender, answer) = oneshot::channel();
        Call(match self.submit(request, deadline, Reply::Caller(sender)) {
            Ok(()) => CallState::Sent { answer, address: Arc::clone(&self.address) },
            Err(error) => CallState::Failed(Some(error)),
        })
    }

    pub(super) fn post(&self, request: &Request<'_>, deadline: Instant) -> Result<(), CallError> {
        self.submit(request, deadline, Reply::Posted)
    }

    pub(super) fn take_post_failure(&self) -> Option<(u64, CallError)> {
        let mut state = self.state.lock();
        let failure = state.post_failure.take()?;
        Some((std::mem::take(&mut state.post_failures), failure))
    }

    fn submit(&self, request: &Request<'_>, deadline: Instant, reply: Reply) -> Result<(), CallError> {
        check(request)?;
        let now = Instant::now();
        if deadline <= now {
            return Err(CallError::Deadline(Arc::clone(&self.address)));
        }
        let mut state = self.state.lock();
        match &state.link {
            Link::Up(_) | Link::Connecting => {}
            Link::Down { retry_at, .. } if *retry_at <= now => {
                state.link = Link::Connecting;
                self.wanted.notify_one();
            }
            Link::Down { cause, .. } | Link::Closed { cause } => {
                return Err(CallError::Unavailable { cause: Arc::clone(cause) });
            }
        }
        if state.outstanding.unsent() > UNSENT_MAX {
            let cause = format!("{} has left {} MiB of requests unread", self.address, UNSENT_MAX >> 20);
            return Err(CallError::Unavailable { cause: cause.into() });
        }
        state.last_sent = now;
        self.push(&mut state, request, deadline, reply);
        if state.next_sweep.is_none_or(|next| deadline < next) {
            state.next_sweep = Some(deadline);
            self.clock.notify_one();
        }
        Ok(())
    }

    fn push(&self, state: &mut State, request: &Request<'_>, deadline: Instant, reply: Reply) {
        match state.outstanding.push(request, deadline, reply) {
            Outbox::HadMore => {}
            // A lone call goes out from here, without waking the I/O thread. More are better off together.
            Outbox::Alone if Self::write_alone(state) => {}
            Outbox::Alone | Outbox::WasEmpty => self.writer.notify_one(),
        }
    }

    /// Whether all that waits could be written at once.
    fn write_alone(state: &mut State) -> bool {
        let Link::Up(stream) = &state.link else { return false };
        state.outstanding.unsent() <= ALONE_MAX
            && state.outstanding.write_alone(|bytes| stream.try_write(bytes))
    }

    /// Hands the writer what waits, in exchange for an empty buffer.
    pub(super) fn take_outbox(&self, empty: Vec<u8>) -> Vec<u8> {
        self.state.lock().outstanding.take_outbox(empty)
    }

    pub(super) fn wrote(&self, len: usize) {
        self.state.lock().outstanding.wrote(len);
    }

    /// Ends the calls that these answers are for; the id of one that is for no call is an error.
    pub(super) fn answered(&self, answers: &mut Vec<(u64, Answer)>) -> Result<(), u64> {
        if !answers.is_empty() {
            self.up.heard();
        }
        let mut unknown = None;
        let mut settled = Vec::with_capacity(answers.len());
        let mut state = self.state.lock();
        for (id, answer) in answers.drain(..) {
            match state.outstanding.answered(id) {
                Some(reply) => settled.push((reply, Ok(answer))),
                None => unknown = unknown.or(Some(id)),
            }
        }
        settle(state, settled);
        unknown.map_or(Ok(()), Err)
    }

    /// Ends calls past their deadline, keeps the session alive, and says when to come again.
    pub(super) fn tick(&self, now: Instant) -> Option<Instant> {
        let mut ended = Vec::new();
        let mut state = self.state.lock();
        if state.next_sweep.is_some_and(|next| next <= now) {
            state.outstanding.expire(now, &mut ended);
            state.next_sweep = state.outstanding.next_deadline();
        }
        let keepalive = self.keep_alive(&mut state, now);
        let next = [state.next_sweep, keepalive].into_iter().flatten().min();
        let late = ended.into_iter().map(|(reply, effect)| {
            let error = match effect {
                Effect::None => CallError::Deadline(Arc::clone(&self.address)),
                Effect::Unknown => {
                    let cause = format!("no answer from {} by the deadline", self.address);
                    CallError::Indeterminate { cause: cause.into() }
                }
            };
            (reply, Err(error))
        });
        settle(state, late.collect());
        next
    }

    /// Sends a Ping if nothing was sent for a third of the lease: two may be late. Returns when to come again.
    fn keep_alive(&self, state: &mut State, now: Instant) -> Option<Instant> {
        if !matches!(state.link, Link::Up(_)) {
            return None;
        }
        let interval = Duration::from_millis(u64::from(state.welcome.lease_ms / 3)).max(KEEPALIVE_MIN);
        if now >= state.last_sent + interval {
            state.last_sent = now;
            self.push(state, &Request::Ping, now + interval, Reply::Nobody);
        }
        Some(state.last_sent + interval)
    }

    /// Ends all calls. Returns how many somebody waited for.
    fn fail_all(mut state: MutexGuard<'_, State>, cause: &Arc<str>) -> usize {
        let mut ended = Vec::new();
        state.outstanding.broke(&mut ended);
        state.next_sweep = None;
        let failed = ended.iter().filter(|(reply, _)| !matches!(reply, Reply::Nobody)).count();
        let failures = ended.into_iter().map(|(reply, effect)| {
            let cause = Arc::clone(cause);
            let error = match effect {
                Effect::None => CallError::Unavailable { cause },
                Effect::Unknown => CallError::Indeterminate { cause },
            };
            (reply, Err(error))
        });
        settle(state, failures.collect());
        failed
    }

    /// The link is down, not to be tried again before `retry_at`; `None`: never. Returns how many calls failed.
    pub(super) fn down(&self, cause: &str, retry_at: Option<Instant>) -> usize {
        let cause: Arc<str> = Arc::from(cause);
        let mut state = self.state.lock();
        self.up.set(false);
        if !matches!(state.link, Link::Closed { .. }) {
            let cause = Arc::clone(&cause);
            state.link = match retry_at {
                Some(retry_at) => Link::Down { cause, retry_at },
                None => Link::Closed { cause },
            };
        }
        Self::fail_all(state, &cause)
    }

    /// A new session is open.
    pub(super) fn up_again(&self, welcome: Welcome, stream: Arc<Stream>) {
        let mut state = self.state.lock();
        if matches!(state.link, Link::Closed { .. }) {
            return;
        }
        state.link = Link::Up(stream);
        state.welcome = Arc::new(welcome);
        state.last_sent = Instant::now();
        state.reconnects += 1;
        self.up.set(true);
        // The new session has a lease to be kept.
        self.clock.notify_one();
    }

    /// Closes the channel for good.
    pub(super) fn close(&self, cause: &str) {
        let cause = Arc::from(format!("the channel to {} is closed: {cause}", self.address));
        let mut state = self.state.lock();
        self.up.set(false);
        if !matches!(state.link, Link::Closed { .. }) {
            state.link = Link::Closed { cause: Arc::clone(&cause) };
        }
        Self::fail_all(state, &cause);
        self.closing.notify_one();
    }

    /// Returns when the channel is closed.
    pub(super) async fn closed(&self) {
        while !matches!(self.state.lock().link, Link::Closed { .. }) {
            self.closing.notified().await;
        }
    }

    /// Returns when a call wants the link up.
    pub(super) async fn wanted(&self) {
        while !matches!(self.state.lock().link, Link::Connecting) {
            self.wanted.notified().await;
        }
    }
}

/// Tells those who wait, after the lock is let go: a waker is anybody's code.
fn settle(mut state: MutexGuard<'_, State>, settled: Vec<(Reply, Result<Answer, CallError>)>) {
    let mut callers = Vec::with_capacity(settled.len());
    for (reply, outcome) in settled {
        match reply {
            Reply::Caller(caller) => callers.push((caller, outcome)),
            Reply::Posted => {
                if let Err(error) = outcome.and_then(Answer::into_result) {
                    state.post_failed(error);
                }
            }
            Reply::Nobody => {}
        }
    }
    drop(state);
    for (caller, outcome) in callers {
        // A caller that is gone does not want it.
        let _ = caller.send(outcome);
    }
}

impl State {
    fn post_failed(&mut self, error: CallError) {
        self.post_failures += 1;
        self.post_failure.get_or_insert(error);
    }
}

/// The sizes that encoding asserts.
fn check(request: &Request<'_>) -> Result<(), CallError> {
    match request {
        Request::Put { value, .. } if value.len() > VALUE_LEN_MAX => {
            Err(SizeError::ValueTooLong(value.len()).into())
        }
        Request::Lease { count, .. } if usize::from(*count) > LIVES_MAX => {
            Err(CallError::TooManyBlocks((*count).into()))
        }
        Request::Report { published, retired, returned, .. } => {
            let most = published.len().max(retired.len()).max(returned.len());
            if most > LIVES_MAX { Err(CallError::TooManyBlocks(most)) } else { Ok(()) }
        }
        _ => Ok(()),
    }
}
