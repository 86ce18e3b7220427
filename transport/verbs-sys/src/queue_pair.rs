//! Queue pairs: reliable connections, made on a [`CmId`].

use crate::cm::{CmId, IdInner};
use crate::completion::{Completion, CompletionQueue, RequestId};
use crate::context::{AtomicCapability, ProtectionDomain};
use crate::error::{ConnectionError, PostError, VerbsError, zero};
use crate::ffi;
use crate::memory::LocalSlice;
use crate::send_list::SendList;
use std::ffi::c_int;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How large the queues of a queue pair are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueuePairLimits {
    /// Most work requests posted to send and not retired.
    pub send_requests: u32,
    /// Most receives posted and not retired.
    pub receive_requests: u32,
    /// Bytes that a request can carry inline; the device may allow more.
    pub inline_len: u32,
}

/// What a queue pair can do at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueuePairState {
    /// Nothing: just made.
    Reset,
    /// Take receives.
    Init,
    /// Receive.
    ReadyToReceive,
    /// Everything.
    ReadyToSend,
    /// Nothing any more: what was posted comes back flushed.
    Error,
    /// Another number of `enum ibv_qp_state`.
    Other(i32),
}

/// What a queue pair was set to, as the device has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueuePairSettings {
    /// Its state. Soft-iWARP does not tell, and says reset.
    pub state: QueuePairState,
    /// The number of the peer's queue pair on its device; 0 over iWARP.
    pub peer: u32,
    /// A lost packet is sent again after 4.096 us x 2^this, times up to four; 0: never. An iWARP device leaves this
    /// to TCP and says 0.
    pub ack_timeout: u8,
    /// How often it is sent again; 7 means for ever on some devices.
    pub retry_count: u8,
    /// How often a SEND without a receive is sent again; 7 means for ever.
    pub rnr_retry_count: u8,
    /// READs and atomic operations under way at a time.
    pub initiator_depth: u8,
    /// The peer's that are answered at a time.
    pub responder_resources: u8,
    /// Bytes of a packet's payload; 0 where it is not known.
    pub mtu: u32,
    /// Line of the port's table of GIDs in use.
    pub gid_index: u8,
    /// DSCP and ECN bits of its packets; 0 where it is not known.
    pub traffic_class: u8,
}

/// The longest it can take until a dead peer ends an operation, by InfiniBand's rules: each of the tries takes up to
/// four times 4.096 us x 2^`ack_timeout`. `None`: for ever.
pub fn ack_deadline(ack_timeout: u8, retry_count: u8) -> Option<Duration> {
    if ack_timeout == 0 || retry_count >= 7 {
        return None;
    }
    let once = Duration::from_nanos(4 * 4096).saturating_mul(1 << u32::from(ack_timeout.min(31)));
    Some(once.saturating_mul(u32::from(retry_count) + 1))
}

/// A reliable connection's end, in the state that its [`CmId`] has brought it to.
///
/// Posting and retiring may be done by several threads at once, as far as the provider's own locks are on.
pub struct QueuePair {
    // Invariant: the queue pair of `id` until `self` is dropped.
    raw: NonNull<ffi::ibv_qp>,
    post_send: ffi::PostSend,
    post_recv: ffi::PostRecv,
    id: Arc<IdInner>,
    domain: Arc<ProtectionDomain>,
    send_queue: Arc<CompletionQueue>,
    receive_queue: Arc<CompletionQueue>,
    limits: QueuePairLimits,
    number: u32,
    send_free: AtomicU32,
    receive_free: AtomicU32,
    atomics: bool,
    inline_len_max: u32,
    message_len_max: u32,
}

// SAFETY: libibverbs is thread-safe.
unsafe impl Send for QueuePair {}
// SAFETY: as above.
unsafe impl Sync for QueuePair {}

impl CmId {
    /// Makes the queue pair of this connection, whose completions arrive in the two queues, which may be one. The
    /// address must have been resolved, or the connection requested by a peer. One at a time.
    pub fn create_queue_pair(
        &self,
        domain: &Arc<ProtectionDomain>,
        send_queue: &Arc<CompletionQueue>,
        receive_queue: &Arc<CompletionQueue>,
        limits: QueuePairLimits,
    ) -> Result<QueuePair, ConnectionError> {
        let context = self.context()?;
        let same = |other| Arc::ptr_eq(&context, other);
        if !same(domain.context()) || !same(send_queue.context()) || !same(receive_queue.context()) {
            return Err(ConnectionError::Order(
                "the protection domain and the completion queues must be of the connection's device",
            ));
        }
        let attributes = context.attributes()?;
        let message_len_max = context.port_attributes(self.port())?.message_max;
        if !send_queue.reserve(limits.send_requests) {
            return Err(ConnectionError::Order("the completion queue has too few entries to send"));
        }
        if !receive_queue.reserve(limits.receive_requests) {
            send_queue.release(limits.send_requests);
            return Err(ConnectionError::Order("the completion queue has too few entries to receive"));
        }
        let mut init = ffi::ibv_qp_init_attr {
            qp_context: null_mut(),
            send_cq: send_queue.raw(),
            recv_cq: receive_queue.raw(),
            srq: null_mut(),
            cap: ffi::ibv_qp_cap {
                max_send_wr: limits.send_requests,
                max_recv_wr: limits.receive_requests,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: limits.inline_len,
            },
            qp_type: ffi::IBV_QPT_RC,
            sq_sig_all: 0,
        };
        // SAFETY: the domain and the queues are of the device, and outlive the queue pair, which holds them.
        let raw = unsafe { self.inner().create_qp(domain.raw(), &raw mut init) };
        let raw = raw.inspect_err(|_| {
            send_queue.release(limits.send_requests);
            receive_queue.release(limits.receive_requests);
        })?;
        // SAFETY: it was just made.
        let number = unsafe { (*raw.as_ptr()).qp_num };
        Ok(QueuePair {
            raw,
            post_send: context.post_send(),
            post_recv: context.post_recv(),
            id: Arc::clone(self.inner()),
            domain: Arc::clone(domain),
            send_queue: Arc::clone(send_queue),
            receive_queue: Arc::clone(receive_queue),
            limits,
            number,
            send_free: AtomicU32::new(limits.send_requests),
            receive_free: AtomicU32::new(limits.receive_requests),
            atomics: attributes.atomics != AtomicCapability::None,
            inline_len_max: init.cap.max_inline_data,
            message_len_max,
        })
    }
}

/// Takes `needed` of what is free, or nothing.
fn take(free: &AtomicU32, needed: u32) -> Result<(), PostError> {
    free.try_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(needed))
        .map(|_| ())
        .map_err(|free| PostError::Full { needed, free })
}

impl QueuePair {
    /// Its number on the device, as in [`Completion::queue_pair`].
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The domain whose memory it may touch.
    pub fn domain(&self) -> &Arc<ProtectionDomain> {
        &self.domain
    }

    /// Where completions of what was posted to send arrive.
    pub fn send_queue(&self) -> &Arc<CompletionQueue> {
        &self.send_queue
    }

    /// Where completions of receives arrive.
    pub fn receive_queue(&self) -> &Arc<CompletionQueue> {
        &self.receive_queue
    }

    /// Bytes that a request can carry inline.
    pub fn inline_len_max(&self) -> u32 {
        self.inline_len_max
    }

    /// Longest message of the port, bytes.
    pub fn message_len_max(&self) -> u32 {
        self.message_len_max
    }

    /// Work requests that can be posted to send before a completion is retired.
    pub fn send_free(&self) -> u32 {
        self.send_free.load(Ordering::Relaxed)
    }

    /// Posts the list with one doorbell, and empties it. It runs after what was posted before.
    ///
    /// `Ok` says that it was taken, not that it will be carried out, nor that it will ever complete: a deadline comes
    /// from the caller's clock.
    #[inline]
    pub fn post_send<const N: usize>(&self, list: &mut SendList<'_, N>) -> Result<(), PostError> {
        if list.is_empty() {
            return Ok(());
        }
        if !list.ends_signalled() {
            return Err(PostError::Unsignalled);
        }
        if list.has_atomics && !self.atomics {
            return Err(PostError::NoAtomics);
        }
        if list.inline_len_max > self.inline_len_max {
            return Err(PostError::InlineTooLong { len: list.inline_len_max, max: self.inline_len_max });
        }
        if list.message_len_max > self.message_len_max {
            return Err(PostError::MessageTooLong { len: list.message_len_max, max: self.message_len_max });
        }
        take(&self.send_free, list.len() as u32)?;
        let first = list.link();
        let mut refused = null_mut();
        // SAFETY: a queue pair and a list that ends; each buffer lies in registered memory, or is borrowed by the list
        // and copied now. What is registered stays mapped for as long as the device may touch it.
        let result = unsafe { (self.post_send)(self.raw.as_ptr(), first, &raw mut refused) };
        list.clear();
        refusal("ibv_post_send", result)
    }

    /// Posts a receive: the peer's next SEND that no receive before has taken goes into `into`.
    #[inline]
    pub fn post_receive(&self, token: u32, into: LocalSlice<'_>) -> Result<(), PostError> {
        if !into.writable {
            return Err(PostError::ReadOnlyBuffer);
        }
        take(&self.receive_free, 1)?;
        let mut buffer = ffi::ibv_sge { addr: into.address, length: into.len, lkey: into.key };
        let mut request = ffi::ibv_recv_wr {
            wr_id: RequestId::receive(token).0,
            next: null_mut(),
            sg_list: &raw mut buffer,
            num_sge: 1,
        };
        let mut refused = null_mut();
        // SAFETY: as for `post_send`.
        let result = unsafe { (self.post_recv)(self.raw.as_ptr(), &raw mut request, &raw mut refused) };
        refusal("ibv_post_recv", result)
    }

    /// Gives the places that a completion of this queue pair freed back to its queues. To be called once for each.
    #[inline]
    pub fn retire(&self, completion: &Completion) {
        debug_assert_eq!(completion.queue_pair(), self.number);
        let request = completion.request();
        let (free, limit) = if request.is_receive() {
            (&self.receive_free, self.limits.receive_requests)
        } else {
            (&self.send_free, self.limits.send_requests)
        };
        free.update(Ordering::Relaxed, Ordering::Relaxed, |free| {
            free.saturating_add(request.places()).min(limit)
        });
    }

    /// What the device has it set to: to be compared with what was asked for.
    pub fn settings(&self) -> Result<QueuePairSettings, VerbsError> {
        let mut attributes = MaybeUninit::<ffi::ibv_qp_attr>::zeroed();
        let mut init = MaybeUninit::<ffi::ibv_qp_init_attr>::zeroed();
        let query = self.domain.context().verbs().ibv.ibv_query_qp;
        let mask = ffi::IBV_QP_STATE
            | ffi::IBV_QP_AV
            | ffi::IBV_QP_PATH_MTU
            | ffi::IBV_QP_TIMEOUT
            | ffi::IBV_QP_RETRY_CNT
            | ffi::IBV_QP_RNR_RETRY
            | ffi::IBV_QP_MAX_QP_RD_ATOMIC
            | ffi::IBV_QP_MAX_DEST_RD_ATOMIC
            | ffi::IBV_QP_DEST_QPN;
        // SAFETY: a queue pair, and room for its attributes.
        let result = unsafe { query(self.raw.as_ptr(), attributes.as_mut_ptr(), mask, init.as_mut_ptr()) };
        zero("ibv_query_qp", result)?;
        // SAFETY: all zeros would be valid, and it was filled in.
        let attributes = unsafe { attributes.assume_init() };
        Ok(QueuePairSettings {
            state: match attributes.qp_state {
                ffi::IBV_QPS_RESET => QueuePairState::Reset,
                ffi::IBV_QPS_INIT => QueuePairState::Init,
                ffi::IBV_QPS_RTR => QueuePairState::ReadyToReceive,
                ffi::IBV_QPS_RTS => QueuePairState::ReadyToSend,
                ffi::IBV_QPS_ERR => QueuePairState::Error,
                other => QueuePairState::Other(other),
            },
            peer: attributes.dest_qp_num,
            ack_timeout: attributes.timeout,
            retry_count: attributes.retry_cnt,
            rnr_retry_count: attributes.rnr_retry,
            initiator_depth: attributes.max_rd_atomic,
            responder_resources: attributes.max_dest_rd_atomic,
            mtu: match attributes.path_mtu {
                code @ 1..=5 => 128 << code,
                _ => 0,
            },
            gid_index: attributes.ah_attr.grh.sgid_index,
            traffic_class: attributes.ah_attr.grh.traffic_class,
        })
    }

    /// Ends all work at once: what is posted comes back flushed, if the device still can. What has not after a moment
    /// is known only by destroying the queue pair, after which nothing posted to it executes any more.
    pub fn fail(&self) -> Result<(), VerbsError> {
        let mut attributes = MaybeUninit::<ffi::ibv_qp_attr>::zeroed();
        // SAFETY: all zeros are valid.
        let attributes = unsafe { attributes.assume_init_mut() };
        attributes.qp_state = ffi::IBV_QPS_ERR;
        let modify = self.domain.context().verbs().ibv.ibv_modify_qp;
        // SAFETY: a queue pair, and attributes of which the state is set.
        zero("ibv_modify_qp", unsafe { modify(self.raw.as_ptr(), attributes, ffi::IBV_QP_STATE) })
    }
}

fn refusal(call: &'static str, result: c_int) -> Result<(), PostError> {
    zero(call, result).map_err(|error| PostError::Refused { call, source: error.source })
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: it is not used again.
        unsafe { self.id.destroy_qp() };
        self.send_queue.release(self.limits.send_requests);
        self.receive_queue.release(self.limits.receive_requests);
    }
}

impl fmt::Debug for QueuePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuePair")
            .field("device", &self.domain.context().name())
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_peer_is_noticed_within_the_deadline_or_never() {
        assert_eq!(ack_deadline(0, 6), None);
        assert_eq!(ack_deadline(14, 7), None);
        // 4 x 4.096 us x 1024 x 7
        assert_eq!(ack_deadline(10, 6), Some(Duration::from_nanos(4 * 4096 * 1024 * 7)));
        assert!(ack_deadline(19, 6).unwrap() > Duration::from_secs(10));
    }

    #[test]
    fn places_are_taken_all_or_none() {
        let free = AtomicU32::new(3);
        take(&free, 2).unwrap();
        assert!(matches!(take(&free, 2), Err(PostError::Full { needed: 2, free: 1 })));
        take(&free, 1).unwrap();
    }
}
