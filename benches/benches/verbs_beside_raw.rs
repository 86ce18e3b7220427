//! How much more does an operation over RDMA cost than the bare work requests it is made of?
//!
//! Each pair runs in turns, one of these and one of those, over two queue pairs of one device in one run: a warm GET
//! beside a READ of as many bytes, an UPDATE beside [WRITE, CAS], a DELETE beside a CAS. The bare ones go to a second
//! table, into memory that nobody uses.
//!
//! How many GETs a second go through batches of several sizes, beside as many READs posted with one doorbell?
//!
//! And what does an UPDATE cost that the server makes, asked by SEND on the device, beside one asked over TCP?
//!
//! `FARSIDE_TEST_RDMA=ADDRESS cargo bench --bench verbs_beside_raw`; without it there is nothing to measure.

use farside::server::Config;
use farside::{Client, Embedded, TransportChoice};
use farside_hashtable::{Chain, Io as _, Step};
use farside_protocol::wire::Wants;
use farside_protocol::{Key, Record, Superblock};
use farside_transport::channel::{Channel, IoThread, Options, block_on};
use farside_transport::verbs::{Connector, Verbs, VerbsLane};
use farside_transport::{Counts, Denied, Fabric as _, Lane as _, LaneIo, Posted, drive_together};
use hdrhistogram::Histogram;
use std::hint::black_box;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

const VALUE_LEN: usize = 64;
const BATCHES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// As many as a client leases at a time.
const BLOCKS: usize = 256;
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
    let keys: Vec<_> = (0..BATCHES[BATCHES.len() - 1]).map(|number| format!("key {number:02}")).collect();
    for key in &keys {
        session.put(key, value).expect("stored");
    }
    for batch in BATCHES {
        let mut times = [histogram(), histogram()];
        for _ in 0..rounds / batch as u32 {
            record(&mut times[0], || {
                session.get_many(&keys[..batch], |_, value| {
                    assert!(black_box(value).expect("no failure").is_some());
                });
            });
            record(&mut times[1], || raw.read_together(len, batch));
        }
        print(&format!("{batch} GETs together"), &format!("{batch} READs together"), &times);
        let rate = |times: &Histogram<u64>| batch as f64 * 1e9 / times.mean();
        println!("rate {batch} together: {:.0} GETs/s, {:.0} READs/s", rate(&times[0]), rate(&times[1]));
    }
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
            record(&mut times[1], || raw.swap(len));
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
    lanes: Vec<VerbsLane>,
    shard: Superblock,
    turn: usize,
    /// The first words of the blocks.
    words: [u64; BLOCKS],
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
        let lanes = std::iter::repeat_with(|| fabric.open_lane()).take(BATCHES[BATCHES.len() - 1]).collect();
        Self {
            fabric,
            lane,
            lanes,
            shard,
            turn: 0,
            words: [0; BLOCKS],
            has_atomics,
            _channel: channel,
            _table: table,
        }
    }

    /// The last bytes of the heap.
    fn at(&self) -> u64 {
        self.shard.geometry.region_len() - 4096
    }

    /// Where the record of a turn would be: an UPDATE writes each to another block than the one before, and swaps in
    /// the one before. Emulation remembers where it was last, and is slower elsewhere.
    fn block(&self, turn: usize, len: usize) -> u64 {
        self.at() - ((1 + turn % BLOCKS) * len.next_multiple_of(64)) as u64
    }

    fn read(&mut self, len: usize) {
        self.lane.reserve_incoming(len);
        self.run(Chain::from_iter([Step::read(self.at(), len, 0)]));
    }

    fn read_together(&mut self, len: usize, count: usize) {
        let (at, until_ns) = (self.at(), self.fabric.now() + LIMIT.as_nanos() as u64);
        let plans = self.lanes[..count].iter_mut().map(|lane| {
            let fabric = &self.fabric;
            async move {
                let mut counts = Counts::default();
                lane.reserve_incoming(len);
                let mut chain = Chain::from_iter([Step::read(at, len, 0)]);
                LaneIo::new(fabric, lane, &mut counts, 0, until_ns).run(&mut chain).await
            }
        });
        assert!(drive_together(&self.fabric, plans).iter().all(Result::is_ok));
    }

    /// The bytes begin with the number of the turn.
    fn write_and_swap(&mut self, len: usize) {
        let swap = self.next_swap(len);
        self.words[self.turn % BLOCKS] = self.turn as u64;
        self.lane.outgoing(len)[..8].copy_from_slice(&self.turn.to_le_bytes());
        let write = Step::write(self.block(self.turn, len), len);
        self.run(Chain::from_iter([write, swap]));
    }

    fn swap(&mut self, len: usize) {
        let swap = self.next_swap(len);
        self.run(Chain::from_iter([swap]));
    }

    /// In the block of the turn before.
    fn next_swap(&mut self, len: usize) -> Step {
        let (before, new) = (self.turn, u64::MAX - self.turn as u64);
        self.turn += 1;
        let expect = std::mem::replace(&mut self.words[before % BLOCKS], new);
        Step::compare_swap(self.block(before, len), expect, new)
    }

    fn run(&mut self, mut chain: Chain) {
        let mut posted = self.fabric.post(&mut self.lane, 0, &mut chain);
        while let Posted::Pending = posted {
            if let Some(outcome) = self.fabric.poll(&mut self.lane, &mut chain) {
                posted = Posted::Done(outcome);
            }
        }
        assert_eq!(posted, Posted::Done(Ok(())));
        assert!(chain.iter().all(|step| !matches!(step, Step::CompareSwap { .. }) || step.outcome().is_ok()));
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
