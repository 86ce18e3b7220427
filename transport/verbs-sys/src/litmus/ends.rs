//! The two ends of a connection of this process to itself, and their memory.

use crate::{
    Access, AtomicCapability, Buffer, CmId, Completion, CompletionQueue, ConnectionParameters, Depths, Event,
    EventChannel, EventKind, MemoryRegion, Operation, ProtectionDomain, QueuePair, QueuePairLimits,
    RemoteAddress, SendFlags, SendList, Status, Verbs,
};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

pub(super) type Result<T> = std::result::Result<T, super::Error>;

/// So that a hang is a failure.
pub(super) const LIMIT: Duration = Duration::from_secs(20);
pub(super) const LIMITS: QueuePairLimits =
    QueuePairLimits { send_requests: 64, receive_requests: 8, inline_len: 64 };
pub(super) const ACK_TIMEOUT: u8 = 12;
pub(super) const HEAP_LEN: usize = 64 << 10;

/// One end of a connection, with a buffer of its own.
pub(super) struct End {
    pub(super) channel: Arc<EventChannel>,
    pub(super) id: CmId,
    pub(super) queue_pair: QueuePair,
    pub(super) queue: Arc<CompletionQueue>,
    pub(super) buffer: MemoryRegion<Buffer>,
}

/// A server's memory: words for atomic operations, and a heap.
pub(super) struct Shard {
    pub(super) index: MemoryRegion<Buffer>,
    pub(super) heap: MemoryRegion<Buffer>,
}

/// Where a shard's regions are for its peers.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    pub(super) index: RemoteAddress,
    pub(super) heap: RemoteAddress,
}

impl Keys {
    fn to_bytes(self) -> Vec<u8> {
        [self.index, self.heap]
            .iter()
            .flat_map(|at| [at.address.to_le_bytes().to_vec(), at.key.to_le_bytes().to_vec()].concat())
            .collect()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let at = |start: usize| {
            Some(RemoteAddress {
                address: u64::from_le_bytes(bytes.get(start..start + 8)?.try_into().ok()?),
                key: u32::from_le_bytes(bytes.get(start + 8..start + 12)?.try_into().ok()?),
            })
        };
        (bytes.len() == 24).then_some(Self { index: at(0)?, heap: at(12)? })
    }
}

pub(super) fn expect_event(channel: &Arc<EventChannel>, kind: EventKind) -> Result<Event> {
    let began = Instant::now();
    while began.elapsed() < LIMIT {
        match channel.wait(Duration::from_millis(500))? {
            Some(event) if event.kind == kind => return Ok(event),
            Some(event) if event.kind == EventKind::TimewaitExit => {}
            Some(event) => return Err(format!("{kind:?} expected, {event:?} came").into()),
            None => {}
        }
    }
    Err(format!("{kind:?} did not come").into())
}

impl End {
    /// With a queue pair on `id`, which has a device.
    pub(super) fn new(channel: &Arc<EventChannel>, id: CmId, domain: &Arc<ProtectionDomain>) -> Result<Self> {
        let queue =
            CompletionQueue::with_events(domain.context(), LIMITS.send_requests + LIMITS.receive_requests)?;
        let queue_pair = id.create_queue_pair(domain, &queue, &queue, LIMITS)?;
        let buffer = MemoryRegion::new(domain, Buffer::new(HEAP_LEN), Access::LOCAL_WRITE)?;
        Ok(Self { channel: Arc::clone(channel), id, queue_pair, queue, buffer })
    }

    pub(super) fn parameters(id: &CmId) -> Result<ConnectionParameters> {
        Ok(ConnectionParameters::new(Depths::of_device(&id.context()?.attributes()?)))
    }

    /// Connects to the server at `address`, and gets its keys.
    pub(super) fn connect(from: IpAddr, address: SocketAddr) -> Result<(Self, Keys)> {
        let channel = EventChannel::new(Verbs::load()?)?;
        let id = CmId::new(&channel)?;
        id.resolve_address(Some(SocketAddr::new(from, 0)), address, LIMIT)?;
        expect_event(&channel, EventKind::AddressResolved)?;
        id.set_ack_timeout(ACK_TIMEOUT)?;
        id.resolve_route(LIMIT)?;
        expect_event(&channel, EventKind::RouteResolved)?;
        let domain = ProtectionDomain::new(&id.context()?)?;
        let end = Self::new(&channel, id, &domain)?;
        end.id.connect(Self::parameters(&end.id)?, b"hello")?;
        let event = expect_event(&channel, EventKind::Established)?;
        let keys = event.private_data().and_then(Keys::from_bytes).ok_or("no keys came")?;
        Ok((end, keys))
    }

    /// The next completion, which is retired. It does not spin for long: a software device needs the processor.
    pub(super) fn complete(&self) -> Result<Completion> {
        let mut completions = [Completion::EMPTY];
        let began = Instant::now();
        while self.queue.poll(&mut completions)? == 0 {
            check(began.elapsed() < LIMIT, || "no completion came".into())?;
            self.queue.request_event()?;
            if self.queue.poll(&mut completions)? > 0 {
                break;
            }
            self.queue.wait(LIMIT)?;
        }
        self.queue_pair.retire(&completions[0]);
        Ok(completions[0])
    }

    /// Whether nothing more completes.
    pub(super) fn is_quiet(&self) -> Result<bool> {
        thread::sleep(Duration::from_millis(5));
        Ok(self.queue.poll(&mut [Completion::EMPTY])? == 0)
    }

    /// Posts these and waits for the one completion.
    pub(super) fn run(&self, operations: &[Operation<'_>]) -> Result<Status> {
        let mut list = SendList::<8>::new();
        for (at, &operation) in operations.iter().enumerate() {
            let flags = if at + 1 == operations.len() { SendFlags::SIGNALLED } else { SendFlags::SILENT };
            list.push(at as u32, operation, flags)?;
        }
        self.queue_pair.post_send(&mut list)?;
        let completion = self.complete()?;
        if completion.status() == Status::SUCCESS && completion.token() as usize + 1 != operations.len() {
            return Err(format!("completion of {} came", completion.token()).into());
        }
        Ok(completion.status())
    }

    pub(super) fn run_well(&self, operations: &[Operation<'_>]) -> Result<()> {
        match self.run(operations)? {
            Status::SUCCESS => Ok(()),
            status => Err(status.to_string().into()),
        }
    }
}

/// A server with one listener, whose connections each get `shard`'s keys.
pub(super) struct Server {
    /// Where its clients connect from.
    pub(super) client: IpAddr,
    pub(super) channel: Arc<EventChannel>,
    pub(super) listener: CmId,
    domain: Arc<ProtectionDomain>,
    pub(super) shard: Shard,
}

impl Server {
    pub(super) fn new(client: IpAddr, address: IpAddr) -> Result<Self> {
        let channel = EventChannel::new(Verbs::load()?)?;
        let listener = CmId::new(&channel)?;
        listener.bind(SocketAddr::new(address, 0))?;
        listener.listen(8)?;
        let domain = ProtectionDomain::new(&listener.context().map_err(|_| "no RDMA device has it")?)?;
        let atomics = domain.context().attributes()?.atomics != AtomicCapability::None;
        let index = if atomics { Access::REMOTE_ATOMIC } else { Access::LOCAL_WRITE };
        let shard = Shard {
            index: MemoryRegion::new(&domain, Buffer::new(4096), index | Access::REMOTE_READ)?,
            heap: MemoryRegion::new(
                &domain,
                Buffer::new(HEAP_LEN),
                Access::REMOTE_READ | Access::REMOTE_WRITE,
            )?,
        };
        Ok(Self { client, channel, listener, domain, shard })
    }

    pub(super) fn address(&self) -> Result<SocketAddr> {
        self.listener.local_address().ok_or_else(|| "the listener has no address".into())
    }

    /// The next connection that is asked for, with its end ready and receives posted.
    pub(super) fn accept(&self) -> Result<End> {
        let mut event = expect_event(&self.channel, EventKind::ConnectRequest)?;
        if event.id != self.listener.key() || event.private_data() != Some(b"hello") {
            return Err(format!("a request with private data {:?}", event.private_data()).into());
        }
        let id = event.take_request().ok_or("a request without an identifier")?;
        id.set_ack_timeout(ACK_TIMEOUT)?;
        let end = End::new(&self.channel, id, &self.domain)?;
        for token in 0..LIMITS.receive_requests {
            end.queue_pair.post_receive(token, end.buffer.slice(token as usize * 1024, 1024)?)?;
        }
        let mut parameters = End::parameters(&end.id)?;
        parameters.depths = parameters.depths.min(event.depths);
        let keys = Keys { index: self.shard.index.remote(), heap: self.shard.heap.remote() };
        end.id.accept(parameters, &keys.to_bytes())?;
        expect_event(&self.channel, EventKind::Established)?;
        Ok(end)
    }

    /// Both ends of a new connection.
    pub(super) fn connection(&self) -> Result<(End, End, Keys)> {
        let address = self.address()?;
        thread::scope(|scope| {
            let client = scope.spawn(|| End::connect(self.client, address));
            let server = self.accept()?;
            let (client, keys) = client.join().expect("the client panicked")?;
            Ok((client, server, keys))
        })
    }
}

pub(super) fn check(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(what().into()) }
}
