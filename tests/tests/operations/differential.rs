//! Every operation against a map that cannot be wrong, over each way to the server and over a mix of them on one table.
//!
//! One operation at a time, so each answer is determined. Replay a failure with `FARSIDE_SEED=<seed>`.

use farside::server::Config;
use farside::{Client, Delete, Embedded, ErrorKind, Put, PutOptions, Session, TransportChoice, Version};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use std::collections::HashMap;
use std::time::Duration;

const OPERATIONS: usize = 4_000;
const SEEDS: u64 = 3;

/// Lengths of keys and values at the edges of size classes and limits; the rest are random.
const KEY_LENS: [usize; 6] = [1, 8, 24, 64, 1000, 4096];
const VALUE_LENS: [usize; 9] = [0, 1, 7, 8, 64, 215, 216, 217, 5000];

/// A way to the server: a transport, and the capabilities it is denied.
type Way = (TransportChoice, &'static str);

const SHM: Way = (TransportChoice::Shm, "");
const SHM_WITHOUT_ATOMICS: Way = (TransportChoice::Shm, "atomic");
const TCP: Way = (TransportChoice::Tcp, "");

struct Entry {
    value: Vec<u8>,
    version: Version,
}

/// What must come back.
#[derive(Default)]
struct Model {
    entries: HashMap<Vec<u8>, Entry>,
    /// Versions that some key once had, to offer as expectations that do not hold.
    past: Vec<Version>,
}

impl Model {
    fn store(&mut self, key: &[u8], value: Vec<u8>, version: Version) {
        assert!(!self.past.contains(&version), "a version names one publication");
        self.remove(key);
        self.entries.insert(key.to_vec(), Entry { value, version });
    }

    fn remove(&mut self, key: &[u8]) {
        self.past.extend(self.entries.remove(key).map(|entry| entry.version));
    }
}

fn bytes(random: &mut SmallRng, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    random.fill_bytes(&mut bytes);
    bytes
}

fn keys(random: &mut SmallRng) -> Vec<Vec<u8>> {
    let key = |i: usize| {
        let len = KEY_LENS.get(i).copied().unwrap_or_else(|| random.random_range(2..100));
        let mut key = bytes(random, len);
        key[0] = i as u8;
        key
    };
    (0..40).map(key).collect()
}

fn value(random: &mut SmallRng) -> Vec<u8> {
    let edge = random.random_range(0..VALUE_LENS.len() * 2);
    let len = VALUE_LENS.get(edge).copied().unwrap_or_else(|| random.random_range(0..2000));
    bytes(random, len)
}

/// One random operation, its answer checked, the model brought up to it.
fn step(session: &mut Session, key: &[u8], model: &mut Model, random: &mut SmallRng) {
    let (expected, current) = match model.entries.get(key) {
        Some(entry) => (Some(entry.value.clone()), Some(entry.version)),
        None => (None, None),
    };
    // One that holds, or one that held once, perhaps for another key.
    let past = model.past.get(random.random_range(0..model.past.len() + 1)).copied();
    let version = if random.random_bool(0.5) { current.or(past) } else { past.or(current) };
    match (random.random_range(0..10), version) {
        (0 | 1, _) => {
            let got = session.get(key).unwrap().map(|value| (value.to_vec(), value.version()));
            assert_eq!(got, expected.zip(current));
        }
        (2, _) => {
            let mut buffer = vec![1];
            let found = session.get_into(key, &mut buffer).unwrap().is_some();
            assert_eq!(found.then_some(buffer), expected);
        }
        (3 | 4, _) => {
            let value = value(random);
            let version = session.put(key, &value).unwrap().expect("no rival absorbs it");
            model.store(key, value, version);
        }
        (5, _) => {
            let value = value(random);
            match session.put_if_absent(key, &value).unwrap() {
                Put::Stored { version } if current.is_none() => model.store(key, value, version),
                outcome => assert_eq!((outcome, current.is_some()), (Put::Mismatch { current }, true)),
            }
        }
        (6, Some(version)) => {
            let value = value(random);
            match session.put_with(key, &value, PutOptions::new().if_version(version)).unwrap() {
                Put::Stored { version: new } if current == Some(version) => model.store(key, value, new),
                outcome => {
                    assert_eq!((outcome, current != Some(version)), (Put::Mismatch { current }, true));
                }
            }
        }
        (7, _) => {
            assert_eq!(session.delete(key).unwrap(), current.is_some());
            model.remove(key);
        }
        (8, Some(version)) => {
            let outcome = session.delete_if(key, version).unwrap();
            match current {
                Some(current) if current == version => {
                    assert_eq!(outcome, Delete::Deleted);
                    model.remove(key);
                }
                Some(current) => assert_eq!(outcome, Delete::Mismatch { current }),
                None => assert_eq!(outcome, Delete::Absent),
            }
        }
        _ => match session.fetch_add(key, 1) {
            Ok(before) => {
                let counted = session.get(key).unwrap().expect("just counted");
                assert_eq!(counted.counter(), Some(before + 1));
                let old = expected.map_or(0, |value| i64::from_le_bytes(value.try_into().unwrap()));
                assert_eq!(before, old);
                let version = counted.version();
                model.store(key, (before + 1).to_le_bytes().to_vec(), version);
            }
            Err(error) => assert_eq!((error.kind(), current.is_some()), (ErrorKind::Invalid, true)),
        },
    }
}

fn over(ways: &[Way]) {
    let seeds = match std::env::var("FARSIDE_SEED") {
        Ok(seed) => vec![seed.parse().expect("FARSIDE_SEED is a number")],
        Err(_) => (0..SEEDS).collect(),
    };
    for seed in seeds {
        // A short quarantine, so that blocks come round within the test.
        let config = Config { memory: 32 << 20, quarantine: Duration::from_millis(20), ..Config::default() };
        let farside = Embedded::start(config, Client::builder()).unwrap();
        let session = |&(transport, denied): &Way| {
            let builder = Client::builder().address(&farside.address()).transport(transport).deny(denied);
            builder.connect_blocking().unwrap().session().unwrap()
        };
        let mut sessions: Vec<Session> = ways.iter().map(session).collect();
        let mut random = SmallRng::seed_from_u64(seed);
        let (keys, mut model) = (keys(&mut random), Model::default());
        for number in 0..OPERATIONS {
            let session = random.random_range(0..sessions.len());
            let key = &keys[random.random_range(0..keys.len())];
            // Printed with the panic of the step that fails, if one does.
            let _at = Told(format!("seed {seed}, operation {number}, over {:?}", ways[session]));
            step(&mut sessions[session], key, &mut model, &mut random);
        }
        for key in &keys {
            let expected = model.entries.get(key).map(|entry| entry.value.clone());
            let got = sessions[0].get(key).unwrap().map(|value| value.to_vec());
            assert_eq!(got, expected, "seed {seed}, at the end");
        }
    }
}

/// Says where the test was if it panics meanwhile.
struct Told(String);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

#[test]
fn over_shared_memory() {
    over(&[SHM]);
}

#[test]
fn over_shared_memory_with_updates_by_the_server() {
    over(&[SHM_WITHOUT_ATOMICS]);
}

#[test]
fn over_tcp() {
    over(&[TCP]);
}

#[test]
fn over_all_at_once_on_one_table() {
    over(&[SHM, TCP, SHM_WITHOUT_ATOMICS, SHM]);
}
