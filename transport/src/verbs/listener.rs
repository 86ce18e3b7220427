//! The server's side: its memory as a device reaches it, and who may connect.
//!
//! A queue pair belongs to a session, by the ticket that it presents when it connects, and is for one-sided operations
//! or for the session's messages. When the session ends its queue pairs are destroyed, which is the fence of rule T5: a
//! destroyed queue pair drops what still arrives for it.

use super::choice::ChoiceError;
use super::dial::Dial;
use super::error::SetupError;
use super::introduction::{Introduction, Purpose};
use super::lane::VerbsLane;
use super::pipe::{Pipe, Prepared, Side};
use super::queue::Queue;
use super::remote::RemoteShard;
use super::settings::Rdma;
use super::windows::{self, Blocks, WindowError, Windows};
use crate::capabilities::AtomicScope;
use crate::fabric::Lane as _;
use crate::region::Region;
use farside_hashtable::{Chain, Step};
use farside_protocol::limits::GRANULE;
use farside_protocol::wire::{QueuePairs, RemoteMemory, Rights};
use farside_protocol::{Block, Class, Geometry, Life};
use farside_verbs_sys::{
    Access, AtomicCapability, CmId, CmIdKey, CompletionQueue, ConnectionParameters, Context, Depths, Event,
    EventChannel, EventKind, MemoryRegion, PortState, ProtectionDomain, QueuePair, QueuePairLimits,
    Transport, Verbs,
};
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Connections that wait to be accepted.
const BACKLOG: u16 = 256;

/// Most queue pairs of one session for one-sided operations: one for each thread of a client.
const PAIRS_MAX: usize = 256;

/// How long the server waits for a connection to itself.
const SELF_LIMIT: Duration = Duration::from_secs(5);

/// An RDMA device that is to serve a table.
#[derive(Debug)]
pub struct Device {
    verbs: &'static Verbs,
    channel: Arc<EventChannel>,
    id: CmId,
    context: Arc<Context>,
    atomics: AtomicScope,
    has_windows: bool,
}

impl Device {
    /// The device that has `address`, of which the port may be 0: any.
    pub fn at(address: SocketAddr) -> Result<Self, SetupError> {
        let verbs = Verbs::load()?;
        let channel = EventChannel::new(verbs)?;
        let id = CmId::new(&channel)?;
        let no_device = |source| SetupError::NoDevice { address: address.ip(), source };
        id.set_reuse_address(true)?;
        id.bind(address).map_err(no_device)?;
        let context = id.context().map_err(no_device)?;
        let state = context.port_attributes(id.port())?.state;
        if state != PortState::Active {
            let (name, port) = (context.name().to_owned(), id.port());
            return Err(ChoiceError::PortDown { name, port, state }.into());
        }
        let atomics = match context.attributes()?.atomics {
            AtomicCapability::None => AtomicScope::None,
            AtomicCapability::Device => AtomicScope::Device,
            AtomicCapability::Global => AtomicScope::Global,
        };
        Ok(Self { verbs, channel, id, context, atomics, has_windows: false })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.context.name()
    }

    /// Whether its protocol goes over TCP.
    pub fn is_iwarp(&self) -> bool {
        self.context.transport() == Transport::Iwarp
    }

    /// To what its atomics are atomic.
    pub fn atomics(&self) -> AtomicScope {
        self.atomics
    }

    /// The same for clients none of which changes the memory itself: without atomics, and so with no right to WRITE.
    #[must_use]
    pub fn for_reading(self) -> Self {
        Self { atomics: AtomicScope::None, ..self }
    }

    /// The same with memory windows, which bound what a client WRITEs to the blocks that it leased.
    pub fn with_windows(self) -> Result<Self, SetupError> {
        if self.atomics == AtomicScope::None || self.context.attributes()?.memory_windows_max == 0 {
            return Err(SetupError::NoWindows { device: self.name().into() });
        }
        Ok(Self { has_windows: true, ..self })
    }

    /// What clients that write may do to index and heap.
    fn writers_access(&self) -> (Access, Access) {
        // Registered for atomics only where the device has them.
        if self.atomics == AtomicScope::None {
            return (Access::REMOTE_READ, Access::REMOTE_READ);
        }
        let swap = Access::REMOTE_READ | Access::REMOTE_ATOMIC;
        (swap, swap | if self.has_windows { Access::WINDOWS } else { Access::REMOTE_WRITE })
    }

    /// Registers `shards` and accepts queue pairs to them, on a thread of its own.
    pub fn listen(
        self,
        shards: impl IntoIterator<Item = (Arc<Region>, Geometry)>,
    ) -> Result<Listener, SetupError> {
        let (writers, readers) =
            (ProtectionDomain::new(&self.context)?, ProtectionDomain::new(&self.context)?);
        let access = self.writers_access();
        let register = |(region, geometry)| Registration::new(&writers, &readers, &region, geometry, access);
        let shards = shards.into_iter().map(register).collect::<Result<Box<[_]>, _>>()?;
        self.id.listen(BACKLOG)?;
        let address = self.id.local_address().ok_or_else(|| SetupError::Address(String::new()))?;
        let stop = Arc::new(
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(std::io::Error::from)?,
        );
        let shared = Arc::new(Shared {
            address,
            atomics: self.atomics,
            verbs: self.verbs,
            writers,
            readers,
            messages: ProtectionDomain::new(&self.context)?,
            shards,
            windows: self.has_windows.then(Windows::default),
            guests: Mutex::default(),
        });
        let thread = thread::Builder::new().name("farside-rdma".into()).spawn({
            let (shared, stop) = (shared.clone(), stop.clone());
            let (channel, id) = (self.channel, self.id);
            move || accept(&shared, &channel, &id, &stop)
        })?;
        Ok(Listener(Arc::new(Serving { shared, stop, thread: Some(thread) })))
    }
}

/// One shard's registrations.
struct Registration {
    remote: RemoteShard,
    memory: RemoteMemory,
    for_readers: RemoteMemory,
    heap_at: u64,
    _index: MemoryRegion<Arc<Region>>,
    heap: MemoryRegion<Arc<Region>>,
    _all: MemoryRegion<Arc<Region>>,
}

impl Registration {
    fn new(
        writers: &Arc<ProtectionDomain>,
        readers: &Arc<ProtectionDomain>,
        region: &Arc<Region>,
        geometry: Geometry,
        (index_access, heap_access): (Access, Access),
    ) -> Result<Self, SetupError> {
        let context = writers.context();
        check_len(context.name(), region.len(), context.attributes()?.memory_region_len_max)?;
        let (heap_at, end) = (geometry.heap_at() as usize, region.len() as usize);
        let index = MemoryRegion::of_range(writers, region.clone(), 0..heap_at, index_access)?;
        let heap = MemoryRegion::of_range(writers, region.clone(), heap_at..end, heap_access)?;
        let all = MemoryRegion::new(readers, region.clone(), Access::REMOTE_READ)?;
        let address = index.remote().address;
        let memory = RemoteMemory { address, index_key: index.remote().key, heap_key: heap.remote().key };
        let key = all.remote().key;
        Ok(Self {
            remote: RemoteShard::new(memory, &geometry),
            memory,
            for_readers: RemoteMemory { address, index_key: key, heap_key: key },
            heap_at: geometry.heap_at(),
            _index: index,
            heap,
            _all: all,
        })
    }
}

/// Readers get all of a shard as one region.
fn check_len(device: &str, len: u64, max: u64) -> Result<(), SetupError> {
    if len > max { Err(SetupError::ShardTooLong { device: device.into(), len, max }) } else { Ok(()) }
}

/// A session that may connect queue pairs.
struct Guest {
    rights: Rights,
    connected: Vec<Connected>,
    pipe: Messages,
}

/// What has become of a session's queue pair for messages.
enum Messages {
    /// It is not to have one, or none any more.
    None,
    Awaited(oneshot::Sender<Arc<Pipe>>),
    Connected(Arc<Pipe>),
}

/// Fields in the order in which they go.
struct Connected {
    pair: Arc<QueuePair>,
    id: CmId,
}

struct Shared {
    address: SocketAddr,
    atomics: AtomicScope,
    verbs: &'static Verbs,
    writers: Arc<ProtectionDomain>,
    readers: Arc<ProtectionDomain>,
    /// Of no memory but that of the messages.
    messages: Arc<ProtectionDomain>,
    shards: Box<[Registration]>,
    windows: Option<Windows>,
    guests: Mutex<HashMap<u128, Guest>>,
}

/// Accepts queue pairs until its last clone is dropped.
#[derive(Clone)]
pub struct Listener(Arc<Serving>);

struct Serving {
    shared: Arc<Shared>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Where queue pairs connect.
    pub fn address(&self) -> SocketAddr {
        self.0.shared.address
    }

    /// Lets queue pairs of a session in that present `ticket`, with its `rights`. Returns what its client must know.
    pub fn invite(&self, ticket: u128, rights: Rights) -> QueuePairs {
        let shared = &self.0.shared;
        let guest = Guest { rights, connected: Vec::new(), pipe: Messages::None };
        shared.guests.lock().insert(ticket, guest);
        let memory = shared.shards.iter().map(|shard| match rights {
            Rights::Read => shard.for_readers,
            Rights::ReadWrite => shard.memory,
        });
        QueuePairs { ticket, atomics: shared.atomics, memory: memory.collect() }
    }

    /// Lets in one queue pair for messages too, of the session that was [invited](Self::invite) with `ticket`, and
    /// returns it when it connects; `None`: the session is fenced before.
    pub fn expect_pipe(&self, ticket: u128) -> impl Future<Output = Option<Arc<Pipe>>> + use<> {
        let (sender, pipe) = oneshot::channel();
        if let Some(guest) = self.0.shared.guests.lock().get_mut(&ticket) {
            guest.pipe = Messages::Awaited(sender);
        }
        async { pipe.await.ok() }
    }

    /// Destroys the queue pairs of a session and lets no other of it in: when this returns, nothing that it posted can
    /// execute any more, no message of it is read and none goes to it.
    pub fn fence(&self, ticket: u128) {
        let guest = self.0.shared.guests.lock().remove(&ticket);
        if let Some(guest) = guest {
            self.0.shared.end(guest);
        }
    }

    /// Lets a session WRITE by its queue pair `number` into blocks that are leased to it. Returns the keys for that, in
    /// the order of the lives; none where it needs none.
    pub fn grant(
        &self,
        ticket: u128,
        number: u32,
        shard: usize,
        class: Class,
        lives: &[Life],
    ) -> Result<Vec<u32>, WindowError> {
        let Shared { windows: Some(windows), shards, .. } = &*self.0.shared else { return Ok(Vec::new()) };
        let Registration { heap, heap_at, .. } = &shards[shard];
        windows.bind(ticket, number, &Blocks { shard, len: class.size(), lives, heap, heap_at: *heap_at })
    }

    /// Takes that away, when a session's leases of these lives end.
    pub fn revoke(&self, ticket: u128, shard: usize, lives: impl Iterator<Item = Life>) {
        if let Some(windows) = &self.0.shared.windows {
            windows.end(ticket, shard, lives);
        }
    }

    /// Takes it away from whoever still has it over these blocks, which are leased anew.
    pub fn reclaim(&self, shard: usize, lives: &[Life]) {
        if let Some(windows) = &self.0.shared.windows {
            windows.reclaim(shard, lives);
        }
    }

    /// How many queue pairs are connected.
    pub fn connected(&self) -> usize {
        let of_guest =
            |guest: &Guest| guest.connected.len() + usize::from(matches!(guest.pipe, Messages::Connected(_)));
        self.0.shared.guests.lock().values().map(of_guest).sum()
    }

    /// How many memory windows are bound; `None`: WRITEs are not bounded by any.
    pub fn windows(&self) -> Option<usize> {
        self.0.shared.windows.as_ref().map(Windows::bound)
    }

    /// Connects this process to its own memory. The ticket is to be [fenced](Self::fence) when the queue is dropped.
    pub(super) fn connect_to_itself(&self) -> Result<(u128, Queue), SetupError> {
        let shared = &self.0.shared;
        let ticket = fresh_ticket();
        self.invite(ticket, Rights::ReadWrite);
        // From its own address: routing may know a way round over another device.
        let rdma = Rdma { device: Some(shared.address.ip().into()), ..Rdma::default() };
        let dial = Dial { verbs: shared.verbs, peer: shared.address, ticket, limit: SELF_LIMIT, rdma };
        dial.queue().map(|queue| (ticket, queue)).inspect_err(|_| self.fence(ticket))
    }

    /// Whether the device bounds a WRITE to its window, and not to all of the region that the window is over; tried on
    /// memory that nobody uses yet. `None`: there are no windows.
    pub fn bounds_windows(&self) -> Result<Option<bool>, SetupError> {
        if self.0.shared.windows.is_none() {
            return Ok(None);
        }
        let (ticket, queue) = self.connect_to_itself()?;
        let tried = self.write_outside(ticket, &queue);
        drop(queue);
        self.fence(ticket);
        Ok(Some(!tried?))
    }

    /// WRITEs a word of zeros behind a window over the first granule of a heap; tells whether that was carried out.
    fn write_outside(&self, ticket: u128, queue: &Queue) -> Result<bool, SetupError> {
        let Registration { remote, heap_at, .. } = &self.0.shared.shards[0];
        let class = Class::all().next().expect("there is a smallest");
        let block = Block::new(heap_at / GRANULE).expect("the heap begins with a block");
        let keys = self.grant(ticket, queue.peer()?, 0, class, &[Life { block, count: 1 }])?;
        let mut lane = VerbsLane::default();
        lane.outgoing(8)[..8].fill(0);
        let mut chain = Chain::from_iter([Step::write(heap_at + class.size() as u64, 8)]);
        if queue.post(&mut lane, &remote.through(keys[0]), &chain).is_err() {
            return Ok(false);
        }
        let began = Instant::now();
        loop {
            match queue.poll(&mut lane, &mut chain) {
                Some(outcome) => return Ok(outcome.is_ok()),
                None if began.elapsed() > SELF_LIMIT => {
                    queue.abandon(&mut lane);
                    return Ok(false);
                }
                None => thread::yield_now(),
            }
        }
    }

    pub(super) fn remote_shard(&self, shard: usize) -> Option<&RemoteShard> {
        self.0.shared.shards.get(shard).map(|shard| &shard.remote)
    }
}

/// The pause after an event that could not be had.
const AFTER_ERROR: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

fn accept(shared: &Shared, channel: &Arc<EventChannel>, listener: &CmId, stop: &OwnedFd) {
    loop {
        let mut ready = [PollFd::new(channel, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        if poll(&mut ready, None).is_err() {
            continue;
        }
        if ready[1].revents().contains(PollFlags::IN) {
            return;
        }
        match channel.next() {
            Ok(Some(event)) => shared.handle(event, listener.key()),
            Ok(None) => {}
            // It tells of one connection, such as one whose client gave up meanwhile. In case it does not, this is no loop
            // without a rest.
            Err(error) => {
                tracing::warn!("a queue pair's event was lost: {error}");
                let _ = poll(&mut ready[1..], Some(&AFTER_ERROR));
            }
        }
    }
}

impl Shared {
    fn handle(&self, mut event: Event, listener: CmIdKey) {
        match event.kind {
            EventKind::ConnectRequest => {
                if let Some(id) = event.take_request()
                    && let Err(error) = self.admit(id, &event)
                {
                    tracing::warn!("a queue pair was not let in: {error}");
                }
            }
            EventKind::Established => {}
            EventKind::DeviceRemoval if event.id == listener => {
                tracing::error!("the RDMA device is going away: restart the server without it");
            }
            // Whatever else happens to a connection is its end, or comes after it.
            _ => self.forget(event.id),
        }
    }

    /// Connects a queue pair that presents a ticket, under the lock: a fence comes before all of it or after.
    fn admit(&self, id: CmId, event: &Event) -> Result<(), SetupError> {
        let Some(introduction) = event.private_data().and_then(Introduction::decode) else {
            return Ok(id.reject(&[])?);
        };
        let mut guests = self.guests.lock();
        match (guests.get_mut(&introduction.ticket), introduction.purpose) {
            (Some(guest), Purpose::OneSided) if guest.connected.len() < PAIRS_MAX => {
                self.admit_one_sided(guest, introduction.ticket, id, event)
            }
            (Some(guest), Purpose::Messages) if matches!(guest.pipe, Messages::Awaited(_)) => {
                self.admit_pipe(guest, id, event)
            }
            _ => Ok(id.reject(&[])?),
        }
    }

    fn admit_one_sided(
        &self,
        guest: &mut Guest,
        ticket: u128,
        id: CmId,
        event: &Event,
    ) -> Result<(), SetupError> {
        let domain = match guest.rights {
            Rights::Read => &self.readers,
            Rights::ReadWrite => &self.writers,
        };
        // Windows are all that this side posts.
        let send_requests = if self.windows.is_some() { windows::BATCH as u32 } else { 1 };
        let completions = CompletionQueue::new(domain.context(), send_requests + 1)?;
        let limits = QueuePairLimits { send_requests, receive_requests: 1, inline_len: 0 };
        let _ = id.set_ack_timeout(Rdma::default().ack_timeout);
        let pair = Arc::new(id.create_queue_pair(domain, &completions, &completions, limits)?);
        if let (Some(windows), Rights::ReadWrite) = (&self.windows, guest.rights) {
            // Before the client hears that it is connected, and asks for some.
            windows.enter(ticket, &pair);
        }
        accept_request(&id, event).inspect_err(|_| self.end_windows(&pair))?;
        guest.connected.push(Connected { pair, id });
        Ok(())
    }

    fn admit_pipe(&self, guest: &mut Guest, id: CmId, event: &Event) -> Result<(), SetupError> {
        let _ = id.set_ack_timeout(Rdma::default().ack_timeout);
        let prepared = Prepared::new(&id, &self.messages, Side::Server)?;
        accept_request(&id, event)?;
        let pipe = prepared.connected(id);
        let awaited = std::mem::replace(&mut guest.pipe, Messages::Connected(pipe.clone()));
        if let Messages::Awaited(session) = awaited {
            // A session that does not wait any more is about to be fenced.
            let _ = session.send(pipe);
        }
        Ok(())
    }

    fn forget(&self, id: CmIdKey) {
        for guest in self.guests.lock().values_mut() {
            let gone = guest.connected.extract_if(.., |connected| connected.id.key() == id);
            gone.for_each(|Connected { pair, .. }| self.end_windows(&pair));
            if let Messages::Connected(pipe) = &guest.pipe
                && pipe.key() == Some(id)
            {
                pipe.cut();
                guest.pipe = Messages::None;
            }
        }
    }

    /// Destroys all that a session has connected.
    fn end(&self, guest: Guest) {
        for Connected { id, pair } in &guest.connected {
            self.end_windows(pair);
            // Tells the client; whether it hears does not matter.
            let _ = id.disconnect();
        }
        if let Messages::Connected(pipe) = guest.pipe {
            pipe.cut();
        }
    }

    /// Before the queue pair is destroyed.
    fn end_windows(&self, pair: &QueuePair) {
        if let Some(windows) = &self.windows {
            windows.leave(pair.number());
        }
    }
}

fn accept_request(id: &CmId, event: &Event) -> Result<(), SetupError> {
    let depths = Depths::of_device(&id.context()?.attributes()?).min(event.depths);
    Ok(id.accept(ConnectionParameters::new(depths), &[])?)
}

/// A number that nobody guesses.
fn fresh_ticket() -> u128 {
    let mut bytes = [0; 16];
    // Fails only before the system has gathered entropy, which it waits for.
    while rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) != Ok(bytes.len()) {}
    u128::from_le_bytes(bytes)
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // A counter that is never read cannot be full.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
        for (_, guest) in self.shared.guests.lock().drain() {
            self.shared.end(guest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_that_the_device_cannot_register_says_what_to_change() {
        assert!(check_len("mlx5_0", 1 << 30, 1 << 30).is_ok());
        let error = check_len("mlx5_0", (1 << 30) + 4096, 1 << 30).unwrap_err().to_string();
        assert!(error.contains("1073741824 bytes that mlx5_0") && error.contains("--shards"), "{error}");
    }
}
