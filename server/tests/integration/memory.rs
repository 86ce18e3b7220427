//! Memory that runs out, comes back, and is used again.

use crate::client::{Client, config, eventually, figure, get, key_of, put, start};
use farside_protocol::ErrorKind;
use farside_protocol::wire::{Condition, Request, Response};
use farside_server::Config;
use std::time::{Duration, SystemTime};

/// Puts keys until one is refused; returns how many went in.
fn fill(client: &mut Client, value: &[u8]) -> usize {
    for count in 0.. {
        let reply = client.put(&format!("key-{count}"), value);
        match reply.response() {
            Response::Stored { .. } => {}
            Response::Error { kind: ErrorKind::Full, message } => {
                assert!(message.contains("--memory"), "{message}");
                return count;
            }
            other => panic!("{other:?}"),
        }
    }
    unreachable!()
}

#[test]
fn when_memory_is_used_up_nothing_is_lost_and_deletes_make_room() {
    let running = start(Config { memory: Some(1 << 20), shards: Some(1), ..config() });
    let mut client = Client::connect(&running);
    let value = [5; 1000];
    let count = fill(&mut client, &value);
    assert!(count > 500, "{count} records of 1 KB in 1 MiB");
    for i in 0..count {
        assert_eq!(client.get(&format!("key-{i}")).value(), value);
    }
    // Full for new keys, and again when asked again.
    assert_eq!(client.put("more", &value).error().0, ErrorKind::Full);
    for i in 0..50 {
        assert_eq!(client.delete(&format!("key-{i}")).response(), Response::Deleted { existed: true });
    }
    // Waits for the quarantine by itself.
    for i in 0..50 {
        assert!(matches!(client.put(&format!("new-{i}"), &value).response(), Response::Stored { .. }), "{i}");
    }
    for i in 50..count {
        assert_eq!(client.get(&format!("key-{i}")).value(), value);
    }
}

/// Memory keeps the size it was cut for; a smaller record may lie in it meanwhile.
#[test]
fn memory_that_held_large_records_takes_small_ones_at_once() {
    let quarantine = Duration::from_millis(100);
    let running = start(Config { memory: Some(4 << 20), shards: Some(1), quarantine, ..config() });
    let mut client = Client::connect(&running);
    let count = fill(&mut client, &[5; 1000]);
    let (_, message) = client.put("tiny", b"x").error();
    assert!(message.contains("103 s later"), "{message}");
    for i in (0..count).filter(|i| i % 100 != 0) {
        client.delete(&format!("key-{i}"));
    }
    let key = key_of("counter");
    eventually("a counter finds room", || {
        matches!(client.call(&Request::FetchAdd { key, delta: 1 }).response(), Response::Counter { .. })
    });
    for i in 0..count / 2 {
        let reply = client.put(&format!("tiny-{i}"), b"x");
        assert!(matches!(reply.response(), Response::Stored { .. }), "{i}: {:?}", reply.response());
    }
    assert_eq!(client.get("tiny-0").value(), b"x");
    assert_eq!(client.get("key-100").value(), [5; 1000]);
}

#[test]
fn updates_go_on_for_ever_in_little_memory() {
    let running = start(Config { memory: Some(1 << 20), shards: Some(1), ..config() });
    let mut client = Client::connect(&running);
    // Five times the memory, all to one key.
    for round in 0..5_000u32 {
        let mut value = [0; 1000];
        value[..4].copy_from_slice(&round.to_le_bytes());
        assert!(matches!(client.put("k", &value).response(), Response::Stored { .. }), "{round}");
    }
    assert_eq!(client.get("k").value()[..4], 4_999u32.to_le_bytes());
    assert_eq!(figure(&running, "farside_keys"), 1);
}

#[test]
fn a_full_index_is_full_and_serves_what_it_has() {
    let running = start(Config { max_keys: Some(1), shards: Some(1), ..config() });
    let mut client = Client::connect(&running);
    let mut stored = Vec::new();
    let message = loop {
        let key = format!("key-{}", stored.len());
        let reply = client.put(&key, b"v");
        match reply.response() {
            Response::Stored { .. } => stored.push(key),
            Response::Error { kind: ErrorKind::Full, message } => break message.to_owned(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(stored.len(), 32, "one window of slots");
    assert!(message.contains("--max-keys"), "{message}");
    for key in &stored {
        assert_eq!(client.get(key).value(), b"v");
    }
    client.delete(&stored[0]);
    eventually("a slot is free", || {
        matches!(client.call(&put("another", b"v")).response(), Response::Stored { .. })
    });
    assert!(matches!(client.call(&get(&stored[0])).response(), Response::Absent));
}

#[test]
fn memory_of_expired_keys_is_found_when_it_is_needed() {
    let running = start(Config { memory: Some(1 << 20), shards: Some(1), ..config() });
    let mut client = Client::connect(&running);
    let expires_at_ms =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64 + 1;
    let value = [5; 1000];
    for count in 0.. {
        let (key, condition) = (format!("key-{count}"), Condition::Always);
        let request = Request::Put { key: key_of(&key), value: &value, expires_at_ms, condition };
        if !matches!(client.call(&request).response(), Response::Stored { .. }) {
            break;
        }
    }
    eventually("there is room", || matches!(client.put("more", &value).response(), Response::Stored { .. }));
    eventually("the pass is over", || figure(&running, "farside_sweep_expired_total") > 0);
}

#[test]
fn an_idle_server_rests() {
    let running = start(config());
    let mut client = Client::connect(&running);
    for i in 0..1000 {
        client.put(&format!("key-{i}"), b"v");
    }
    std::thread::sleep(Duration::from_millis(1500));
    let cpu = || figure(&running, "farside_cpu_microseconds_total");
    let before = cpu();
    std::thread::sleep(Duration::from_secs(2));
    let used = cpu() - before;
    assert!(used < 20_000, "{used} us of 2 s");
}
