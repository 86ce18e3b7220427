//! Completion queues.

use crate::context::{Context, nonblocking, wait_readable};
use crate::error::{VerbsError, not_null, zero};
use crate::ffi;
use std::ffi::c_int;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How a work request ended: `enum ibv_wc_status`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Status(pub i32);

impl Status {
    /// It was carried out.
    pub const SUCCESS: Self = Self(ffi::IBV_WC_SUCCESS);
    /// It was not carried out, for the queue pair had failed before.
    pub const FLUSHED: Self = Self(5);
    /// The peer's device refused: rights or bounds of its memory.
    pub const REMOTE_ACCESS: Self = Self(10);
    /// The peer did not answer.
    pub const RETRIES_EXCEEDED: Self = Self(12);
    /// The peer had no receive posted.
    pub const RECEIVER_NOT_READY: Self = Self(13);

    /// Its name, as `ibv_wc_status_str` has it.
    pub const fn name(self) -> &'static str {
        const NAMES: [&str; 22] = [
            "success",
            "local length error",
            "local QP operation error",
            "local EE context operation error",
            "local protection error",
            "Work Request Flushed Error",
            "memory management operation error",
            "bad response error",
            "local access error",
            "remote invalid request error",
            "remote access error",
            "remote operation error",
            "transport retry counter exceeded",
            "RNR retry counter exceeded",
            "local RDD violation error",
            "remote invalid RD request",
            "aborted error",
            "invalid EE context number",
            "invalid EE context state",
            "fatal error",
            "response timeout error",
            "general error",
        ];
        if self.0 >= 0 && (self.0 as usize) < NAMES.len() { NAMES[self.0 as usize] } else { "unknown" }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The identity of a work request, `wr_id`: the caller's token, how many places of its queue its completion frees, and
/// which queue that is; for an error completion has nothing else that can be trusted.
#[derive(Clone, Copy)]
pub(crate) struct RequestId(pub(crate) u64);

impl RequestId {
    const RECEIVE: u64 = 1 << 63;

    pub(crate) const fn send(token: u32, places: u16) -> Self {
        Self(token as u64 | (places as u64) << 32)
    }

    pub(crate) const fn receive(token: u32) -> Self {
        Self(token as u64 | 1 << 32 | Self::RECEIVE)
    }

    pub(crate) const fn token(self) -> u32 {
        self.0 as u32
    }

    pub(crate) const fn places(self) -> u32 {
        (self.0 >> 32) as u32 & 0xffff
    }

    pub(crate) const fn is_receive(self) -> bool {
        self.0 & Self::RECEIVE != 0
    }
}

/// The end of a work request. After an error only the token, the status and the queue pair's number mean anything.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Completion(ffi::ibv_wc);

impl Completion {
    /// To be overwritten by [`CompletionQueue::poll`].
    pub const EMPTY: Self = Self(ffi::ibv_wc {
        wr_id: 0,
        status: ffi::IBV_WC_SUCCESS,
        opcode: 0,
        vendor_err: 0,
        byte_len: 0,
        imm_data: 0,
        qp_num: 0,
        src_qp: 0,
        wc_flags: 0,
        pkey_index: 0,
        slid: 0,
        sl: 0,
        dlid_path_bits: 0,
    });

    pub(crate) const fn request(&self) -> RequestId {
        RequestId(self.0.wr_id)
    }

    /// The token that the work request was given.
    pub const fn token(&self) -> u32 {
        self.request().token()
    }

    /// How it ended.
    pub const fn status(&self) -> Status {
        Status(self.0.status)
    }

    /// `Ok` if it was carried out.
    pub const fn result(&self) -> Result<(), Status> {
        match self.status() {
            Status::SUCCESS => Ok(()),
            status => Err(status),
        }
    }

    /// Whether it was a receive.
    pub const fn is_receive(&self) -> bool {
        self.request().is_receive()
    }

    /// Bytes that arrived by a receive that succeeded.
    pub const fn received_len(&self) -> Option<u32> {
        match self.status() {
            Status::SUCCESS if self.is_receive() => Some(self.0.byte_len),
            _ => None,
        }
    }

    /// The number of the queue pair it was posted to.
    pub const fn queue_pair(&self) -> u32 {
        self.0.qp_num
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion")
            .field("token", &self.token())
            .field("status", &self.status())
            .field("receive", &self.is_receive())
            .field("queue_pair", &self.queue_pair())
            .finish()
    }
}

/// Where completions arrive. Queue pairs that are made with it reserve an entry for each work request they may have
/// posted, so it cannot overflow: some devices would lose completions in silence. Entries that a destroyed queue pair
/// left behind are the exception: a queue pair that takes another's place should have a queue of its own.
pub struct CompletionQueue {
    // Invariant: a completion queue of `context` until `self` is dropped.
    raw: NonNull<ffi::ibv_cq>,
    // Invariant: the queue's own completion channel until `self` is dropped.
    channel: Option<NonNull<ffi::ibv_comp_channel>>,
    context: Arc<Context>,
    entries: u32,
    reserved: AtomicU32,
}

// SAFETY: libibverbs is thread-safe.
unsafe impl Send for CompletionQueue {}
// SAFETY: as above.
unsafe impl Sync for CompletionQueue {}

impl CompletionQueue {
    /// A queue of at least `entries`, to be polled.
    pub fn new(context: &Arc<Context>, entries: u32) -> Result<Arc<Self>, VerbsError> {
        Self::create(context, entries, None)
    }

    /// A queue of at least `entries`, with [`CompletionQueue::event_fd`] to wait on.
    pub fn with_events(context: &Arc<Context>, entries: u32) -> Result<Arc<Self>, VerbsError> {
        // SAFETY: an open context.
        let channel = unsafe { (context.verbs().ibv.ibv_create_comp_channel)(context.raw()) };
        Self::create(context, entries, Some(not_null("ibv_create_comp_channel", channel)?))
    }

    fn create(
        context: &Arc<Context>,
        entries: u32,
        channel: Option<NonNull<ffi::ibv_comp_channel>>,
    ) -> Result<Arc<Self>, VerbsError> {
        let verbs = context.verbs();
        let channel_raw = channel.map_or(null_mut(), NonNull::as_ptr);
        let wanted = c_int::try_from(entries).unwrap_or(c_int::MAX);
        // SAFETY: an open context and a channel of it or none; every device has a vector 0.
        let raw = unsafe { (verbs.ibv.ibv_create_cq)(context.raw(), wanted, null_mut(), channel_raw, 0) };
        match not_null("ibv_create_cq", raw) {
            Ok(raw) => {
                let context = Arc::clone(context);
                let queue = Self { raw, channel, context, entries, reserved: AtomicU32::new(0) };
                if let Some(fd) = queue.event_fd() {
                    nonblocking(fd)?;
                }
                Ok(Arc::new(queue))
            }
            Err(error) => {
                if let Some(channel) = channel {
                    // SAFETY: nothing uses it.
                    unsafe { (verbs.ibv.ibv_destroy_comp_channel)(channel.as_ptr()) };
                }
                Err(error)
            }
        }
    }

    /// The device it is on.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn raw(&self) -> *mut ffi::ibv_cq {
        self.raw.as_ptr()
    }

    /// Sets `entries` aside for a queue pair, if there are so many.
    pub(crate) fn reserve(&self, entries: u32) -> bool {
        let reserve =
            |reserved: u32| reserved.checked_add(entries).filter(|&reserved| reserved <= self.entries);
        self.reserved.try_update(Ordering::Relaxed, Ordering::Relaxed, reserve).is_ok()
    }

    pub(crate) fn release(&self, entries: u32) {
        self.reserved.fetch_sub(entries, Ordering::Relaxed);
    }

    /// Fills `completions` from the front with what has completed, and says how many; 0: nothing has. Never waits.
    #[inline]
    pub fn poll(&self, completions: &mut [Completion]) -> Result<usize, VerbsError> {
        let room = c_int::try_from(completions.len()).unwrap_or(c_int::MAX);
        let poll_cq = self.context.poll_cq();
        // SAFETY: a completion queue, and room for as many completions as are asked for.
        let count = unsafe { poll_cq(self.raw(), room, completions.as_mut_ptr().cast()) };
        usize::try_from(count).map_err(|_| VerbsError::last("ibv_poll_cq"))
    }

    /// Readable when an event is there, if the queue was made with events.
    pub fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        let channel = self.channel?;
        // SAFETY: the channel exists.
        let fd = unsafe { (*channel.as_ptr()).fd };
        // SAFETY: its descriptor is open as long as it exists.
        Some(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Asks for one event, when the next completion arrives. One that arrived before causes none: poll once more
    /// after this, before waiting.
    pub fn request_event(&self) -> Result<(), VerbsError> {
        let request = self.context.request_notification();
        // SAFETY: a completion queue.
        zero("ibv_req_notify_cq", unsafe { request(self.raw(), 0) })
    }

    /// Waits for an event, at most for `limit` or until a signal, and says whether there was one. In this order nothing
    /// is missed: [`CompletionQueue::request_event`], [`CompletionQueue::poll`], and if that found nothing, this.
    ///
    /// # Panics
    /// If the queue was made without events.
    pub fn wait(&self, limit: Duration) -> Result<bool, VerbsError> {
        wait_readable(self.event_fd().expect("a queue with events"), limit)?;
        self.take_events()
    }

    /// Takes the events that are there, and says whether there were any.
    pub fn take_events(&self) -> Result<bool, VerbsError> {
        let Some(channel) = self.channel else { return Ok(false) };
        let ibv = &self.context.verbs().ibv;
        let mut any = false;
        loop {
            let (mut of, mut data) = (null_mut(), null_mut());
            // SAFETY: the channel exists, and there is room for the result.
            let result = unsafe { (ibv.ibv_get_cq_event)(channel.as_ptr(), &raw mut of, &raw mut data) };
            match zero("ibv_get_cq_event", result) {
                Err(error) if error.source.kind() == io::ErrorKind::WouldBlock => return Ok(any),
                result => result?,
            }
            any = true;
            // SAFETY: one event was got, and the channel has no queue but this.
            unsafe { (ibv.ibv_ack_cq_events)(self.raw(), 1) };
        }
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        let ibv = &self.context.verbs().ibv;
        // SAFETY: its queue pairs held it, so none is left; its events were acknowledged.
        unsafe { (ibv.ibv_destroy_cq)(self.raw()) };
        if let Some(channel) = self.channel {
            // SAFETY: the one queue that used it is gone.
            unsafe { (ibv.ibv_destroy_comp_channel)(channel.as_ptr()) };
        }
    }
}

impl fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionQueue").field("entries", &self.entries).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_keeps_its_token_places_and_direction() {
        let send = RequestId::send(u32::MAX, 300);
        assert_eq!((send.token(), send.places(), send.is_receive()), (u32::MAX, 300, false));
        let receive = RequestId::receive(7);
        assert_eq!((receive.token(), receive.places(), receive.is_receive()), (7, 1, true));
    }
}
