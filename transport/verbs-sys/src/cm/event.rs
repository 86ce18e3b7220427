//! Events, copied from librdmacm's so that they are acknowledged at once.

use super::{CmId, CmIdKey, Depths, EventChannel};
use crate::ffi;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// What happened to a connection: `enum rdma_cm_event_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// [`CmId::resolve_address`] found the peer.
    AddressResolved,
    /// It did not.
    AddressError,
    /// [`CmId::resolve_route`] found the way.
    RouteResolved,
    /// It did not.
    RouteError,
    /// A peer asks a listener for a connection; [`Event::take_request`] has it.
    ConnectRequest,
    /// The connection stands.
    Established,
    /// It could not be made.
    ConnectError,
    /// The peer did not answer.
    Unreachable,
    /// The peer, or its kernel if nobody listens there, refused.
    Rejected,
    /// The peer, or this side, ended it.
    Disconnected,
    /// The device is going away; everything made of it must be dropped.
    DeviceRemoval,
    /// The network moved the address to another interface.
    AddressChange,
    /// An ended connection's number can be used again.
    TimewaitExit,
    /// Another number.
    Other(i32),
}

/// Something that happened to a connection.
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// To which identifier; for a [`EventKind::ConnectRequest`] it is the listener.
    pub id: CmIdKey,
    /// 0, a negative error number, or, if [`EventKind::Rejected`], the reason's number.
    pub status: i32,
    /// What the peer offers, as this side's: no more may be accepted. All 0 with events that carry none.
    pub depths: Depths,
    request: Option<CmId>,
    data: [u8; 255],
    data_len: u8,
}

impl Event {
    /// # Safety
    /// `raw` is an event of `channel` that was got and not acknowledged, under the channel's lock.
    pub(super) unsafe fn copy(channel: &Arc<EventChannel>, raw: *mut ffi::rdma_cm_event) -> Self {
        // SAFETY: the caller's promise; nothing else refers to it.
        let raw = unsafe { &*raw };
        let kind = match raw.event {
            ffi::RDMA_CM_EVENT_ADDR_RESOLVED => EventKind::AddressResolved,
            ffi::RDMA_CM_EVENT_ADDR_ERROR => EventKind::AddressError,
            ffi::RDMA_CM_EVENT_ROUTE_RESOLVED => EventKind::RouteResolved,
            ffi::RDMA_CM_EVENT_ROUTE_ERROR => EventKind::RouteError,
            ffi::RDMA_CM_EVENT_CONNECT_REQUEST => EventKind::ConnectRequest,
            ffi::RDMA_CM_EVENT_CONNECT_ERROR => EventKind::ConnectError,
            ffi::RDMA_CM_EVENT_UNREACHABLE => EventKind::Unreachable,
            ffi::RDMA_CM_EVENT_REJECTED => EventKind::Rejected,
            ffi::RDMA_CM_EVENT_ESTABLISHED => EventKind::Established,
            ffi::RDMA_CM_EVENT_DISCONNECTED => EventKind::Disconnected,
            ffi::RDMA_CM_EVENT_DEVICE_REMOVAL => EventKind::DeviceRemoval,
            ffi::RDMA_CM_EVENT_ADDR_CHANGE => EventKind::AddressChange,
            ffi::RDMA_CM_EVENT_TIMEWAIT_EXIT => EventKind::TimewaitExit,
            other => EventKind::Other(other),
        };
        let of = if kind == EventKind::ConnectRequest { raw.listen_id } else { raw.id };
        // SAFETY: the identifier of an event is not destroyed before the event is acknowledged; its context is the
        // key that `CmId` gave it.
        let id = CmIdKey(unsafe { (*of).context }.addr() as u64);
        let mut event = Self {
            kind,
            id,
            status: raw.status,
            depths: Depths { initiator_depth: 0, responder_resources: 0 },
            request: None,
            data: [0; 255],
            data_len: 0,
        };
        if matches!(kind, EventKind::ConnectRequest | EventKind::Established | EventKind::Rejected) {
            // SAFETY: these events of a reliable connection have its parameters.
            let parameters = unsafe { raw.param.conn };
            event.depths = Depths {
                initiator_depth: parameters.initiator_depth,
                responder_resources: parameters.responder_resources,
            };
            if !parameters.private_data.is_null() {
                let len = usize::from(parameters.private_data_len);
                // SAFETY: as many bytes as it says, until the event is acknowledged.
                let data = unsafe { std::slice::from_raw_parts(parameters.private_data.cast::<u8>(), len) };
                event.data[..len].copy_from_slice(data);
                event.data_len = parameters.private_data_len;
            }
        }
        if kind == EventKind::ConnectRequest
            && let Some(raw) = NonNull::new(raw.id)
        {
            let key = CmIdKey::next();
            // SAFETY: a new identifier, which nobody else knows yet. It came with its listener's key.
            unsafe { (*raw.as_ptr()).context = key.as_context() };
            event.request = Some(CmId::from_parts(raw, channel, key));
        }
        event
    }

    /// The identifier of the connection that a [`EventKind::ConnectRequest`] asks for, once. Dropping it refuses.
    pub fn take_request(&mut self) -> Option<CmId> {
        self.request.take()
    }

    /// The private data that the peer gave, or `None` if it gave none, or none that was framed as this library does.
    pub fn private_data(&self) -> Option<&[u8]> {
        let (&len, data) = self.data[..usize::from(self.data_len)].split_first()?;
        data.get(..usize::from(len))
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("kind", &self.kind)
            .field("id", &self.id)
            .field("status", &self.status)
            .field("private_data", &self.private_data())
            .finish_non_exhaustive()
    }
}
