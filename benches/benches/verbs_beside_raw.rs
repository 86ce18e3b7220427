//! How much more does an operation over RDMA cost than the bare work requests it is made of?
//!
//! Each pair runs in turns, one of these and one of those, over two queue pairs of one device in one run: a warm GET
//! beside a READ of as many bytes, an UPDATE beside [WRITE, CAS], a DELETE beside a CAS. The bare ones go to a second
//! table, into memory that nobody uses.
//!
//! And what does an UPDATE cost that the server makes, asked by SEND on the device, beside one asked over TCP?
//!
//! `FARSIDE_TEST_RDMA=ADDRESS cargo bench --bench verbs_beside_raw`; without it there is nothing to measure.

use farside::server::Config;
use farside::{Client, Embedded, TransportChoice};
use farside_hashtable::{Chain, Step};
use farside_protocol::wire::Wants;
use farside_protocol::{Key, Record, Superblock};
use farside_transport::channel::{Channel, IoThread, Options, block_on};
use farside_transport::verbs::{Connector, Verbs, VerbsLane};
use farside_transport::{Denied, Fabric as _, Lane as _, Posted};
use hdrhistogram::Histogram;
use std::hint::black_box;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

const VALUE_LEN: usize = 64;
const LIMIT: Duration = Duration::from_secs(20);

fn main() {
    let Ok(address) = std::env::var("FARSIDE_TEST_RDMA") else {
        eprintln!("SKIPPED: FARSIDE_TEST_RDMA names no RDMA device to measure");
        return;
    };
    let address: IpAddr = address.split(',').next().and_then(|first| first.parse().ok()).expect("an address");
    // `cargo bench -- --test` wants to see that it runs.
    let rounds = if std::env::args().any(|argument| argument == "--test") { 50 } else { 20_000 };
    let table = start(address);
    let mut session = table.session().expect("a session over verbs");
    println!("{}, {rounds} rounds, values of {VALUE_LEN} B", table.active());

    let value = [7; VALUE_LEN];
    let (key, doomed) = ("key", "doomed");
    session.put(key, value).expect("stored");
    let mut raw = Raw::new(address);
    let len = Record::new(Key::new(key.as_bytes()).expect("a key"), &value).expect("it fits").len();

    compare(
        "warm GET",
        "READ",
        rounds,
        || {
            black_box(session.get(key).expect("no failure"));
        },
        |raw| raw.read(len),
        &mut raw,
    );
    if raw.has_atomics {
        compare(
            "UPDATE",
            "[WRITE, CAS]",
            rounds,
            || {
                black_box(session.put(key, value).expect("no failure"));
            },
            |raw| raw.write_and_swap(len),
            &mut raw,
        );
        let mut times = [histogram(), histogram()];
        for _ in 0..rounds {
            session.put(doomed, value).expect("stored");
            record(&mut times[0], || {
                black_box(session.delete(doomed).expect("no failure"));
            });
            record(&mut times[1], || raw.swap());
        }
        print("DELETE", "CAS", &times);
    }
    two_sided(address, rounds);
}

fn two_sided(address: IpAddr, rounds: u32) {
    // TCP over the device's own address, not over loopback's.
    let config = Config { listen: (address, 0).into(), insecure: true, ..config(address) };
    let builder = Client::builder().deadline(LIMIT);
    let over_verbs = builder.clone().transport(TransportChoice::Verbs).deny("atomic");
    let table = Embedded::start(config, over_verbs).expect("a server with the device");
    let tcp = builder.address(&table.address()).transport(TransportChoice::Tcp).connect_blocking();
    let mut sessions = [table.session(), tcp.and_then(|client| client.session())];
    let mut times = [histogram(), histogram()];
    for _ in 0..rounds {
        for (session, times) in sessions.iter_mut().zip(&mut times) {
            let session = session.as_mut().expect("a session");
            record(times, || {
                black_box(session.put("key", [7; VALUE_LEN]).expect("no failure"));
            });
        }
    }
    print("two-sided UPDATE over SEND/RECV", "over TCP", &times);
}

fn config(rdma: IpAddr) -> Config {
    Config { memory: Some(64 << 20), shards: Some(1), rdma: Some((rdma, 0).into()), ..Config::default() }
}

fn start(rdma: IpAddr) -> Embedded {
    let builder = Client::builder().transport(TransportChoice::Verbs).deadline(LIMIT);
    Embedded::start(config(rdma), builder).expect("a server with the device")
}

/// Work requests without a table.
struct Raw {
    fabric: Verbs,
    lane: VerbsLane,
    shard: Superblock,
    swapped: u64,
    has_atomics: bool,
    // The session and its server, which end last.
    _channel: Channel,
    _table: Embedded,
}

impl Raw {
    fn new(rdma: IpAddr) -> Self {
        let table = start(rdma);
        let thread = Arc::new(IoThread::start().expect("a thread"));
        let address = table.address().parse().expect("an address");
        let options = Options { wants: Wants::QueuePairs, connect_timeout: LIMIT, ..Options::new(address) };
        let (channel, _) = block_on(Channel::connect(&thread, options)).expect("a session");
        let connector = Connector::new(&channel, Denied::default()).expect("a queue pair");
        let fabric = connector.open().expect("the first one");
        let shard = channel.welcome().shards[0];
        let has_atomics = fabric.capabilities().atomics != farside_transport::AtomicScope::None;
        let lane = fabric.open_lane();
        Self { fabric, lane, shard, swapped: 0, has_atomics, _channel: channel, _table: table }
    }

    /// The last bytes of the heap.
    fn at(&self) -> u64 {
        self.shard.geometry.region_len() - 4096
    }

    fn read(&mut self, len: usize) {
        self.lane.reserve_incoming(len);
        self.run(Chain::from_iter([Step::read(self.at(), len, 0)]));
    }

    fn write_and_swap(&mut self, len: usize) {
        self.lane.outgoing(len);
        let swap = self.next_swap();
        self.run(Chain::from_iter([Step::write(self.at(), len), swap]));
    }

    fn swap(&mut self) {
        let swap = self.next_swap();
        self.run(Chain::from_iter([swap]));
    }

    fn next_swap(&mut self) -> Step {
        self.swapped += 1;
        Step::compare_swap(self.at() + 2048, self.swapped - 1, self.swapped)
    }

    fn run(&mut self, mut chain: Chain) {
        let mut posted = self.fabric.post(&mut self.lane, 0, &mut chain);
        while let Posted::Pending = posted {
            if let Some(outcome) = self.fabric.poll(&mut self.lane, &mut chain) {
                posted = Posted::Done(outcome);
            }
        }
        assert_eq!(posted, Posted::Done(Ok(())));
    }
}

fn compare(
    name: &str,
    bare: &str,
    rounds: u32,
    mut operation: impl FnMut(),
    mut requests: impl FnMut(&mut Raw),
    raw: &mut Raw,
) {
    let mut times = [histogram(), histogram()];
    for _ in 0..rounds {
        record(&mut times[0], &mut operation);
        record(&mut times[1], || requests(raw));
    }
    print(name, bare, &times);
}

fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are allowed")
}

fn record(times: &mut Histogram<u64>, run: impl FnOnce()) {
    let began = Instant::now();
    run();
    times.record(began.elapsed().as_nanos() as u64).expect("it grows as it needs");
}

fn print(name: &str, bare: &str, [operation, requests]: &[Histogram<u64>; 2]) {
    let us = |times: &Histogram<u64>, share| times.value_at_quantile(share) as f64 / 1000.0;
    for (share, label) in [(0.5, "p50"), (0.9, "p90")] {
        let (ours, theirs) = (us(operation, share), us(requests, share));
        println!("{label}  {name} {ours:.1} us, {bare} {theirs:.1} us, ratio {:.3}", ours / theirs);
    }
}
