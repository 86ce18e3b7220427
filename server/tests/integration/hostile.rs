//! Clients that do what they should not.

use crate::client::{Client, config, eventually, figure, get, hello, key_of, put, start};
use farside_protocol::wire::{Condition, HEADER_LEN, Request, Response, Rights, Wants};
use farside_protocol::{Block, Class, ErrorKind, Life};
use farside_server::Config;
use std::time::{Duration, Instant};

#[test]
fn garbage_closes_the_connection_that_it_came_on() {
    let running = start(config());
    let mut good = Client::connect(&running);
    let mut garbage = Vec::new();
    Request::Ping.encode(7, &mut garbage);
    let spoil = |at: usize, byte| {
        let mut bytes = garbage.clone();
        bytes[at] = byte;
        bytes
    };
    // A kind that is none, reserved bytes, a body where none may be, a body longer than any.
    for bytes in [spoil(4, 0x7f), spoil(5, 1), [spoil(0, 1), vec![0]].concat(), spoil(3, 0xff)] {
        let mut client = Client::connect(&running);
        client.write(&bytes);
        assert_eq!(client.receive().unwrap().error().0, ErrorKind::Invalid);
        assert!(client.receive().is_none());
    }
    assert!(matches!(good.call(&Request::Ping).response(), Response::Pong));
    assert_eq!(figure(&running, "farside_faults_total{kind=\"garbage\"}"), 4);
}

/// Numbers that look random, the same each time.
fn random() -> impl FnMut() -> u64 {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    }
}

#[test]
fn random_bytes_never_hurt_others() {
    let running = start(config());
    let mut good = Client::connect(&running);
    good.put("k", b"v");
    let mut random = random();
    for round in 0..100 {
        // Half of them open a session first.
        let mut client = if round % 2 == 0 { Client::mute(&running) } else { Client::connect(&running) };
        let len = random() as usize % 300;
        let bytes: Vec<u8> = (0..len).map(|_| random() as u8).collect();
        client.try_write(&bytes);
    }
    assert_eq!(good.get("k").value(), b"v");
    eventually("all are gone", || figure(&running, "farside_connections") == 1);
}

#[test]
fn damaged_requests_never_hurt_others() {
    let running = start(config());
    let mut good = Client::connect(&running);
    good.put("k", b"v");
    let (key, condition) = (key_of("long-key"), Condition::Always);
    let (class, life) = (Class::holding(100).unwrap(), Life { block: Block::new(2).unwrap(), count: 1 });
    let requests = [
        get("long-key"),
        put("long-key", b"a value"),
        Request::Delete { key, condition },
        Request::FetchAdd { key, delta: 1 },
        Request::Lease { shard: 0, class, queue_pair: 0, count: 1 },
        Request::Report { shard: 0, published: vec![life], retired: vec![life], returned: vec![life] },
        Request::Hello(hello(b"", Rights::ReadWrite, Wants::Messages)),
    ];
    let mut random = random();
    for _ in 0..200 {
        let mut client = Client::connect(&running);
        // Several in a row, as long as the server takes them.
        for _ in 0..10 {
            let mut frame = Vec::new();
            requests[random() as usize % requests.len()].encode(random(), &mut frame);
            for _ in 0..random() % 3 {
                let body_len = (frame.len() - HEADER_LEN) as u64;
                frame[HEADER_LEN + (random() % body_len) as usize] = random() as u8;
            }
            client.try_write(&frame);
        }
    }
    assert_eq!(good.get("k").value(), b"v");
    eventually("all are gone", || figure(&running, "farside_connections") == 1);
}

#[test]
fn a_frame_that_stops_in_the_middle_does_nothing() {
    let running = start(config());
    let mut bytes = Vec::new();
    put("k", b"value").encode(1, &mut bytes);
    for len in 0..bytes.len() {
        let mut client = Client::connect(&running);
        client.write(&bytes[..len]);
    }
    assert!(matches!(Client::connect(&running).get("k").response(), Response::Absent));
}

/// All but the last byte of a PUT of a value of `len` bytes.
fn unfinished_put(len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    put("k", &vec![7; len]).encode(5, &mut bytes);
    bytes.pop();
    bytes
}

#[test]
fn who_may_only_read_cannot_make_the_server_hold_a_large_request() {
    let running = start(config());
    let mut reader = Client::mute(&running);
    reader.greet(&hello(b"", Rights::Read, Wants::Messages)).welcome();
    let longest = "k".repeat(4096);
    assert!(matches!(reader.get(&longest).response(), Response::Absent));
    // The header is enough.
    reader.write(&unfinished_put(1 << 20)[..HEADER_LEN]);
    let reply = reader.receive().unwrap();
    let (kind, message) = reply.error();
    assert_eq!((reply.id, kind), (5, ErrorKind::Invalid));
    assert!(message.contains("4352"), "{message}");
    assert!(reader.receive().is_none());
}

#[test]
fn large_requests_that_never_end_are_held_up_to_a_bound() {
    // So much is not copied in 20 ms on every machine.
    let quarantine = Duration::from_secs(1);
    let running = start(Config { memory: Some(128 << 20), shards: Some(1), quarantine, ..config() });
    let bytes = unfinished_put(16 << 20);
    // A budget of 64 MiB holds three of 16 MiB and a little.
    let mut holders: Vec<_> = (0..3).map(|_| Client::connect(&running)).collect();
    for holder in &mut holders {
        holder.write(&bytes);
    }
    let mut late = Client::connect(&running);
    late.write(&bytes[..HEADER_LEN + 1000]);
    let (kind, message) = late.receive().unwrap().error();
    assert_eq!(kind, ErrorKind::Full, "{message}");
    assert_eq!(figure(&running, "farside_faults_total{kind=\"no_room\"}"), 1);
    // Small ones are not concerned, and large ones come in again when there is room.
    let mut good = Client::connect(&running);
    good.put("small", b"v");
    drop(holders.pop());
    assert!(matches!(good.put("large", &[1; 8 << 20]).response(), Response::Stored { .. }));
    for holder in &mut holders {
        holder.write(&[7]);
        let reply = holder.receive().unwrap();
        assert!(matches!(reply.response(), Response::Stored { .. }), "{:?}", reply.response());
    }
}

#[test]
fn who_does_not_take_its_answers_is_cut_off_and_hurts_nobody() {
    let lease = Duration::from_millis(500);
    let running = start(Config { session_lease: lease, threads: Some(1), ..config() });
    let mut greedy = Client::connect(&running);
    greedy.put("large", &[1; 60_000]);
    let mut request = Vec::new();
    get("large").encode(1, &mut request);
    // Answers of 600 MB: neither the server nor the sockets can hold a tenth of them.
    greedy.try_write(&request.repeat(10_000));
    let (mut good, began) = (Client::connect(&running), Instant::now());
    while figure(&running, "farside_faults_total{kind=\"slow_reader\"}") == 0 {
        assert_eq!(good.get("large").value().len(), 60_000);
        assert!(began.elapsed() < Duration::from_secs(10), "it is not cut off");
    }
    eventually("it is gone", || figure(&running, "farside_connections") == 1);
}

#[test]
fn a_silent_session_is_ended_and_one_that_pings_is_not() {
    let lease = Duration::from_millis(300);
    let running = start(Config { session_lease: lease, ..config() });
    let (mut silent, mut pinging) = (Client::connect(&running), Client::connect(&running));
    for _ in 0..10 {
        std::thread::sleep(lease / 3);
        assert!(matches!(pinging.call(&Request::Ping).response(), Response::Pong));
    }
    let (kind, message) = silent.receive().unwrap().error();
    assert_eq!(kind, ErrorKind::Unavailable);
    assert!(message.contains("lease"), "{message}");
    assert!(silent.receive().is_none());
}

#[test]
fn leases_are_not_for_sessions_without_memory() {
    let running = start(config());
    let mut client = Client::connect(&running);
    let class = Class::holding(100).unwrap();
    let reply = client.call(&Request::Lease { shard: 0, class, queue_pair: 0, count: 1 });
    assert_eq!(reply.error().0, ErrorKind::Invalid);
    let report = Request::Report { shard: 0, published: vec![], retired: vec![], returned: vec![] };
    assert_eq!(client.call(&report).error().0, ErrorKind::Invalid);
}
