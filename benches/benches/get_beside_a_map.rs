//! How much more does a GET over shared memory cost than a look-up in a map of the same process?
//!
//! The map is `papaya`, get and copy; both read the same keys in the same random order in one run, into the same kind
//! of buffer. With 1,000 records everything is in the processor's caches and the difference is instructions: hash,
//! hint, checksum. With 1,000,000 most of the time is cache misses, as in a table that is worth sharing.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use farside::server::Config;
use farside::{Client, Embedded};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::hint::black_box;

const RECORDS: [u64; 2] = [1_000, 1_000_000];
const VALUE_LENS: [usize; 2] = [64, 1024];

/// Keys looked up in one iteration.
const LOOKUPS: u64 = 1_000;

type Key = [u8; 16];

fn key(number: u64) -> Key {
    let mut key = *b"user:___________";
    key[8..].copy_from_slice(&number.to_le_bytes());
    key
}

fn lookups(records: u64, random: &mut SmallRng) -> Vec<Key> {
    (0..LOOKUPS).map(|_| key(random.random_range(0..records))).collect()
}

fn get(c: &mut Criterion) {
    for value_len in VALUE_LENS {
        for records in RECORDS {
            let mut group = c.benchmark_group(format!("GET of {value_len} B among {records}"));
            group.throughput(Throughput::Elements(LOOKUPS));
            let value = vec![0x5a; value_len];
            let mut random = SmallRng::seed_from_u64(1);

            let memory = records * (value_len as u64 + 128) * 2 + (64 << 20);
            let config = Config { memory: Some(memory), ..Config::default() };
            let farside = Embedded::start(config, Client::builder()).expect("a server in this process");
            let mut session = farside.session().expect("a session");
            (0..records).for_each(|number| {
                session.put(key(number), &value).expect("memory for all records");
            });
            let mut buffer = Vec::with_capacity(value_len);
            group.bench_function(BenchmarkId::from_parameter("farside, shm"), |b| {
                b.iter_batched_ref(
                    || lookups(records, &mut random),
                    |keys| {
                        for key in keys {
                            session.get_into(key, &mut buffer).expect("no failure").expect("loaded");
                            black_box(&buffer);
                        }
                    },
                    BatchSize::SmallInput,
                );
            });
            drop((session, farside));

            let map: papaya::HashMap<Key, Box<[u8]>> = papaya::HashMap::new();
            (0..records).for_each(|number| {
                map.pin().insert(key(number), value.clone().into_boxed_slice());
            });
            group.bench_function(BenchmarkId::from_parameter("papaya"), |b| {
                b.iter_batched_ref(
                    || lookups(records, &mut random),
                    |keys| {
                        for key in keys {
                            let pinned = map.pin();
                            buffer.clear();
                            buffer.extend_from_slice(pinned.get(key).expect("loaded"));
                            black_box(&buffer);
                        }
                    },
                    BatchSize::SmallInput,
                );
            });
            group.finish();
        }
    }
}

criterion_group!(benches, get);
criterion_main!(benches);
