//! What does each operation cost, over shared memory and over TCP?
//!
//! One session, one server in this process, 10,000 keys with values of 64 B, so that nothing but the operation itself is
//! measured. Over TCP each operation is a request and its answer on the loopback.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use farside::server::Config;
use farside::{Client, Embedded, Session, TransportChoice};
use std::hint::black_box;

const RECORDS: u64 = 10_000;
const VALUE: [u8; 64] = [0x5a; 64];

struct Store {
    session: Session,
    number: u64,
    // Last, for it holds the server.
    _farside: Embedded,
}

impl Store {
    fn over(transport: TransportChoice) -> Self {
        let config = Config { memory: Some(512 << 20), ..Config::default() };
        let farside = Embedded::start(config, Client::builder().transport(transport)).expect("a server");
        let mut session = farside.session().expect("a session");
        for number in 0..RECORDS {
            session.put(number.to_le_bytes(), VALUE).expect("memory for all records");
        }
        Self { session, number: 0, _farside: farside }
    }

    /// The next key, each after the other so that no slot is written again before it was brought forward.
    fn key(&mut self) -> [u8; 8] {
        self.number = (self.number + 1) % RECORDS;
        self.number.to_le_bytes()
    }

    /// A key that was never used.
    fn new_key(&mut self) -> [u8; 8] {
        self.number += 1;
        (self.number | 1 << 63).to_le_bytes()
    }
}

fn operations(c: &mut Criterion) {
    for transport in [TransportChoice::Shm, TransportChoice::Tcp] {
        let mut group = c.benchmark_group(format!("{transport:?}").to_lowercase());
        let mut store = Store::over(transport);
        let mut buffer = Vec::with_capacity(VALUE.len());
        group.bench_function(BenchmarkId::from_parameter("GET"), |b| {
            b.iter(|| {
                let key = store.key();
                black_box(store.session.get_into(key, &mut buffer).expect("no failure").expect("loaded"))
            });
        });
        group.bench_function(BenchmarkId::from_parameter("GET of an absent key"), |b| {
            b.iter(|| {
                let key = store.new_key();
                black_box(store.session.get_into(key, &mut buffer).expect("no failure"))
            });
        });
        group.bench_function(BenchmarkId::from_parameter("UPDATE"), |b| {
            b.iter(|| {
                let key = store.key();
                store.session.put(key, VALUE).expect("no failure")
            });
        });
        group.bench_function(BenchmarkId::from_parameter("INSERT and DELETE"), |b| {
            b.iter(|| {
                let key = store.new_key();
                store.session.put(key, VALUE).expect("no failure");
                store.session.delete(key).expect("no failure")
            });
        });
        group.bench_function(BenchmarkId::from_parameter("fetch-add"), |b| {
            b.iter(|| store.session.fetch_add("counter", 1).expect("no failure"));
        });
        group.finish();
    }
}

criterion_group!(benches, operations);
criterion_main!(benches);
