//! Devices: listing, opening and asking them; protection domains.

use crate::error::{VerbsError, not_null, zero};
use crate::ffi;
use crate::gid::{GidEntry, gids_of_port};
use crate::library::Verbs;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::ffi::{c_char, c_int, c_uint};
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::time::Duration;

/// Of type 2, whether the device binds them to a queue pair and its domain (2A) or to the queue pair alone (2B).
const WINDOWS: c_uint = ffi::IBV_DEVICE_MEM_WINDOW_TYPE_2A | ffi::IBV_DEVICE_MEM_WINDOW_TYPE_2B;

/// What a device's atomic operations are atomic to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicCapability {
    /// It has none.
    None,
    /// To each other on this device (`IBV_ATOMIC_HCA`), and not to the CPU's.
    Device,
    /// To each other and to the CPU's (`IBV_ATOMIC_GLOB`).
    Global,
}

/// Which protocol a device speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// InfiniBand's, over its own links or over Ethernet (RoCE).
    InfiniBand,
    /// iWARP, over TCP.
    Iwarp,
    /// Another, of which Farside knows nothing.
    Other,
}

/// What a port is plugged into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkLayer {
    /// An InfiniBand fabric.
    InfiniBand,
    /// An Ethernet.
    Ethernet,
    /// It does not say.
    Unspecified,
}

/// Whether a port can carry anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortState {
    /// No link.
    Down,
    /// A link that the subnet manager has not configured yet.
    Initializing,
    /// Configured, not yet active.
    Armed,
    /// Ready.
    Active,
    /// Another number of `enum ibv_port_state`.
    Other(i32),
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Down => f.write_str("down"),
            Self::Initializing => f.write_str("initializing"),
            Self::Armed => f.write_str("armed"),
            Self::Active => f.write_str("active"),
            Self::Other(number) => write!(f, "in state {number}"),
        }
    }
}

/// What a device is and can do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceAttributes {
    /// Version of its firmware; empty for software devices.
    pub firmware: String,
    /// Who made it, as in PCI's tables.
    pub vendor: u32,
    /// What they call it.
    pub part: u32,
    /// Its atomic operations. A device without any may still accept and complete one, with rubbish.
    pub atomics: AtomicCapability,
    /// Ports, numbered from 1.
    pub ports: u8,
    /// Most queue pairs.
    pub queue_pairs_max: u32,
    /// Most work requests in one queue.
    pub work_requests_max: u32,
    /// Most entries of a completion queue.
    pub completions_max: u32,
    /// Most memory regions.
    pub memory_regions_max: u32,
    /// Most memory windows of type 2, which queue pairs bind; 0: it has none.
    pub memory_windows_max: u32,
    /// Longest memory region, bytes.
    pub memory_region_len_max: u64,
    /// Most READs and atomic operations of a peer that one queue pair answers at a time.
    pub responder_resources_max: u8,
    /// Most READs and atomic operations that one queue pair has under way at a time.
    pub initiator_depth_max: u8,
}

/// What a port is and can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortAttributes {
    /// Whether it can carry anything.
    pub state: PortState,
    /// What it is plugged into.
    pub link_layer: LinkLayer,
    /// Bytes of a packet's payload in use, 256 to 4096.
    pub mtu: u32,
    /// Longest message, bytes.
    pub message_max: u32,
    /// Address in an InfiniBand subnet; 0 elsewhere.
    pub lid: u16,
}

/// Something that happened outside any operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AsyncEvent {
    /// A port lost its link.
    PortDown(u8),
    /// A port is ready again.
    PortActive(u8),
    /// The device has failed.
    DeviceFatal,
    /// A queue pair, by its number, has failed.
    QueuePairFailed(u32),
    /// A completion queue overflowed or failed.
    CompletionQueueFailed,
    /// Another number of `enum ibv_event_type`.
    Other(i32),
}

/// A device as the kernel lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceName {
    /// Its name, as `-d` takes it.
    pub name: String,
    /// Its character device, `/dev/infiniband/` before it.
    pub device_file: String,
    /// Its protocol.
    pub transport: Transport,
}

/// A device that is open.
pub struct Context {
    // Invariant: an open context until `self` is dropped; its `device` stays valid with it.
    raw: NonNull<ffi::ibv_context>,
    verbs: &'static Verbs,
    /// Whether this opened it, and so has to close it.
    owned: bool,
    name: DeviceName,
    poll_cq: PollCq,
    notify: RequestNotification,
    post_send: ffi::PostSend,
    post_recv: ffi::PostRecv,
}

pub(crate) type PollCq = unsafe extern "C" fn(*mut ffi::ibv_cq, c_int, *mut ffi::ibv_wc) -> c_int;
pub(crate) type RequestNotification = unsafe extern "C" fn(*mut ffi::ibv_cq, c_int) -> c_int;

// SAFETY: libibverbs is thread-safe: a context may be used from all threads at once.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// Text in an array of C characters.
fn text(array: &[c_char]) -> String {
    let bytes: Vec<u8> =
        array.iter().map(|&byte| byte.cast_unsigned()).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A number that C holds in an `int` though it is never negative.
fn unsigned(number: c_int) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

fn depth(number: c_int) -> u8 {
    u8::try_from(unsigned(number)).unwrap_or(u8::MAX)
}

/// # Safety
/// `device` is a device of a list that was not freed, or of an open context.
unsafe fn name_of(device: *mut ffi::ibv_device) -> DeviceName {
    // SAFETY: by the condition above; libibverbs does not change a device once it has listed it.
    let device = unsafe { &*device };
    DeviceName {
        name: text(&device.name),
        device_file: text(&device.dev_name),
        transport: match device.transport_type {
            ffi::IBV_TRANSPORT_IB => Transport::InfiniBand,
            ffi::IBV_TRANSPORT_IWARP => Transport::Iwarp,
            _ => Transport::Other,
        },
    }
}

/// The list of devices, freed when dropped.
struct DeviceList {
    verbs: &'static Verbs,
    first: NonNull<*mut ffi::ibv_device>,
    len: usize,
}

impl DeviceList {
    fn new(verbs: &'static Verbs) -> Result<Self, VerbsError> {
        let mut len = 0;
        // SAFETY: `len` is written.
        let first = unsafe { (verbs.ibv.ibv_get_device_list)(&raw mut len) };
        let first = not_null("ibv_get_device_list", first)?;
        Ok(Self { verbs, first, len: usize::try_from(len).unwrap_or(0) })
    }

    fn devices(&self) -> &[*mut ffi::ibv_device] {
        // SAFETY: the list has `len` devices and lives until `self` is dropped.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: it is freed once, and an open context keeps its device.
        unsafe { (self.verbs.ibv.ibv_free_device_list)(self.first.as_ptr()) }
    }
}

impl Verbs {
    /// The devices that the kernel has and this process may see, in no certain order.
    pub fn devices(&'static self) -> Result<Vec<DeviceName>, VerbsError> {
        let list = DeviceList::new(self)?;
        // SAFETY: the list lives.
        Ok(list.devices().iter().map(|&device| unsafe { name_of(device) }).collect())
    }

    /// Opens the device called `name`, to look at it. For connections, [`crate::CmId::context`] is the one to use.
    pub fn open(&'static self, name: &str) -> Result<Arc<Context>, VerbsError> {
        let list = DeviceList::new(self)?;
        for &device in list.devices() {
            // SAFETY: the list lives.
            let named = unsafe { name_of(device) };
            if named.name == name {
                // SAFETY: as above.
                let raw = unsafe { (self.ibv.ibv_open_device)(device) };
                let raw = not_null("ibv_open_device", raw)?;
                // SAFETY: it was just opened, for nobody else.
                return unsafe { Context::new(self, raw, true) }.map(Arc::new);
            }
        }
        Err(VerbsError { call: "ibv_open_device", source: io::Error::from(io::ErrorKind::NotFound) })
    }

    /// The context of librdmacm's that is at `raw`.
    pub(crate) fn context_of_cm(
        &'static self,
        raw: NonNull<ffi::ibv_context>,
    ) -> Result<Arc<Context>, VerbsError> {
        let mut known = self.of_cm.lock();
        if let Some(context) = known.iter().find(|context| context.raw == raw) {
            return Ok(Arc::clone(context));
        }
        // Until a list is freed librdmacm closes none of its devices. This one never is: a connection may come over
        // any of them, and there are few.
        // SAFETY: no conditions; the number may be left out.
        let list = unsafe { (self.cm.rdma_get_devices)(null_mut()) };
        let list = not_null("rdma_get_devices", list)?;
        let mut at = list.as_ptr();
        loop {
            // SAFETY: the list ends with a null pointer, at which the loop ends.
            let device = unsafe { *at };
            if device.is_null() {
                return Err(VerbsError::invalid("rdma_get_devices", "the device is gone"));
            }
            if device == raw.as_ptr() {
                break;
            }
            // SAFETY: as above.
            at = unsafe { at.add(1) };
        }
        // SAFETY: it is in the list, so it stays open.
        let context = Arc::new(unsafe { Context::new(self, raw, false) }?);
        context.bridge_gap()?;
        known.push(Arc::clone(&context));
        Ok(context)
    }
}

impl Context {
    /// # Safety
    /// `raw` is an open context and stays open until the result is dropped, which closes it if `owned`.
    unsafe fn new(
        verbs: &'static Verbs,
        raw: NonNull<ffi::ibv_context>,
        owned: bool,
    ) -> Result<Self, VerbsError> {
        // SAFETY: by the condition above. Only the mutex in it ever changes, of which nothing is made here.
        let context = unsafe { raw.as_ref() };
        let ops = &context.ops;
        // Where the layout is another one, this is not found at its place.
        let (true, Some(poll_cq), Some(notify), Some(post_send), Some(post_recv)) = (
            context.abi_compat == ffi::VERBS_ABI_IS_EXTENDED,
            ops.poll_cq,
            ops.req_notify_cq,
            ops.post_send,
            ops.post_recv,
        ) else {
            if owned {
                // SAFETY: it is not used again.
                unsafe { (verbs.ibv.ibv_close_device)(raw.as_ptr()) };
            }
            return Err(VerbsError::invalid(
                "ibv_open_device",
                "the context is not of the layout that this build knows",
            ));
        };
        // SAFETY: an open context has a device.
        let name = unsafe { name_of(context.device) };
        let context = Self { raw, verbs, owned, name, poll_cq, notify, post_send, post_recv };
        nonblocking(context.event_fd())?;
        Ok(context)
    }

    /// To be called once, before anything is made of a context that stays open for ever.
    ///
    /// Soft-iWARP maps each queue into the process, at the first free page of the context's own count, and its library
    /// takes page 0x90 for a failure. So a queue that is never used lies across that page, from the first one on.
    fn bridge_gap(&self) -> Result<(), VerbsError> {
        const SOFT_IWARP: u32 = 0x62_6d_74;
        /// The library's completions have 32 bytes at least; this takes a megabyte or so of the kernel's memory.
        const ENTRIES: c_int = (0x90 + 1) * 4096 / 32;
        if self.attributes()?.vendor != SOFT_IWARP {
            return Ok(());
        }
        // SAFETY: an open context; the queue is left to its end.
        let queue = unsafe { (self.verbs.ibv.ibv_create_cq)(self.raw(), ENTRIES, null_mut(), null_mut(), 0) };
        not_null("ibv_create_cq", queue).map(drop)
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name.name
    }

    /// Its protocol.
    pub fn transport(&self) -> Transport {
        self.name.transport
    }

    pub(crate) fn raw(&self) -> *mut ffi::ibv_context {
        self.raw.as_ptr()
    }

    pub(crate) fn verbs(&self) -> &'static Verbs {
        self.verbs
    }

    pub(crate) fn poll_cq(&self) -> PollCq {
        self.poll_cq
    }

    pub(crate) fn request_notification(&self) -> RequestNotification {
        self.notify
    }

    pub(crate) fn post_send(&self) -> ffi::PostSend {
        self.post_send
    }

    pub(crate) fn post_recv(&self) -> ffi::PostRecv {
        self.post_recv
    }

    /// What makes and ends memory windows, if the provider can.
    pub(crate) fn windows(&self) -> Option<(ffi::AllocMw, ffi::DeallocMw)> {
        // SAFETY: the context is open, and its table is not changed any more.
        let ops = unsafe { &(*self.raw.as_ptr()).ops };
        ops.alloc_mw.zip(ops.dealloc_mw)
    }

    /// What the device is and can do.
    pub fn attributes(&self) -> Result<DeviceAttributes, VerbsError> {
        let mut attributes = MaybeUninit::<ffi::ibv_device_attr>::zeroed();
        // SAFETY: an open context, and room for the attributes.
        let result = unsafe { (self.verbs.ibv.ibv_query_device)(self.raw(), attributes.as_mut_ptr()) };
        zero("ibv_query_device", result)?;
        // SAFETY: all zeros would be valid, and it was filled in.
        let attributes = unsafe { attributes.assume_init() };
        Ok(DeviceAttributes {
            firmware: text(&attributes.fw_ver),
            vendor: attributes.vendor_id,
            part: attributes.vendor_part_id,
            atomics: match attributes.atomic_cap {
                ffi::IBV_ATOMIC_HCA => AtomicCapability::Device,
                ffi::IBV_ATOMIC_GLOB => AtomicCapability::Global,
                _ => AtomicCapability::None,
            },
            ports: attributes.phys_port_cnt,
            queue_pairs_max: unsigned(attributes.max_qp),
            work_requests_max: unsigned(attributes.max_qp_wr),
            completions_max: unsigned(attributes.max_cqe),
            memory_regions_max: unsigned(attributes.max_mr),
            memory_windows_max: if attributes.device_cap_flags & WINDOWS == 0 {
                0
            } else {
                unsigned(attributes.max_mw)
            },
            memory_region_len_max: attributes.max_mr_size,
            responder_resources_max: depth(attributes.max_qp_rd_atom),
            initiator_depth_max: depth(attributes.max_qp_init_rd_atom),
        })
    }

    /// What `port`, counted from 1, is and can do.
    pub fn port_attributes(&self, port: u8) -> Result<PortAttributes, VerbsError> {
        // Zeroed, for the function does not know the last fields.
        let mut attributes = MaybeUninit::<ffi::ibv_port_attr>::zeroed();
        // SAFETY: an open context, and room for the attributes.
        let result = unsafe { (self.verbs.ibv.ibv_query_port)(self.raw(), port, attributes.as_mut_ptr()) };
        zero("ibv_query_port", result)?;
        // SAFETY: all zeros would be valid, and it was filled in.
        let attributes = unsafe { attributes.assume_init() };
        Ok(PortAttributes {
            state: match attributes.state {
                ffi::IBV_PORT_DOWN => PortState::Down,
                ffi::IBV_PORT_INIT => PortState::Initializing,
                ffi::IBV_PORT_ARMED => PortState::Armed,
                ffi::IBV_PORT_ACTIVE => PortState::Active,
                other => PortState::Other(other),
            },
            link_layer: match attributes.link_layer {
                ffi::IBV_LINK_LAYER_INFINIBAND => LinkLayer::InfiniBand,
                ffi::IBV_LINK_LAYER_ETHERNET => LinkLayer::Ethernet,
                _ => LinkLayer::Unspecified,
            },
            mtu: match attributes.active_mtu {
                code @ 1..=5 => 128 << code,
                _ => 0,
            },
            message_max: attributes.max_msg_sz,
            lid: attributes.lid,
        })
    }

    /// The addresses of `port`, counted from 1.
    pub fn gids(&self, port: u8) -> io::Result<Vec<GidEntry>> {
        gids_of_port(self.name(), port)
    }

    /// Readable when [`Context::next_event`] has something to say.
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the context is open.
        let fd = unsafe { (*self.raw.as_ptr()).async_fd };
        // SAFETY: its descriptor is open as long as it is.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    /// The next thing that happened outside any operation, or `None` if nothing has.
    pub fn next_event(&self) -> Result<Option<AsyncEvent>, VerbsError> {
        let mut event = MaybeUninit::<ffi::ibv_async_event>::zeroed();
        // SAFETY: an open context, and room for the event.
        let result = unsafe { (self.verbs.ibv.ibv_get_async_event)(self.raw(), event.as_mut_ptr()) };
        match zero("ibv_get_async_event", result) {
            Err(error) if error.source.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            result => result?,
        }
        // SAFETY: it was filled in.
        let mut event = unsafe { event.assume_init() };
        let port = || {
            // SAFETY: events of a port have its number.
            u8::try_from(unsafe { event.element.port_num }).unwrap_or(0)
        };
        let told = match event.event_type {
            ffi::IBV_EVENT_PORT_ERR => AsyncEvent::PortDown(port()),
            ffi::IBV_EVENT_PORT_ACTIVE => AsyncEvent::PortActive(port()),
            ffi::IBV_EVENT_DEVICE_FATAL => AsyncEvent::DeviceFatal,
            ffi::IBV_EVENT_CQ_ERR => AsyncEvent::CompletionQueueFailed,
            ffi::IBV_EVENT_QP_FATAL | ffi::IBV_EVENT_QP_REQ_ERR | ffi::IBV_EVENT_QP_ACCESS_ERR => {
                // SAFETY: events of a queue pair point at it.
                let qp = unsafe { event.element.qp };
                // SAFETY: it is not destroyed before its event is acknowledged.
                AsyncEvent::QueuePairFailed(unsafe { (*qp).qp_num })
            }
            other => AsyncEvent::Other(other),
        };
        // SAFETY: as it was got, and once.
        unsafe { (self.verbs.ibv.ibv_ack_async_event)(&raw mut event) };
        Ok(Some(told))
    }
}

/// Lets reading from `fd` say that there is nothing, rather than wait.
pub(crate) fn nonblocking(fd: impl AsFd) -> Result<(), VerbsError> {
    rustix::io::ioctl_fionbio(fd, true)
        .map_err(|error| VerbsError { call: "ioctl(FIONBIO)", source: error.into() })
}

/// Waits until reading from `fd` finds something, at most for `limit`, or until a signal.
pub(crate) fn wait_readable(fd: BorrowedFd<'_>, limit: Duration) -> Result<(), VerbsError> {
    let limit = Timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    };
    match poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&limit)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(VerbsError { call: "poll", source: error.into() }),
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: whatever was made of it held it, so nothing is left of that.
            unsafe { (self.verbs.ibv.ibv_close_device)(self.raw()) };
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// Which memory regions a queue pair may touch: those of its own domain.
pub struct ProtectionDomain {
    // Invariant: a protection domain of `context` until `self` is dropped.
    raw: NonNull<ffi::ibv_pd>,
    context: Arc<Context>,
}

// SAFETY: libibverbs is thread-safe.
unsafe impl Send for ProtectionDomain {}
// SAFETY: as above.
unsafe impl Sync for ProtectionDomain {}

impl ProtectionDomain {
    /// A new one, on `context`.
    pub fn new(context: &Arc<Context>) -> Result<Arc<Self>, VerbsError> {
        // SAFETY: an open context.
        let raw = unsafe { (context.verbs.ibv.ibv_alloc_pd)(context.raw()) };
        Ok(Arc::new(Self { raw: not_null("ibv_alloc_pd", raw)?, context: Arc::clone(context) }))
    }

    /// The device it is on.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn raw(&self) -> *mut ffi::ibv_pd {
        self.raw.as_ptr()
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        // SAFETY: whatever was made of it held it, so nothing is left of that. Should the kernel refuse, it keeps it
        // until the process ends.
        unsafe { (self.context.verbs.ibv.ibv_dealloc_pd)(self.raw()) };
    }
}

impl fmt::Debug for ProtectionDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProtectionDomain").field("device", &self.context.name()).finish_non_exhaustive()
    }
}
