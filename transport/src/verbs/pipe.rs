//! A queue pair that carries bytes both ways, in order, by SENDs into posted receives.
//!
//! ```text
//! message:  | number 4 B | receives posted 4 B | up to 4088 B of the stream |
//! ```
//! Who may send how many messages is in [`credits`](super::credits). What comes stays in the receive that it came to
//! until it is read: it is copied out then, when no device writes there any more, and the receive is posted again. Who
//! does not read is not sent more than [`RECEIVES`] messages.

use super::credits::{Breach, Credits, Header, RECEIVES};
use super::dial::{INLINE_LENS, with_most_inline};
use super::error::SetupError;
use bytes::BufMut;
use farside_verbs_sys::{
    Access, BoundsError, Buffer, CmId, CmIdKey, Completion, CompletionQueue, MemoryRegion, Operation,
    PostError, ProtectionDomain, QueuePair, QueuePairLimits, SendFlags, SendList, Status, VerbsError,
};
use parking_lot::Mutex;
use std::borrow::Borrow;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Waker};

/// Bytes of a receive: most requests and answers fit into one, and a session's receives and sends take 128 KiB.
const MESSAGE_LEN: usize = 4096;
const HEADER_LEN: usize = 8;
/// Bytes of the stream in a message.
const PAYLOAD_MAX: usize = MESSAGE_LEN - HEADER_LEN;

/// Messages that may be under way. With as many as the peer has receives this is hardly ever what is short.
const SENDS: u32 = RECEIVES;

/// Longest message that travels in its work request.
const INLINE_MAX: usize = INLINE_LENS[0] as usize;

/// Which end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Client,
    Server,
}

/// Why nothing goes through any more.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("its queue pair failed: {0}")]
    Status(Status),
    #[error("a message of {0} bytes came")]
    Len(u32),
    #[error(transparent)]
    Breach(#[from] Breach),
    #[error(transparent)]
    Post(#[from] PostError),
    #[error(transparent)]
    Bounds(#[from] BoundsError),
    #[error(transparent)]
    Call(#[from] VerbsError),
}

impl Fault {
    fn kind(&self) -> ErrorKind {
        match self {
            // Some device's way to say that the peer is gone.
            Self::Status(_) => ErrorKind::ConnectionAborted,
            Self::Len(_) | Self::Breach(_) => ErrorKind::InvalidData,
            Self::Post(_) | Self::Bounds(_) | Self::Call(_) => ErrorKind::Other,
        }
    }
}

/// A pipe whose queue pair is not connected yet. Its receives are posted: no message can come before them.
pub(super) struct Prepared {
    pair: QueuePair,
    receives: MemoryRegion<Buffer>,
    sends: MemoryRegion<Buffer>,
    credits: Credits,
}

impl Borrow<QueuePair> for Prepared {
    fn borrow(&self) -> &QueuePair {
        &self.pair
    }
}

impl Prepared {
    /// On `id`, which has a device, in `domain`, which no other memory is registered in: so its peer reaches none.
    pub(super) fn new(id: &CmId, domain: &Arc<ProtectionDomain>, side: Side) -> Result<Self, SetupError> {
        let context = domain.context();
        // Apart, so that what was sent wakes nobody who waits for what comes.
        let sent = CompletionQueue::with_events(context, SENDS)?;
        let received = CompletionQueue::with_events(context, RECEIVES)?;
        let pair = with_most_inline(|inline_len| {
            let limits = QueuePairLimits { send_requests: SENDS, receive_requests: RECEIVES, inline_len };
            id.create_queue_pair(domain, &sent, &received, limits)
        })?;
        let region = |messages: u32| {
            MemoryRegion::new(domain, Buffer::new(messages as usize * MESSAGE_LEN), Access::LOCAL_WRITE)
        };
        let (receives, sends) = (region(RECEIVES)?, region(SENDS)?);
        for slot in 0..RECEIVES {
            post_receive(&pair, &receives, slot)?;
        }
        let credits = match side {
            Side::Client => Credits::of_client(),
            Side::Server => Credits::of_server(),
        };
        Ok(Self { pair, receives, sends, credits })
    }

    /// Connected on `id`, or about to be on the server's side.
    pub(super) fn connected(self, id: CmId) -> Arc<Pipe> {
        let Self { pair, receives, sends, credits } = self;
        let (sent, received) = (pair.send_queue().clone(), pair.receive_queue().clone());
        let mut state = State {
            device: format!("{} port {}", pair.domain().context().name(), id.port()),
            connection: Some(Connection { pair, id }),
            fault: None,
            receives,
            sends,
            credits,
            next_send: 0,
            arrived: VecDeque::with_capacity(RECEIVES as usize),
            unread: Unread { bytes: Box::new([0; PAYLOAD_MAX]), range: 0..0 },
            waiting: [None, None],
        };
        // The client's first words.
        state.progress();
        Arc::new(Pipe { state: Mutex::new(state), sent, received })
    }
}

fn post_receive(pair: &QueuePair, receives: &MemoryRegion<Buffer>, slot: u32) -> Result<(), Fault> {
    Ok(pair.post_receive(slot, receives.slice(slot as usize * MESSAGE_LEN, MESSAGE_LEN)?)?)
}

impl From<Fault> for SetupError {
    fn from(fault: Fault) -> Self {
        Self::System(io::Error::other(fault))
    }
}

/// Fields in the order in which they go.
struct Connection {
    pair: QueuePair,
    id: CmId,
}

/// What waits for a message or for a credit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    Read = 0,
    Write = 1,
}

/// What can be done now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ready {
    Yes,
    /// When something has been received.
    AfterReceive,
    /// When something has been sent.
    AfterSend,
}

/// A message that came and has not been looked into.
struct Arrived {
    slot: u32,
    len: usize,
}

/// What is left of the message that is being read.
struct Unread {
    bytes: Box<[u8; PAYLOAD_MAX]>,
    range: Range<usize>,
}

// The connection goes before the memory: after its end the device touches none of it.
struct State {
    /// `None`: it has been cut.
    connection: Option<Connection>,
    fault: Option<Fault>,
    device: String,
    receives: MemoryRegion<Buffer>,
    sends: MemoryRegion<Buffer>,
    credits: Credits,
    /// The place of the next message among those under way, which end in the order in which they began.
    next_send: u32,
    arrived: VecDeque<Arrived>,
    unread: Unread,
    /// To be woken when the pipe is cut, by [`Direction`].
    waiting: [Option<Waker>; 2],
}

/// One end of a connection that carries a stream of bytes each way.
pub struct Pipe {
    state: Mutex<State>,
    sent: Arc<CompletionQueue>,
    received: Arc<CompletionQueue>,
}

impl Pipe {
    /// Completes when something has been received, and with the other one when something has been sent.
    pub(super) fn queues(&self) -> (&Arc<CompletionQueue>, &Arc<CompletionQueue>) {
        (&self.received, &self.sent)
    }

    pub(super) fn key(&self) -> Option<CmIdKey> {
        self.state.lock().connection.as_ref().map(|connection| connection.id.key())
    }

    /// Ends it: when this returns its queue pair is no more. Nothing of it is read after that, and nothing sent.
    pub(super) fn cut(&self) {
        let mut state = self.state.lock();
        let (connection, waiting) = (state.connection.take(), std::mem::take(&mut state.waiting));
        state.arrived.clear();
        state.unread.range = 0..0;
        drop(state);
        if let Some(Connection { pair, id }) = connection {
            // Tells the peer; whether it hears does not matter.
            let _ = id.disconnect();
            drop((pair, id));
        }
        waiting.into_iter().flatten().for_each(Waker::wake);
    }

    /// Whether reading or writing would not say [`ErrorKind::WouldBlock`].
    pub(super) fn ready(&self, direction: Direction, context: &Context<'_>) -> Ready {
        let mut state = self.state.lock();
        state.progress();
        let ready = match direction {
            _ if state.is_over() => Ready::Yes,
            Direction::Read if state.has_unread() => Ready::Yes,
            Direction::Read => Ready::AfterReceive,
            Direction::Write => state.may_send(),
        };
        state.waiting[direction as usize] = (ready != Ready::Yes).then(|| context.waker().clone());
        ready
    }

    /// Whether all that was written has reached the peer's device.
    pub(super) fn delivered(&self) -> bool {
        let mut state = self.state.lock();
        state.progress();
        state.connection.as_ref().is_none_or(|connection| connection.pair.send_free() == SENDS)
            || state.fault.is_some()
    }

    /// Reads what is there into the room that `into` has; 0: it has been cut.
    pub(super) fn try_read(&self, into: &mut impl BufMut) -> io::Result<usize> {
        let mut state = self.state.lock();
        state.progress();
        let mut read = 0;
        while into.has_remaining_mut() && state.take_out() {
            let Unread { bytes, range } = &mut state.unread;
            let len = into.remaining_mut().min(range.len());
            into.put_slice(&bytes[range.start..range.start + len]);
            range.start += len;
            read += len;
        }
        state.announce();
        match &state.fault {
            _ if read > 0 => Ok(read),
            Some(fault) => Err(io::Error::new(fault.kind(), fault.to_string())),
            None if state.connection.is_none() => Ok(0),
            None => Err(ErrorKind::WouldBlock.into()),
        }
    }

    /// Sends what may be sent of `bytes` now.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.state.lock();
        state.progress();
        let mut written = 0;
        for part in bytes.chunks(PAYLOAD_MAX) {
            if state.is_over() || state.may_send() != Ready::Yes {
                break;
            }
            state.send(part);
            written += if state.fault.is_none() { part.len() } else { 0 };
        }
        match &state.fault {
            _ if written > 0 => Ok(written),
            Some(fault) => Err(io::Error::new(fault.kind(), fault.to_string())),
            None if state.connection.is_none() => Err(ErrorKind::BrokenPipe.into()),
            None => Err(ErrorKind::WouldBlock.into()),
        }
    }
}

impl State {
    fn is_over(&self) -> bool {
        self.connection.is_none() || self.fault.is_some()
    }

    fn has_unread(&self) -> bool {
        !self.unread.range.is_empty() || !self.arrived.is_empty()
    }

    fn may_send(&self) -> Ready {
        match &self.connection {
            _ if !self.credits.may_send() => Ready::AfterReceive,
            Some(connection) if connection.pair.send_free() == 0 => Ready::AfterSend,
            _ => Ready::Yes,
        }
    }

    /// Runs `step` unless it is over, and is at its end if that fails.
    fn try_step(&mut self, step: impl FnOnce(&mut Self) -> Result<(), Fault>) {
        if self.is_over() {
            return;
        }
        if let Err(fault) = step(self) {
            tracing::debug!("{}: {fault}", self.device);
            self.fault = Some(fault);
        }
    }

    /// Takes note of what has been sent and received.
    fn progress(&mut self) {
        self.try_step(|state| {
            let mut completions = [Completion::EMPTY; (SENDS + RECEIVES) as usize];
            let Some(Connection { pair, .. }) = &state.connection else { return Ok(()) };
            // What was received last may have been an answer to what was sent last.
            let sent = pair.send_queue().poll(&mut completions)?;
            let count = sent + pair.receive_queue().poll(&mut completions[sent..])?;
            for completion in &completions[..count] {
                pair.retire(completion);
                completion.result().map_err(Fault::Status)?;
            }
            for completion in &completions[..count] {
                if let Some(len) = completion.received_len() {
                    state.arrive(completion.token(), len)?;
                }
            }
            Ok(())
        });
        self.announce();
    }

    fn arrive(&mut self, slot: u32, len: u32) -> Result<(), Fault> {
        let payload = (len as usize).checked_sub(HEADER_LEN).filter(|len| *len <= PAYLOAD_MAX);
        let payload = payload.ok_or(Fault::Len(len))?;
        let header = Header::from_word(self.receives.load(slot as usize * MESSAGE_LEN)?);
        self.credits.receive(header, payload == 0)?;
        if payload == 0 {
            return self.post(slot);
        }
        self.arrived.push_back(Arrived { slot, len: payload });
        Ok(())
    }

    fn post(&mut self, slot: u32) -> Result<(), Fault> {
        if let Some(Connection { pair, .. }) = &self.connection {
            post_receive(pair, &self.receives, slot)?;
            self.credits.post();
        }
        Ok(())
    }

    /// Sees to it that there is something unread, if anything has come.
    fn take_out(&mut self) -> bool {
        if self.unread.range.is_empty()
            && let Some(Arrived { slot, len }) = self.arrived.pop_front()
        {
            self.try_step(|state| {
                let at = slot as usize * MESSAGE_LEN + HEADER_LEN;
                state.receives.read(at, &mut state.unread.bytes[..len])?;
                state.unread.range = 0..len;
                state.post(slot)
            });
        }
        !self.unread.range.is_empty()
    }

    fn announce(&mut self) {
        let has_place = self.connection.as_ref().is_some_and(|connection| connection.pair.send_free() > 0);
        if has_place && self.credits.must_announce() {
            self.send(&[]);
        }
    }

    /// Sends a message, for which there is a place.
    fn send(&mut self, payload: &[u8]) {
        self.try_step(|state| {
            let Some(Connection { pair, .. }) = &state.connection else { return Ok(()) };
            let header = state.credits.send().to_word();
            let slot = state.next_send;
            state.next_send = (slot + 1) % SENDS;
            let len = HEADER_LEN + payload.len();
            let mut inline = [0; INLINE_MAX];
            let mut list = SendList::<1>::new();
            if len <= INLINE_MAX.min(pair.inline_len_max() as usize) {
                // As a word of registered memory has its bytes.
                inline[..HEADER_LEN].copy_from_slice(&header.to_ne_bytes());
                inline[HEADER_LEN..len].copy_from_slice(payload);
                list.push(slot, Operation::SendInline { bytes: &inline[..len] }, SendFlags::SIGNALLED)?;
            } else {
                let at = slot as usize * MESSAGE_LEN;
                state.sends.store(at, header)?;
                state.sends.write(at + HEADER_LEN, payload)?;
                let from = state.sends.slice(at, len)?;
                list.push(slot, Operation::Send { from }, SendFlags::SIGNALLED)?;
            }
            Ok(pair.post_send(&mut list)?)
        });
    }
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipe").field("device", &self.state.lock().device).finish_non_exhaustive()
    }
}
