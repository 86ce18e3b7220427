use super::*;
use crate::config::{Config, Socket};
use crate::engine::{Answer, Engine};
use crate::server::{Running, Server};
use crate::stats::Status;
use farside_protocol::limits::SLOTS_PER_WINDOW;
use farside_protocol::wire::Condition;
use farside_protocol::{Key, KeyHash, Record, SlotState, SlotWord};
use farside_transport::clock::wall_ms;

/// A server whose own sweep has nothing to do for the first seconds of its life.
fn start() -> Running {
    let config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        socket: Socket::Off,
        memory: Some(1 << 20),
        shards: Some(2),
        max_keys: Some(1000),
        threads: Some(1),
        ..Config::default()
    };
    Server::start(config).unwrap()
}

fn put(engine: &mut Engine, key: &str, expires_at_ms: u64) {
    let record = Record { key: key_of(key), value: b"value", expires_at_ms, flags: 0 };
    let answer = engine.put(&record, Condition::Always, 1, &mut Vec::new());
    assert!(matches!(answer, Answer::Done(Status::Ok)));
}

fn get(engine: &mut Engine, key: &str) -> Status {
    match engine.get(key_of(key), 1, &mut Vec::new()) {
        Answer::Done(status) => status,
        Answer::NoMemory { .. } => panic!("a lookup needs no memory"),
    }
}

fn key_of(key: &str) -> Key<'_> {
    Key::new(key.as_bytes()).unwrap()
}

fn sweep(running: &Running, grace: Duration) -> Found {
    let state = running.state();
    let mut tools = Tools::new(state.clone(), grace);
    let mut pass = Pass::begin(&state);
    while !pass.step(&mut tools) {}
    pass.found
}

/// The shard of a key, and its slot with the word in it.
fn slot_of(state: &State, key: &str) -> (Arc<Shard>, SlotIndex, SlotWord) {
    let hash = KeyHash::of(key.as_bytes(), state.shards[0].table.seed);
    let shard = state.shards[hash.shard(state.shards.len())].clone();
    let geometry = shard.superblock.geometry;
    let first = geometry.window(hash.home_line(geometry.lines()));
    let words = (first.0..).take(SLOTS_PER_WINDOW).map(SlotIndex);
    let words = words.map(|slot| (slot, SlotWord::from_bits(shard.region.load(slot.offset()).unwrap())));
    let (slot, word) = words.clone().find(|(_, word)| word.is_committed_for(hash.fingerprint())).unwrap();
    (shard.clone(), slot, word)
}

#[test]
fn a_tidy_table_stays_as_it_is() {
    let running = start();
    let mut engine = Engine::new(running.state());
    for i in 0..500 {
        put(&mut engine, &format!("key-{i}"), 0);
    }
    engine.settle_all();
    for _ in 0..3 {
        assert_eq!(sweep(&running, Duration::ZERO), Found { keys: 500, ..Found::default() });
    }
    assert!((0..500).all(|i| get(&mut engine, &format!("key-{i}")) == Status::Ok));
}

#[test]
fn keys_are_deleted_when_they_have_been_expired_for_the_grace() {
    let running = start();
    let mut engine = Engine::new(running.state());
    let now_ms = wall_ms();
    put(&mut engine, "long ago", now_ms - 70_000);
    put(&mut engine, "just now", now_ms - 1000);
    put(&mut engine, "soon", now_ms + 600_000);
    put(&mut engine, "never", 0);
    engine.settle_all();
    let found = sweep(&running, Duration::from_secs(60));
    assert_eq!((found.keys, found.expired, found.lost), (3, 1, 0));
    assert_eq!(found.expires_first_ms, Some(now_ms - 1000));
    let found = sweep(&running, Duration::ZERO);
    assert_eq!((found.keys, found.expired), (2, 1));
    assert_eq!(found.expires_first_ms, Some(now_ms + 600_000));
    let used: u64 = running.state().shards.iter().map(|shard| shard.heap.lock().usage().published).sum();
    assert_eq!(used, 2 * 64, "the blocks of both are given back");
}

#[test]
fn a_slot_whose_writer_died_is_brought_forward() {
    let running = start();
    let state = running.state();
    let mut engine = Engine::new(state.clone());
    put(&mut engine, "k", 0);
    engine.settle_all();
    let (_, _, before) = slot_of(&state, "k");
    put(&mut engine, "k", 0);
    drop(engine);
    assert_eq!(slot_of(&state, "k").2, before, "it lags");
    let found = sweep(&running, Duration::ZERO);
    assert_eq!((found.keys, found.forwarded, found.lost), (1, 1, 0));
    assert_ne!(slot_of(&state, "k").2, before);
}

#[test]
fn a_record_that_nothing_leads_to_is_retired() {
    let running = start();
    let state = running.state();
    let mut engine = Engine::new(state.clone());
    for key in ["kept", "lost"] {
        put(&mut engine, key, 0);
    }
    engine.settle_all();
    // As if a client had moved the slot past the record and died before it said so.
    let (shard, slot, word) = slot_of(&state, "lost");
    shard.region.compare_swap(slot.offset(), word.to_bits(), SlotWord::EMPTY.to_bits()).unwrap();
    let resting = shard.heap.lock().usage().quarantined;
    assert_eq!(sweep(&running, Duration::ZERO), Found { keys: 1, lost: 1, ..Found::default() });
    assert_eq!(shard.heap.lock().usage().quarantined, resting + 64);
    assert_eq!(get(&mut engine, "kept"), Status::Ok);
}

#[test]
fn a_damaged_record_is_dropped_and_never_served() {
    let running = start();
    let state = running.state();
    let mut engine = Engine::new(state.clone());
    put(&mut engine, "k", 0);
    engine.settle_all();
    let (shard, slot, word) = slot_of(&state, "k");
    let at = word.locator().block().offset() + 40;
    let bits = shard.region.load(at).unwrap();
    shard.region.compare_swap(at, bits, bits ^ 1).unwrap();
    assert!(matches!(get(&mut engine, "k"), Status::Failed(farside_protocol::ErrorKind::Corrupt)));
    let found = sweep(&running, Duration::ZERO);
    assert_eq!((found.damaged, state.faults.damaged.total()), (1, 1));
    let word = SlotWord::from_bits(shard.region.load(slot.offset()).unwrap());
    assert_eq!(word.state(), SlotState::Empty);
    assert_eq!(get(&mut engine, "k"), Status::Absent);
    put(&mut engine, "k", 0);
    assert_eq!(get(&mut engine, "k"), Status::Ok);
}
