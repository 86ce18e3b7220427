//! Every operation against a map that cannot be wrong, over each way to the server, over a mix of them on one table,
//! over the RDMA devices of the host, and over the simulated fabric.
//!
//! One operation at a time, so each answer is determined. Replay a failure with `FARSIDE_SEED=<seed>`.

use crate::sim::SimTable;
use crate::target::{
    Answer, SHM, SHM_WITHOUT_ATOMICS, TCP, Target, VERBS, VERBS_WITHOUT_ATOMICS, Way, connect, rdma_devices,
    serve,
};
use farside::{Client, Delete, Session};
use farside_tests::content::Content;
use farside_tests::model::MapModel;
use farside_tests::operation::{Operation, Outcome, Version};
use pollster::block_on;
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use std::net::IpAddr;

const OPERATIONS: usize = 4_000;
const SEEDS: u64 = 3;
/// In a guest, which is slow.
const OPERATIONS_OVER_RDMA: usize = 600;

/// Lengths of keys and values at the edges of size classes and limits; the rest are random.
const KEY_LENS: [usize; 6] = [1, 8, 24, 64, 1000, 4096];
const VALUE_LENS: [usize; 9] = [0, 1, 7, 8, 64, 215, 216, 217, 5000];

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

fn value(random: &mut SmallRng) -> Content {
    let edge = random.random_range(0..VALUE_LENS.len() * 2);
    let len = VALUE_LENS.get(edge).copied().unwrap_or_else(|| random.random_range(0..2000));
    Content::Bytes(bytes(random, len))
}

/// The model, and those who must agree with it.
struct Comparison<T> {
    targets: Vec<T>,
    keys: Vec<Vec<u8>>,
    /// By the keys' numbers.
    model: MapModel<usize, Content>,
    /// Versions that some key once had, to offer as expectations that do not hold.
    past: Vec<Version>,
    random: SmallRng,
}

impl<T: Target> Comparison<T> {
    fn new(targets: Vec<T>, seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        Self { targets, keys: keys(&mut random), model: MapModel::default(), past: Vec::new(), random }
    }

    async fn run(mut self, operations: usize) {
        for _ in 0..operations {
            let key = self.random.random_range(0..self.keys.len());
            let by = self.random.random_range(0..self.targets.len());
            self.step(by, key).await;
        }
        for key in 0..self.keys.len() {
            self.perform(0, key, &Operation::Get).await;
        }
    }

    async fn step(&mut self, by: usize, key: usize) {
        let current = self.current(key);
        // One that holds, or one that held once, perhaps for another key.
        let past = self.past.get(self.random.random_range(0..self.past.len() + 1)).copied();
        let version = if self.random.random_bool(0.5) { current.or(past) } else { past.or(current) };
        let operation = match (self.random.random_range(0..10), version) {
            (0..3, _) => Operation::Get,
            (3 | 4, _) => Operation::Put { value: value(&mut self.random), expires_at: None },
            (5, _) => Operation::PutIfAbsent { value: value(&mut self.random), expires_at: None },
            (6, Some(expected)) => {
                Operation::CompareExchange { expected, value: value(&mut self.random), expires_at: None }
            }
            (7, _) => Operation::Delete,
            (8, Some(version)) => return self.delete_if(by, key, version).await,
            _ => Operation::FetchAdd { delta: 1 },
        };
        self.perform(by, key, &operation).await;
        if matches!(operation, Operation::FetchAdd { .. }) {
            // Tells the version of what was added to.
            self.perform(by, key, &Operation::Get).await;
        }
        let new = self.current(key).filter(|new| Some(*new) != current);
        assert!(new.is_none_or(|new| !self.past.contains(&new)), "a version names one publication");
        self.past.extend(current.filter(|_| current != self.current(key)));
    }

    /// Has the operation carried out, and the model follow what is answered, if it can.
    async fn perform(&mut self, by: usize, key: usize, operation: &Operation<Content>) {
        let before = self.current(key);
        let Answer { outcome, current } = self.targets[by].perform(&self.keys[key], operation).await.unwrap();
        if let Err(disagreement) = self.model.accept(&key, operation, &outcome) {
            panic!("client {by}, key {key}: {disagreement}");
        }
        match outcome {
            Outcome::Exists | Outcome::Mismatch => assert_eq!(current, before, "{operation}"),
            Outcome::Stored { version } => assert!(version.is_some(), "no rival absorbs it"),
            _ => {}
        }
    }

    /// A conditional DELETE is to the model a DELETE or nothing.
    async fn delete_if(&mut self, by: usize, key: usize, version: Version) {
        let outcome = self.targets[by].delete_if(&self.keys[key], version).await;
        let expected = match self.current(key) {
            Some(current) if current == version => {
                self.model.execute(&key, &Operation::Delete, None);
                self.past.push(current);
                Delete::Deleted
            }
            Some(current) => Delete::Mismatch { current: farside::Version::from_bits(current.0) },
            None => Delete::Absent,
        };
        assert_eq!(outcome, expected);
    }

    fn current(&self, key: usize) -> Option<Version> {
        self.model.state(&key).record().and_then(|record| record.version)
    }
}

/// Compares the clients that `start` makes from a seed, together with the server they need.
fn compare<S, T: Target>(operations: usize, start: impl Fn(u64) -> (S, Vec<T>)) {
    let seeds = match std::env::var("FARSIDE_SEED") {
        Ok(seed) => vec![seed.parse().expect("FARSIDE_SEED is a number")],
        Err(_) => (0..SEEDS).collect(),
    };
    for seed in seeds {
        let _at = Told(seed);
        let (_server, targets) = start(seed);
        block_on(Comparison::new(targets, seed).run(operations));
    }
}

/// Says where the test was if it panics meanwhile.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}

/// Compares clients that reach a new server by `ways`.
fn compare_live<T: Target>(ways: &[Way], target: impl Fn(&Client) -> T) {
    compare_on(None, ways, target);
}

/// The same over each RDMA device.
fn compare_rdma<T: Target>(ways: &[Way], target: impl Fn(&Client) -> T) {
    for device in rdma_devices("the comparison over RDMA") {
        compare_on(Some(device), ways, &target);
    }
}

fn compare_on<T: Target>(rdma: Option<IpAddr>, ways: &[Way], target: impl Fn(&Client) -> T) {
    let operations = if rdma.is_some() { OPERATIONS_OVER_RDMA } else { OPERATIONS };
    compare(operations, |_| {
        let farside = serve(rdma);
        let targets = ways.iter().map(|way| target(&connect(&farside, *way))).collect();
        (farside, targets)
    });
}

fn session(client: &Client) -> Session {
    client.session().unwrap()
}

#[test]
fn over_shared_memory() {
    compare_live(&[SHM], session);
}

#[test]
fn over_shared_memory_with_updates_by_the_server() {
    compare_live(&[SHM_WITHOUT_ATOMICS], session);
}

#[test]
fn over_tcp() {
    compare_live(&[TCP], session);
}

#[test]
fn over_all_at_once_on_one_table() {
    compare_live(&[SHM, TCP, SHM_WITHOUT_ATOMICS, SHM], session);
}

#[test]
fn over_all_at_once_by_asynchronous_clients() {
    compare_live(&[SHM, TCP, SHM_WITHOUT_ATOMICS, SHM], Client::clone);
}

#[test]
fn over_rdma() {
    compare_rdma(&[VERBS, VERBS], session);
}

/// Where the device has atomics it makes all changes, the server's and those for the other transports too.
#[test]
fn over_rdma_and_all_others_on_one_table() {
    compare_rdma(&[VERBS, SHM, TCP, VERBS_WITHOUT_ATOMICS], session);
}

#[test]
fn over_rdma_and_all_others_by_asynchronous_clients() {
    compare_rdma(&[VERBS, SHM, TCP, VERBS_WITHOUT_ATOMICS], Client::clone);
}

#[test]
fn over_a_simulated_fabric() {
    compare(OPERATIONS, |seed| {
        let table = SimTable::new(seed);
        let clients = (0..3).map(|number| table.connect(number)).collect();
        (table, clients)
    });
}
