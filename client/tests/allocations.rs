//! The warm path of a session allocates nothing.

use allocation_counter::measure;
use farside::server::Config;
use farside::{Client, Embedded, Operation, Session};

const KEYS: u64 = 100;

/// Over shared memory, without the capabilities `denied`.
fn start(denied: &str) -> Embedded {
    let config = Config { memory: 32 << 20, shards: Some(1), ..Config::default() };
    Embedded::start(config, Client::builder().deny(denied)).unwrap()
}

#[test]
fn a_warm_get_allocates_nothing() {
    for denied in ["", "atomic"] {
        let farside = start(denied);
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
        assert_eq!(allocations.count_total, 0, "denied: {denied}");
    }
}

/// Between the batches in which the server is asked for blocks and told about them: these do allocate.
#[test]
fn warm_updates_allocate_nothing_between_batches() {
    let farside = start("");
    let mut session = farside.session().unwrap();
    let mut quiet = 0;
    for _ in 0..200 {
        let requests = |session: &Session| session.stats().lease_requests + session.stats().reports;
        let before = requests(&session);
        let allocations = measure(|| {
            for key in 0..10u64 {
                session.put(key.to_le_bytes(), [7; 100]).unwrap();
                session.fetch_add("counter", 1).unwrap();
            }
        });
        // The first rounds fill buffers; a lease that arrives is taken in.
        if requests(&session) == before && allocations.count_total == 0 {
            quiet += 1;
        }
    }
    assert!(quiet > 100, "{quiet} of 200 rounds of 20 updates allocated nothing");
}
