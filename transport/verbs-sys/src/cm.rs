//! Connecting, by librdmacm: event channels and connection identifiers.
//!
//! ```text
//! client: CmId::new, resolve_address, AddressResolved, resolve_route, RouteResolved,
//!         create_queue_pair, connect,                     Established or Rejected, ...
//! server: CmId::new, bind, listen, ConnectRequest with the new CmId,
//!         create_queue_pair, post_receive, accept,        Established
//! both:   disconnect, Disconnected; drop the queue pair, drop the CmId
//! ```
//! A peer that is stopped causes no event, and a listener that nobody serves answers nothing: whoever waits keeps to
//! the time.

mod event;
mod sockaddr;

pub use event::{Event, EventKind};

use crate::context::{Context, DeviceAttributes, nonblocking, wait_readable};
use crate::error::{ConnectionError, VerbsError, not_null, zero};
use crate::ffi;
use crate::library::Verbs;
use parking_lot::Mutex;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Where the events of its identifiers arrive.
pub struct EventChannel {
    // Invariant: an event channel until `self` is dropped.
    raw: NonNull<ffi::rdma_event_channel>,
    verbs: &'static Verbs,
    /// Held for every call about an identifier of the channel. Reading an event, librdmacm changes the identifier and
    /// the state of its queue pair, and it has no lock of its own for them. No call that is made waits for a peer.
    calls: Mutex<()>,
}

// SAFETY: its calls are made one at a time.
unsafe impl Send for EventChannel {}
// SAFETY: as above.
unsafe impl Sync for EventChannel {}

impl EventChannel {
    /// A new channel. Fails where the kernel has no RDMA device, or does not connect over them.
    pub fn new(verbs: &'static Verbs) -> Result<Arc<Self>, VerbsError> {
        // SAFETY: no conditions.
        let raw = unsafe { (verbs.cm.rdma_create_event_channel)() };
        let raw = not_null("rdma_create_event_channel", raw).map_err(VerbsError::without_devices)?;
        let channel = Self { raw, verbs, calls: Mutex::new(()) };
        nonblocking(&channel)?;
        Ok(Arc::new(channel))
    }

    /// The next event, or `None` if there is none now. Nothing needs to be acknowledged.
    pub fn next(self: &Arc<Self>) -> Result<Option<Event>, VerbsError> {
        let _calls = self.calls.lock();
        let mut event = null_mut();
        // SAFETY: a channel, and room for the event.
        let result = unsafe { (self.verbs.cm.rdma_get_cm_event)(self.raw.as_ptr(), &raw mut event) };
        match zero("rdma_get_cm_event", result) {
            Ok(()) => {
                // SAFETY: an event that was just got, not yet acknowledged.
                let copy = unsafe { Event::copy(self, event) };
                // SAFETY: as above; it is not used again.
                unsafe { (self.verbs.cm.rdma_ack_cm_event)(event) };
                Ok(Some(copy))
            }
            Err(error) if error.source.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The next event, for which it waits at most `limit`; `None`: that long, or until a signal.
    pub fn wait(self: &Arc<Self>, limit: Duration) -> Result<Option<Event>, VerbsError> {
        wait_readable(self.as_fd(), limit)?;
        self.next()
    }
}

impl AsFd for EventChannel {
    /// Readable when an event is there.
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel exists.
        let fd = unsafe { (*self.raw.as_ptr()).fd };
        // SAFETY: its descriptor is open as long as it exists.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }
}

impl Drop for EventChannel {
    fn drop(&mut self) {
        // SAFETY: its identifiers held it, so none is left, and each event was acknowledged when it was got.
        unsafe { (self.verbs.cm.rdma_destroy_event_channel)(self.raw.as_ptr()) }
    }
}

impl fmt::Debug for EventChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventChannel")
    }
}

/// Tells the identifiers of a process apart; no two ever have the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CmIdKey(u64);

impl CmIdKey {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// As the context that librdmacm keeps for its caller, who never follows it.
    fn as_context(self) -> *mut c_void {
        std::ptr::without_provenance_mut(self.0 as usize)
    }
}

/// How many READs and atomic operations are under way at a time, each way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Depths {
    /// This side's.
    pub initiator_depth: u8,
    /// The peer's, which this side answers.
    pub responder_resources: u8,
}

impl Depths {
    /// As many as `attributes` allow: who posts a batch of READs waits whenever fewer may be under way.
    pub fn of_device(attributes: &DeviceAttributes) -> Self {
        Self {
            initiator_depth: attributes.initiator_depth_max,
            responder_resources: attributes.responder_resources_max,
        }
    }

    /// The smaller of these and `other`, which are this side's too: what a [`EventKind::ConnectRequest`] offers, say.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self {
            initiator_depth: self.initiator_depth.min(other.initiator_depth),
            responder_resources: self.responder_resources.min(other.responder_resources),
        }
    }
}

/// What a connection is asked for, or accepted, with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionParameters {
    /// At least 1 each.
    pub depths: Depths,
    /// How often a lost packet is sent again, at most 6. The client's counts for both sides.
    pub retry_count: u8,
    /// How often a SEND that found no receive is sent again, at most 6.
    pub rnr_retry_count: u8,
}

impl ConnectionParameters {
    /// With these depths, and as many retries as may be.
    pub const fn new(depths: Depths) -> Self {
        Self { depths, retry_count: 6, rnr_retry_count: 6 }
    }

    fn checked(self) -> Result<Self, ConnectionError> {
        if self.retry_count > 6 || self.rnr_retry_count > 6 {
            return Err(ConnectionError::Retries);
        }
        if self.depths.initiator_depth == 0 || self.depths.responder_resources == 0 {
            return Err(ConnectionError::Depth);
        }
        Ok(self)
    }
}

/// Private data travels padded to the length of its message, so a byte before it says how long it is.
struct PrivateData {
    framed: [u8; 256],
    len: u8,
}

impl PrivateData {
    fn frame(data: &[u8], max: usize) -> Result<Self, ConnectionError> {
        if data.len() > max {
            return Err(ConnectionError::PrivateData { len: data.len(), max });
        }
        let mut framed = [0; 256];
        framed[0] = data.len() as u8;
        framed[1..=data.len()].copy_from_slice(data);
        Ok(Self { framed, len: data.len() as u8 + 1 })
    }

    fn as_ptr(&self) -> *const c_void {
        self.framed.as_ptr().cast()
    }
}

/// A connection, a listener, or one to be.
pub struct CmId(Arc<IdInner>);

/// The identifier itself, which its queue pair holds too.
pub(crate) struct IdInner {
    // Invariant: an identifier of `channel` until `self` is dropped.
    raw: NonNull<ffi::rdma_cm_id>,
    channel: Arc<EventChannel>,
    key: CmIdKey,
    context: OnceLock<Arc<Context>>,
}

// SAFETY: all use of the identifier is under the channel's lock.
unsafe impl Send for IdInner {}
// SAFETY: as above.
unsafe impl Sync for IdInner {}

impl IdInner {
    /// # Safety
    /// As for `rdma_create_qp`: `init` names completion queues, and they and the domain are of the identifier's device
    /// and outlive the queue pair.
    pub(crate) unsafe fn create_qp(
        &self,
        domain: *mut ffi::ibv_pd,
        init: *mut ffi::ibv_qp_init_attr,
    ) -> Result<NonNull<ffi::ibv_qp>, VerbsError> {
        let _calls = self.channel.calls.lock();
        // SAFETY: an identifier; the rest is the caller's promise. It refuses a second queue pair.
        let result = unsafe { (self.channel.verbs.cm.rdma_create_qp)(self.raw.as_ptr(), domain, init) };
        zero("rdma_create_qp", result)?;
        // SAFETY: under the lock.
        not_null("rdma_create_qp", unsafe { (*self.raw.as_ptr()).qp })
    }

    /// # Safety
    /// There is a queue pair, which is not used again.
    pub(crate) unsafe fn destroy_qp(&self) {
        let _calls = self.channel.calls.lock();
        // SAFETY: the caller's promise.
        unsafe { (self.channel.verbs.cm.rdma_destroy_qp)(self.raw.as_ptr()) }
    }
}

impl Drop for IdInner {
    fn drop(&mut self) {
        let _calls = self.channel.calls.lock();
        // SAFETY: its queue pair held it, so there is none. It waits until its events are acknowledged, which happens
        // under the same lock as they are got, so it waits for nobody.
        unsafe { (self.channel.verbs.cm.rdma_destroy_id)(self.raw.as_ptr()) };
    }
}

/// An address as C has it, to be passed to one call.
type CallWithAddress = unsafe extern "C" fn(*mut ffi::rdma_cm_id, *mut libc::sockaddr) -> c_int;

impl CmId {
    /// A new identifier, for a client or a listener.
    pub fn new(channel: &Arc<EventChannel>) -> Result<Self, VerbsError> {
        let key = CmIdKey::next();
        let mut raw = null_mut();
        let create = channel.verbs.cm.rdma_create_id;
        // SAFETY: a channel, and room for the identifier.
        let result =
            unsafe { create(channel.raw.as_ptr(), &raw mut raw, key.as_context(), ffi::RDMA_PS_TCP) };
        zero("rdma_create_id", result)?;
        Ok(Self::from_parts(not_null("rdma_create_id", raw)?, channel, key))
    }

    fn from_parts(raw: NonNull<ffi::rdma_cm_id>, channel: &Arc<EventChannel>, key: CmIdKey) -> Self {
        Self(Arc::new(IdInner { raw, channel: Arc::clone(channel), key, context: OnceLock::new() }))
    }

    pub(crate) fn inner(&self) -> &Arc<IdInner> {
        &self.0
    }

    /// Which one it is, as in [`Event::id`].
    pub fn key(&self) -> CmIdKey {
        self.0.key
    }

    fn cm(&self) -> &'static ffi::Rdmacm {
        &self.0.channel.verbs.cm
    }

    /// Runs a call about this identifier under the channel's lock.
    fn call<R>(&self, call: impl FnOnce(&'static ffi::Rdmacm, *mut ffi::rdma_cm_id) -> R) -> R {
        let _calls = self.0.channel.calls.lock();
        call(self.cm(), self.0.raw.as_ptr())
    }

    /// The device that the connection goes over, which its memory and queues have to be of; an error before the address
    /// is resolved, and on a listener on all addresses.
    pub fn context(&self) -> Result<Arc<Context>, VerbsError> {
        if let Some(context) = self.0.context.get() {
            return Ok(Arc::clone(context));
        }
        let raw = self.call(|_, id| {
            // SAFETY: an identifier, under the lock.
            unsafe { (*id).verbs }
        });
        let Some(raw) = NonNull::new(raw) else {
            return Err(VerbsError::invalid("rdma_cm_id", "it is not bound to a device yet"));
        };
        let context = self.0.channel.verbs.context_of_cm(raw)?;
        Ok(Arc::clone(self.0.context.get_or_init(|| context)))
    }

    /// The device's port, counted from 1; 0 before there is a device.
    pub fn port(&self) -> u8 {
        self.call(|_, id| {
            // SAFETY: an identifier, under the lock.
            unsafe { (*id).port_num }
        })
    }

    /// Its own address, once it has one.
    pub fn local_address(&self) -> Option<SocketAddr> {
        sockaddr::from_c(&self.call(|_, id| {
            // SAFETY: an identifier, under the lock.
            unsafe { (*id).route.addr.src_storage }
        }))
    }

    /// The peer's address, once there is one.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        sockaddr::from_c(&self.call(|_, id| {
            // SAFETY: an identifier, under the lock.
            unsafe { (*id).route.addr.dst_storage }
        }))
    }

    /// Takes the address `local`, of which the port may be 0: any. Each device has addresses of its own.
    pub fn bind(&self, local: SocketAddr) -> Result<(), VerbsError> {
        let mut local = sockaddr::to_c(local);
        let bind: CallWithAddress = self.cm().rdma_bind_addr;
        let result = self.call(|_, id| {
            // SAFETY: an identifier and an address.
            unsafe { bind(id, (&raw mut local).cast()) }
        });
        zero("rdma_bind_addr", result)
    }

    /// Waits for connections, [`EventKind::ConnectRequest`], of which `backlog` may be waiting.
    pub fn listen(&self, backlog: u16) -> Result<(), VerbsError> {
        let result = self.call(|cm, id| {
            // SAFETY: an identifier.
            unsafe { (cm.rdma_listen)(id, backlog.into()) }
        });
        zero("rdma_listen", result)
    }

    /// Finds the device and address that lead to `peer`, from `local` if that is given. Ends in
    /// [`EventKind::AddressResolved`] or [`EventKind::AddressError`], within `limit`.
    pub fn resolve_address(
        &self,
        local: Option<SocketAddr>,
        peer: SocketAddr,
        limit: Duration,
    ) -> Result<(), VerbsError> {
        let mut local = local.map(sockaddr::to_c);
        let local = local.as_mut().map_or(null_mut(), |local| (&raw mut *local).cast());
        let mut peer = sockaddr::to_c(peer);
        let result = self.call(|cm, id| {
            // SAFETY: an identifier, and two addresses of which the first may be null.
            unsafe { (cm.rdma_resolve_addr)(id, local, (&raw mut peer).cast(), milliseconds(limit)) }
        });
        zero("rdma_resolve_addr", result)
    }

    /// Finds the route to the peer whose address is resolved. Ends in [`EventKind::RouteResolved`] or
    /// [`EventKind::RouteError`], within `limit`.
    pub fn resolve_route(&self, limit: Duration) -> Result<(), VerbsError> {
        let result = self.call(|cm, id| {
            // SAFETY: an identifier.
            unsafe { (cm.rdma_resolve_route)(id, milliseconds(limit)) }
        });
        zero("rdma_resolve_route", result)
    }

    /// How long the device waits for an answer to a packet, 4.096 us x 2^`timeout`, 1 to 31, before it sends it again.
    /// To be set before the queue pair is connected, on either side; compare with [`crate::QueuePair::settings`].
    /// librdmacm's own choice stalls for seconds on each lost packet.
    pub fn set_ack_timeout(&self, timeout: u8) -> Result<(), VerbsError> {
        self.set_option(ffi::RDMA_OPTION_ID_ACK_TIMEOUT, timeout)
    }

    /// The type of service (DSCP and ECN bits) of its packets.
    pub fn set_type_of_service(&self, tos: u8) -> Result<(), VerbsError> {
        self.set_option(ffi::RDMA_OPTION_ID_TOS, tos)
    }

    /// Whether another may listen on the address while old connections of it end.
    pub fn set_reuse_address(&self, reuse: bool) -> Result<(), VerbsError> {
        self.set_option(ffi::RDMA_OPTION_ID_REUSEADDR, c_int::from(reuse))
    }

    fn set_option<T>(&self, option: c_int, mut value: T) -> Result<(), VerbsError> {
        let result = self.call(|cm, id| {
            let value = (&raw mut value).cast();
            // SAFETY: an identifier, and a value of the length said.
            unsafe { (cm.rdma_set_option)(id, ffi::RDMA_OPTION_ID, option, value, size_of::<T>()) }
        });
        zero("rdma_set_option", result)
    }

    /// Before what librdmacm does without looking whether there is a device.
    fn with_device(&self) -> Result<(), ConnectionError> {
        self.context().map(|_| ()).map_err(ConnectionError::from)
    }

    /// Before what brings the queue pair on.
    fn with_queue_pair(&self) -> Result<(), ConnectionError> {
        self.with_device()?;
        let none = self.call(|_, id| {
            // SAFETY: an identifier, under the lock.
            unsafe { (*id).qp.is_null() }
        });
        if none { Err(ConnectionError::Order("the connection has no queue pair yet")) } else { Ok(()) }
    }

    /// Asks the peer for a connection, with at most 55 bytes of private data. Ends in [`EventKind::Established`],
    /// [`EventKind::Rejected`], [`EventKind::Unreachable`] or [`EventKind::ConnectError`]; or in nothing, if nobody
    /// serves the listener.
    pub fn connect(
        &self,
        parameters: ConnectionParameters,
        private_data: &[u8],
    ) -> Result<(), ConnectionError> {
        self.with_queue_pair()?;
        let data = PrivateData::frame(private_data, 55)?;
        let mut parameters = conn_param(parameters.checked()?, &data);
        let result = self.call(|cm, id| {
            // SAFETY: an identifier that has a device and a queue pair, and parameters that last as long as the call.
            unsafe { (cm.rdma_connect)(id, &raw mut parameters) }
        });
        Ok(zero("rdma_connect", result)?)
    }

    /// Accepts the connection that [`EventKind::ConnectRequest`] brought, with at most 195 bytes of private data. Ends
    /// in [`EventKind::Established`]. The depths must not exceed those of the request.
    pub fn accept(
        &self,
        parameters: ConnectionParameters,
        private_data: &[u8],
    ) -> Result<(), ConnectionError> {
        self.with_queue_pair()?;
        let data = PrivateData::frame(private_data, 195)?;
        let mut parameters = conn_param(parameters.checked()?, &data);
        let result = self.call(|cm, id| {
            // SAFETY: as for `connect`.
            unsafe { (cm.rdma_accept)(id, &raw mut parameters) }
        });
        Ok(zero("rdma_accept", result)?)
    }

    /// Refuses the connection that [`EventKind::ConnectRequest`] brought, with at most 147 bytes of private data.
    pub fn reject(&self, private_data: &[u8]) -> Result<(), ConnectionError> {
        let data = PrivateData::frame(private_data, 147)?;
        let result = self.call(|cm, id| {
            // SAFETY: an identifier, and as many bytes as are said.
            unsafe { (cm.rdma_reject)(id, data.as_ptr(), data.len) }
        });
        Ok(zero("rdma_reject", result)?)
    }

    /// Ends the connection: its queue pair fails, and the peer is told, as [`EventKind::Disconnected`].
    pub fn disconnect(&self) -> Result<(), ConnectionError> {
        self.with_device()?;
        let result = self.call(|cm, id| {
            // SAFETY: an identifier that has a device.
            unsafe { (cm.rdma_disconnect)(id) }
        });
        Ok(zero("rdma_disconnect", result)?)
    }
}

impl fmt::Debug for CmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CmId").field(&self.key().0).finish()
    }
}

fn conn_param(parameters: ConnectionParameters, data: &PrivateData) -> ffi::rdma_conn_param {
    ffi::rdma_conn_param {
        private_data: data.as_ptr(),
        private_data_len: data.len,
        responder_resources: parameters.depths.responder_resources,
        initiator_depth: parameters.depths.initiator_depth,
        flow_control: 0,
        retry_count: parameters.retry_count,
        rnr_retry_count: parameters.rnr_retry_count,
        srq: 0,
        qp_num: 0,
    }
}

fn milliseconds(limit: Duration) -> c_int {
    c_int::try_from(limit.as_millis()).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_hang_are_refused() {
        let depths = Depths { initiator_depth: 1, responder_resources: 1 };
        let good = ConnectionParameters::new(depths);
        assert!(good.checked().is_ok());
        let bad = [
            ConnectionParameters { retry_count: 7, ..good },
            ConnectionParameters { rnr_retry_count: 7, ..good },
            ConnectionParameters { depths: Depths { initiator_depth: 0, ..depths }, ..good },
            ConnectionParameters { depths: Depths { responder_resources: 0, ..depths }, ..good },
        ];
        assert!(bad.into_iter().all(|parameters| parameters.checked().is_err()));
    }
}
