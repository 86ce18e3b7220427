//! The warm path of a session allocates nothing.

mod rdma;

use allocation_counter::measure;
use farside::server::Config;
use farside::{AccessPath, Client, Embedded, Operation, Session, TransportChoice};
use std::net::IpAddr;

const KEYS: u64 = 100;

/// Over an RDMA device or else shared memory, without the capabilities `denied`.
fn start(device: Option<IpAddr>, denied: &str) -> Embedded {
    let rdma = device.map(|address| (address, 0).into());
    let memory_windows = rdma.is_some() && rdma::memory_windows();
    let config =
        Config { memory: Some(32 << 20), shards: Some(1), rdma, memory_windows, ..Config::default() };
    let transport = if device.is_some() { TransportChoice::Verbs } else { TransportChoice::Shm };
    Embedded::start(config, Client::builder().transport(transport).deny(denied)).unwrap()
}

fn devices() -> impl Iterator<Item = Option<IpAddr>> {
    rdma::devices().unwrap_or_default().into_iter().map(Some).chain([None])
}

#[test]
fn a_warm_get_allocates_nothing() {
    for (device, denied) in devices().flat_map(|device| [(device, ""), (device, "atomic")]) {
        let farside = start(device, denied);
        let mut session = farside.session().unwrap();
        let mut buffer = Vec::new();
        for key in 0..KEYS {
            session.put(key.to_le_bytes(), [7; 1000]).unwrap();
        }
        let misses = |session: &Session| session.stats()[Operation::Get].counts.hint_misses;
        // Hints find room for all keys after a few rounds.
        for round in 0.. {
            let before = misses(&session);
            for key in 0..KEYS {
                session.get_into(key.to_le_bytes(), &mut buffer).unwrap();
            }
            if misses(&session) == before {
                break;
            }
            assert!(round < 100, "the keys do not get warm");
        }
        let allocations = measure(|| {
            for key in 0..KEYS {
                assert!(session.get(key.to_le_bytes()).unwrap().is_some());
                assert!(session.get_into(key.to_le_bytes(), &mut buffer).unwrap().is_some());
            }
        });
        assert_eq!(allocations.count_total, 0, "{device:?}, denied: {denied}");
    }
}

/// Between the batches in which slots are brought forward, and the server is asked for blocks and told about them: these
/// do allocate.
#[test]
fn warm_updates_allocate_nothing_between_batches() {
    for device in devices() {
        let farside = start(device, "");
        if farside.active().updates == AccessPath::TwoSided {
            continue;
        }
        let mut session = farside.session().unwrap();
        let mut quiet = 0;
        for _ in 0..200 {
            let batches = |session: &Session| {
                let stats = session.stats();
                stats.lease_requests + stats.reports + stats.forwards
            };
            let before = batches(&session);
            let allocations = measure(|| {
                for key in 0..10u64 {
                    session.put(key.to_le_bytes(), [7; 100]).unwrap();
                    session.fetch_add("counter", 1).unwrap();
                }
            });
            // The first rounds fill buffers; a lease that arrives is taken in.
            if batches(&session) == before && allocations.count_total == 0 {
                quiet += 1;
            }
        }
        assert!(quiet > 60, "{device:?}: {quiet} of 200 rounds of 20 updates allocated nothing");
    }
}
