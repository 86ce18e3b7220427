//! What Farside relies on of a verbs device, tried on this host's own: each address given, of a device's network
//! interface, is connected to itself, or, as `CLIENT,SERVER`, one to the other. Prints a table; exits with 1 if a
//! promise was broken.
//!
//! ```text
//! cargo build -p farside-verbs-sys --example litmus
//! tests/rdma-vm/run -- target/debug/examples/litmus 10.99.0.1 10.98.0.1
//! ```
//! Over a slow link that loses every hundredth packet:
//! ```text
//! tests/rdma-vm/run -- bash -c '. tests/rdma-vm/cross-link; tc qdisc add dev rxen root netem loss 1% delay 1ms
//!     target/debug/examples/litmus 10.99.0.1,10.99.0.2'
//! ```

use farside_verbs_sys::{
    Access, AtomicCapability, Buffer, CmId, Completion, CompletionQueue, ConnectionParameters, Depths, Event,
    EventChannel, EventKind, MemoryRegion, Operation, PostError, ProtectionDomain, QueuePair,
    QueuePairLimits, QueuePairState, RemoteAddress, SendFlags, SendList, Status, Transport, Verbs,
    ack_deadline, best_gid,
};
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// So that a hang is a failure.
const LIMIT: Duration = Duration::from_secs(20);
const LIMITS: QueuePairLimits = QueuePairLimits { send_requests: 64, receive_requests: 8, inline_len: 64 };
const ACK_TIMEOUT: u8 = 12;
const HEAP_LEN: usize = 64 << 10;
const ROUNDS: u64 = 1000;

/// One end of a connection, with a buffer of its own.
struct End {
    channel: Arc<EventChannel>,
    id: CmId,
    queue_pair: QueuePair,
    queue: Arc<CompletionQueue>,
    buffer: MemoryRegion<Buffer>,
}

/// A server's memory: words for atomic operations, and a heap.
struct Shard {
    index: MemoryRegion<Buffer>,
    heap: MemoryRegion<Buffer>,
}

/// Where a shard's regions are for its peers.
#[derive(Clone, Copy)]
struct Keys {
    index: RemoteAddress,
    heap: RemoteAddress,
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

fn expect_event(channel: &Arc<EventChannel>, kind: EventKind) -> Result<Event> {
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
    fn new(channel: &Arc<EventChannel>, id: CmId, domain: &Arc<ProtectionDomain>) -> Result<Self> {
        let queue =
            CompletionQueue::with_events(domain.context(), LIMITS.send_requests + LIMITS.receive_requests)?;
        let queue_pair = id.create_queue_pair(domain, &queue, &queue, LIMITS)?;
        let buffer = MemoryRegion::new(domain, Buffer::new(HEAP_LEN), Access::LOCAL_WRITE)?;
        Ok(Self { channel: Arc::clone(channel), id, queue_pair, queue, buffer })
    }

    fn parameters(id: &CmId) -> Result<ConnectionParameters> {
        Ok(ConnectionParameters::new(Depths::of_device(&id.context()?.attributes()?)))
    }

    /// Connects to the server at `address`, and gets its keys.
    fn connect(from: IpAddr, address: SocketAddr) -> Result<(Self, Keys)> {
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
    fn complete(&self) -> Result<Completion> {
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
    fn is_quiet(&self) -> Result<bool> {
        thread::sleep(Duration::from_millis(5));
        Ok(self.queue.poll(&mut [Completion::EMPTY])? == 0)
    }

    /// Posts these and waits for the one completion.
    fn run(&self, operations: &[Operation<'_>]) -> Result<Status> {
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

    fn run_well(&self, operations: &[Operation<'_>]) -> Result<()> {
        match self.run(operations)? {
            Status::SUCCESS => Ok(()),
            status => Err(status.to_string().into()),
        }
    }
}

/// A server with one listener, whose connections each get `shard`'s keys.
struct Server {
    /// Where its clients connect from.
    client: IpAddr,
    channel: Arc<EventChannel>,
    listener: CmId,
    domain: Arc<ProtectionDomain>,
    shard: Shard,
}

impl Server {
    fn new(client: IpAddr, address: IpAddr) -> Result<Self> {
        let channel = EventChannel::new(Verbs::load()?)?;
        let listener = CmId::new(&channel)?;
        listener.bind(SocketAddr::new(address, 0))?;
        listener.listen(8)?;
        let domain = ProtectionDomain::new(&listener.context()?)?;
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

    fn address(&self) -> Result<SocketAddr> {
        self.listener.local_address().ok_or_else(|| "the listener has no address".into())
    }

    /// The next connection that is asked for, with its end ready and receives posted.
    fn accept(&self) -> Result<End> {
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
    fn connection(&self) -> Result<(End, End, Keys)> {
        let address = self.address()?;
        thread::scope(|scope| {
            let client = scope.spawn(|| End::connect(self.client, address));
            let server = self.accept()?;
            let (client, keys) = client.join().expect("the client panicked")?;
            Ok((client, server, keys))
        })
    }
}

fn check(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(what().into()) }
}

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (seed.wrapping_mul(0x9e37_79b9).wrapping_add(at * 131) >> 3) as u8).collect()
}

/// What is said of it, if it holds.
type Promise = fn(&Litmus) -> Result<String>;

/// One promise after another, on one device.
struct Litmus {
    server: Server,
    client: End,
    end: End,
    keys: Keys,
    atomics: bool,
    broken: usize,
}

impl Litmus {
    fn report(&mut self, name: &str, promise: Promise) {
        let began = Instant::now();
        let result = promise(self);
        let took = began.elapsed().as_millis();
        match result {
            Ok(detail) => println!("  {name:<29} {took:>6} ms  holds   {detail}"),
            Err(error) => {
                self.broken += 1;
                println!("  {name:<29} {took:>6} ms  BROKEN  {error}");
            }
        }
    }

    fn settings(&self) -> Result<String> {
        let iwarp = self.client.id.context()?.transport() == Transport::Iwarp;
        let mut told = String::new();
        for end in [&self.client, &self.end] {
            let settings = end.queue_pair.settings()?;
            // iWARP leaves retries to TCP; soft-iWARP does not tell its state either.
            let bounded = settings.state == QueuePairState::ReadyToSend
                && settings.ack_timeout == ACK_TIMEOUT
                && settings.retry_count <= 6
                && settings.rnr_retry_count <= 6
                && settings.initiator_depth >= 1
                && settings.responder_resources >= 1;
            check(iwarp || bounded, || format!("{settings:?}"))?;
            told = format!(
                "timeout {} retries {}/{} depths {}/{} mtu {} gid {}, a dead peer ends within {:?}",
                settings.ack_timeout,
                settings.retry_count,
                settings.rnr_retry_count,
                settings.initiator_depth,
                settings.responder_resources,
                settings.mtu,
                settings.gid_index,
                ack_deadline(settings.ack_timeout, settings.retry_count)
            );
        }
        Ok(told)
    }

    fn write_then_read(&self) -> Result<String> {
        for (seed, len) in [8, 64, 1024, 4096, 16384, 65536].into_iter().enumerate() {
            let bytes = pattern(seed as u64, len);
            self.client.buffer.write(0, &bytes)?;
            let slice = self.client.buffer.slice(0, len)?;
            self.client.run_well(&[Operation::Write { from: slice, to: self.keys.heap }])?;
            self.client.buffer.write(0, &vec![0; len])?;
            self.client.run_well(&[Operation::Read { into: slice, from: self.keys.heap }])?;
            let (mut there, mut here) = (vec![0; len], vec![0; len]);
            self.server.shard.heap.read(0, &mut there)?;
            check(there == bytes, || format!("a WRITE of {len} bytes is not what arrived"))?;
            self.client.buffer.read(0, &mut here)?;
            check(here == bytes, || format!("a READ of {len} bytes is not what is there"))?;
        }
        Ok("8 B to 64 KiB".into())
    }

    fn write_inline(&self) -> Result<String> {
        let bytes = pattern(99, LIMITS.inline_len as usize);
        let (into, at) = (self.client.buffer.slice(0, 8)?, self.keys.heap.add(128));
        self.client.run_well(&[
            Operation::WriteInline { bytes: &bytes, to: at },
            Operation::Read { into, from: at },
        ])?;
        let mut there = vec![0; bytes.len()];
        self.server.shard.heap.read(128, &mut there)?;
        check(there == bytes, || "the bytes are not those that arrived".into())?;
        let max = self.client.queue_pair.inline_len_max();
        let long = vec![0; max as usize + 1];
        let too_long = self.client.run(&[Operation::WriteInline { bytes: &long, to: self.keys.heap }]);
        check(too_long.is_err(), || "more than the most was posted".into())?;
        Ok(format!("up to {max} B"))
    }

    /// More messages than there are receives at a time.
    fn send(&self) -> Result<String> {
        for round in 0..3 * u64::from(LIMITS.receive_requests) {
            let message = pattern(round, 40 + round as usize);
            self.client.run_well(&[Operation::SendInline { bytes: &message }])?;
            let completion = self.end.complete()?;
            check(completion.is_receive() && completion.status() == Status::SUCCESS, || {
                format!("{completion:?}")
            })?;
            let len = completion.received_len().unwrap_or(0) as usize;
            let at = completion.token() as usize * 1024;
            let mut came = vec![0; len];
            self.end.buffer.read(at, &mut came)?;
            check(came == message, || format!("{len} bytes came of {}", message.len()))?;
            self.end.queue_pair.post_receive(completion.token(), self.end.buffer.slice(at, 1024)?)?;
        }
        Ok(String::new())
    }

    fn compare_swap(&self) -> Result<String> {
        let found = self.client.buffer.slice(0, 8)?;
        let at = self.keys.index;
        if !self.atomics {
            let refused = self.client.run(&[Operation::CompareSwap { found, at, expect: 0, new: 1 }]);
            let refused = refused.err().and_then(|error| error.downcast::<PostError>().ok());
            check(matches!(refused.as_deref(), Some(PostError::NoAtomics)), || {
                "a compare-and-swap was posted to a device that has none".into()
            })?;
            return Ok("the device has none, and none is posted".into());
        }
        self.server.shard.index.store(0, 7)?;
        for (expect, new, finds) in [(7, 8, 7), (7, 9, 8), (8, 10, 8)] {
            self.client.run_well(&[Operation::CompareSwap { found, at, expect, new }])?;
            let word = self.client.buffer.load(0)?;
            check(word == finds, || format!("{word} was found, not {finds}"))?;
        }
        self.client.run_well(&[Operation::FetchAdd { found, at, add: 5 }])?;
        let there = self.server.shard.index.load(0)?;
        check(there == 15, || format!("{there} is there, not 15"))?;
        Ok("and fetch-and-add".into())
    }

    /// [WRITE, CAS, READ], or without atomics [WRITE, READ], with one completion: each sees what was before it.
    fn ordered_list(&self) -> Result<String> {
        let buffer = &self.client.buffer;
        let (found, read) = (buffer.slice(0, 8)?, buffer.slice(8, 8)?);
        self.server.shard.index.store(64, 0)?;
        for round in 0..ROUNDS {
            let bytes = (round + 1).to_le_bytes();
            let write = Operation::WriteInline { bytes: &bytes, to: self.keys.heap };
            if self.atomics {
                let at = self.keys.index.add(64);
                let swap = Operation::CompareSwap { found, at, expect: round, new: round + 1 };
                self.client.run_well(&[write, swap, Operation::Read { into: read, from: at }])?;
                check(buffer.load(0)? == round, || format!("round {round}: the swap lost"))?;
            } else {
                self.client.run_well(&[write, Operation::Read { into: read, from: self.keys.heap }])?;
            }
            let word = buffer.load(8)?;
            check(word == round + 1, || format!("round {round}: READ {word} after it was changed"))?;
            let written = self.server.shard.heap.load(0)?;
            check(written == round + 1, || format!("round {round}: {written} was written"))?;
        }
        check(self.client.is_quiet()?, || "a list had more than one completion".into())?;
        let steps = if self.atomics { "[WRITE, CAS, READ]" } else { "[WRITE, READ]" };
        Ok(format!("{steps} {ROUNDS} times, one completion each"))
    }

    /// Many operations with one doorbell, each with a completion, and no more than fit.
    fn credits(&self) -> Result<String> {
        let queue_pair = &self.client.queue_pair;
        check(queue_pair.send_free() == LIMITS.send_requests, || {
            format!("{} places are free", queue_pair.send_free())
        })?;
        let mut list = SendList::<64>::new();
        for token in 0..LIMITS.send_requests {
            let into = self.client.buffer.slice(token as usize * 8, 8)?;
            list.push(token, Operation::Read { into, from: self.keys.heap }, SendFlags::SIGNALLED)?;
        }
        queue_pair.post_send(&mut list)?;
        list.push(64, Operation::SendInline { bytes: b"one too many" }, SendFlags::SIGNALLED)?;
        let full = queue_pair.post_send(&mut list);
        check(matches!(full, Err(PostError::Full { needed: 1, free: 0 })), || format!("{full:?}"))?;
        for token in 0..LIMITS.send_requests {
            let completion = self.client.complete()?;
            check(completion.token() == token && completion.result().is_ok(), || format!("{completion:?}"))?;
        }
        check(queue_pair.send_free() == LIMITS.send_requests, || "places were lost".into())?;
        Ok(format!("{} READs on one doorbell, in order", LIMITS.send_requests))
    }

    fn events(&self) -> Result<String> {
        let queue = &self.client.queue;
        queue.take_events()?;
        queue.request_event()?;
        let mut list = SendList::<1>::new();
        let into = self.client.buffer.slice(0, 8)?;
        list.push(1, Operation::Read { into, from: self.keys.heap }, SendFlags::SIGNALLED)?;
        self.client.queue_pair.post_send(&mut list)?;
        check(queue.wait(LIMIT)?, || "no event came".into())?;
        self.client.complete()?.result().map_err(|status| status.to_string())?;
        Ok(String::new())
    }

    /// Two connections add to one word, each by compare-and-swap.
    fn contention(&self) -> Result<String> {
        if !self.atomics {
            return Ok("no atomics".into());
        }
        let word = 128;
        self.server.shard.index.store(word, 0)?;
        let (other, _end, keys) = self.server.connection()?;
        let add = |end: &End| -> Result<u64> {
            let (found, at) = (end.buffer.slice(0, 8)?, keys.index.add(word as u64));
            let (mut expect, mut added, mut lost) = (0, 0, 0);
            while added < ROUNDS {
                end.run_well(&[Operation::CompareSwap { found, at, expect, new: expect + 1 }])?;
                let was = end.buffer.load(0)?;
                (expect, added, lost) =
                    if was == expect { (expect + 1, added + 1, lost) } else { (was, added, lost + 1) };
            }
            Ok(lost)
        };
        let lost = thread::scope(|scope| -> Result<u64> {
            let theirs = scope.spawn(|| add(&other));
            Ok(add(&self.client)? + theirs.join().expect("a thread panicked")?)
        })?;
        let sum = self.server.shard.index.load(word)?;
        check(sum == 2 * ROUNDS, || format!("{sum} after {} additions", 2 * ROUNDS))?;
        Ok(format!("{} additions, {lost} swaps that met the other", 2 * ROUNDS))
    }

    fn rejection(&self) -> Result<String> {
        let address = self.server.address()?;
        let data = thread::scope(|scope| -> Result<Option<Vec<u8>>> {
            let client = scope.spawn(|| -> Result<Option<Vec<u8>>> {
                let channel = EventChannel::new(Verbs::load()?)?;
                let id = CmId::new(&channel)?;
                let from = SocketAddr::new(self.server.client, 0);
                id.resolve_address(Some(from), address, LIMIT)?;
                expect_event(&channel, EventKind::AddressResolved)?;
                id.resolve_route(LIMIT)?;
                expect_event(&channel, EventKind::RouteResolved)?;
                let end = End::new(&channel, id, &ProtectionDomain::new(&self.client.id.context()?)?)?;
                end.id.connect(End::parameters(&end.id)?, b"")?;
                let event = expect_event(&channel, EventKind::Rejected)?;
                Ok(event.private_data().map(<[u8]>::to_vec))
            });
            let mut event = expect_event(&self.server.channel, EventKind::ConnectRequest)?;
            check(event.private_data() == Some(b""), || format!("{event:?}"))?;
            event.take_request().ok_or("no identifier")?.reject(b"not today")?;
            client.join().expect("the client panicked")
        })?;
        check(data.as_deref() == Some(b"not today"), || format!("it came with {data:?}"))?;
        Ok("its reason arrives".into())
    }

    /// A WRITE to memory that allows none changes nothing, and ends the connection. Soft-iWARP is known to report
    /// success.
    fn rights(&self) -> Result<String> {
        let (client, _end, keys) = self.server.connection()?;
        self.server.shard.index.store(256, 1)?;
        let bytes = 2u64.to_le_bytes();
        let status = client.run(&[Operation::WriteInline { bytes: &bytes, to: keys.index.add(256) }])?;
        check(client.is_quiet()?, || "it completed twice".into())?;
        let there = self.server.shard.index.load(256)?;
        check(there == 1, || "the word was changed".into())?;
        let iwarp = client.id.context()?.transport() == Transport::Iwarp;
        check(iwarp || status == Status::REMOTE_ACCESS, || format!("{status}"))?;
        let state = client.queue_pair.settings()?.state;
        check(iwarp || state == QueuePairState::Error, || format!("the queue pair is {state:?}"))?;
        Ok(format!("{status}, the word is as it was"))
    }

    /// A failed queue pair gives back what was posted to it.
    fn flush(&self) -> Result<String> {
        let (_client, end, _keys) = self.server.connection()?;
        end.queue_pair.fail()?;
        for _ in 0..LIMITS.receive_requests {
            let completion = end.complete()?;
            check(completion.status() == Status::FLUSHED && completion.is_receive(), || {
                format!("{completion:?}")
            })?;
        }
        Ok(format!("{} receives", LIMITS.receive_requests))
    }

    fn disconnect(&self) -> Result<String> {
        let (client, end, _keys) = self.server.connection()?;
        client.id.disconnect()?;
        let event = expect_event(&end.channel, EventKind::Disconnected)?;
        check(event.id == end.id.key(), || "of another connection".into())?;
        end.id.disconnect()?;
        Ok(String::new())
    }

    /// Work for an end that is gone fails, and in time. Soft-iWARP may never say so.
    fn gone(&self) -> Result<String> {
        let (client, end, keys) = self.server.connection()?;
        let settings = client.queue_pair.settings()?;
        self.server.shard.heap.store(2048, 0)?;
        drop(end);
        let began = Instant::now();
        let write = Operation::WriteInline { bytes: b"too late", to: keys.heap.add(2048) };
        let mut list = SendList::<1>::new();
        list.push(0, write, SendFlags::SIGNALLED)?;
        client.queue_pair.post_send(&mut list)?;
        let iwarp = client.id.context()?.transport() == Transport::Iwarp;
        let status = if iwarp { None } else { Some(client.complete()?.status()) };
        check(self.server.shard.heap.load(2048)? == 0, || "it was carried out".into())?;
        let Some(status) = status else { return Ok("nothing was changed".into()) };
        let took = began.elapsed();
        check(matches!(status, Status::RETRIES_EXCEEDED | Status::FLUSHED), || status.to_string())?;
        let deadline = ack_deadline(settings.ack_timeout, settings.retry_count).ok_or("no deadline")?;
        // As much again for a machine that is busy with other things, and a second.
        check(took < 2 * deadline + Duration::from_secs(1), || format!("after {took:?}"))?;
        Ok(format!("{status} after {} ms", took.as_millis()))
    }

    /// Memory that is no longer registered is left alone, whatever was under way; that it may be freed rests on this.
    fn deregistered(&self) -> Result<String> {
        const READS: u32 = 32;
        let (client, _end, keys) = self.server.connection()?;
        self.server.shard.heap.write(0, &[0xff; HEAP_LEN])?;
        let memory = Arc::new(Buffer::new(HEAP_LEN));
        let domain = client.queue_pair.domain();
        let region = MemoryRegion::new(domain, Arc::clone(&memory), Access::LOCAL_WRITE)?;
        let view = MemoryRegion::new(domain, memory, Access::LOCAL_READ)?;
        let mut list = SendList::<{ READS as usize }>::new();
        for token in 0..READS {
            let into = region.slice(0, HEAP_LEN)?;
            list.push(token, Operation::Read { into, from: keys.heap }, SendFlags::SIGNALLED)?;
        }
        client.queue_pair.post_send(&mut list)?;
        drop(region);
        view.write(0, &[0; HEAP_LEN])?;
        let (mut carried_out, mut failed) = (0, 0);
        let mut completions = [Completion::EMPTY; 8];
        loop {
            let count = client.queue.poll(&mut completions)?;
            for completion in &completions[..count] {
                *if completion.result().is_ok() { &mut carried_out } else { &mut failed } += 1;
            }
            if count == 0 {
                client.queue.request_event()?;
                // What a device never completes is no fault here.
                if !client.queue.wait(Duration::from_millis(100))? {
                    break;
                }
            }
        }
        let mut now = vec![0; HEAP_LEN];
        view.read(0, &mut now)?;
        check(now.iter().all(|&byte| byte == 0), || "it was written to".into())?;
        Ok(format!("of {READS} READs {carried_out} were carried out, {failed} failed"))
    }

    /// Medians, in units of the first.
    fn costs(&self) -> Result<String> {
        let buffer = &self.client.buffer;
        let (word, found) = (buffer.slice(0, 8)?, buffer.slice(8, 8)?);
        let (heap, index) = (self.keys.heap, self.keys.index.add(512));
        let read = Operation::Read { into: word, from: heap };
        let write = Operation::WriteInline { bytes: &[1; 64], to: heap };
        let swap = Operation::CompareSwap { found, at: index, expect: 0, new: 0 };
        let mut lists = vec![
            ("READ 8", vec![read]),
            ("READ 1024", vec![Operation::Read { into: buffer.slice(1024, 1024)?, from: heap }]),
            ("[READ, READ]", vec![read, read]),
            ("WRITE 64", vec![write]),
        ];
        if self.atomics {
            lists.push(("CAS", vec![swap]));
            lists.push(("[WRITE, CAS]", vec![write, swap]));
            lists.push(("[WRITE, CAS, READ]", vec![write, swap, read]));
        }
        let mut told = Vec::new();
        let mut unit = None;
        for (name, operations) in &lists {
            let mut times = (0..200)
                .map(|_| {
                    let began = Instant::now();
                    self.client.run_well(operations)?;
                    Ok(began.elapsed())
                })
                .collect::<Result<Vec<_>>>()?;
            times.sort_unstable();
            let median = times[times.len() / 2];
            let unit = *unit.get_or_insert(median);
            told.push(format!("{name} {:.2}", median.as_secs_f64() / unit.as_secs_f64()));
        }
        Ok(told.join(", "))
    }
}

fn run(client: IpAddr, address: IpAddr) -> Result<usize> {
    let server = Server::new(client, address)?;
    let context = server.listener.context()?;
    let attributes = context.attributes()?;
    let port = context.port_attributes(server.listener.port())?;
    let gids = context.gids(server.listener.port())?;
    println!(
        "{address}: {} ({:?}, {:?}, atomics {:?}), port {:?}, mtu {}, longest message {} B, GID {}",
        context.name(),
        context.transport(),
        port.link_layer,
        attributes.atomics,
        port.state,
        port.mtu,
        port.message_max,
        best_gid(port.link_layer, &gids).map_or("none".into(), |gid| format!("{} {}", gid.index, gid.gid)),
    );
    let (client, end, keys) = server.connection()?;
    let atomics = attributes.atomics != AtomicCapability::None;
    let mut litmus = Litmus { server, client, end, keys, atomics, broken: 0 };
    let promises: [(&str, Promise); 16] = [
        ("settings are bounded", Litmus::settings),
        ("WRITE, then READ", Litmus::write_then_read),
        ("inline WRITE", Litmus::write_inline),
        ("SEND into posted receives", Litmus::send),
        ("compare-and-swap", Litmus::compare_swap),
        ("a list runs in order", Litmus::ordered_list),
        ("places are counted", Litmus::credits),
        ("completion events", Litmus::events),
        ("swaps of two connections", Litmus::contention),
        ("a connection can be refused", Litmus::rejection),
        ("rights are enforced", Litmus::rights),
        ("a failed queue pair flushes", Litmus::flush),
        ("the peer learns of the end", Litmus::disconnect),
        ("work for an end that is gone", Litmus::gone),
        ("deregistered memory", Litmus::deregistered),
        ("costs in READs of 8 B", Litmus::costs),
    ];
    for (name, promise) in promises {
        litmus.report(name, promise);
    }
    Ok(litmus.broken)
}

/// `SERVER`, or `CLIENT,SERVER`.
fn ends(argument: &str) -> Option<(IpAddr, IpAddr)> {
    let (client, server) = argument.split_once(',').unwrap_or((argument, argument));
    Some((client.parse().ok()?, server.parse().ok()?))
}

fn main() -> ExitCode {
    let Some(pairs) = std::env::args().skip(1).map(|argument| ends(&argument)).collect::<Option<Vec<_>>>()
    else {
        eprintln!("usage: litmus [CLIENT,]SERVER ..., addresses of RDMA devices' interfaces");
        return ExitCode::from(2);
    };
    let mut broken = 0;
    for (client, server) in pairs {
        broken += run(client, server).unwrap_or_else(|error| {
            println!("{server}: BROKEN  {error}");
            1
        });
    }
    println!("{broken} broken");
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
