//! The operations over TCP, one at a time and pipelined.

use crate::client::{Client, config, figure, get, key_of, put, start};
use farside_protocol::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};
use farside_protocol::record::FLAG_COUNTER;
use farside_protocol::wire::{Condition, Request, Response};
use farside_protocol::{ErrorKind, Version};
use farside_server::Config;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn version(response: &Response<'_>) -> Version {
    match response {
        Response::Stored { version: Some(version), .. } => *version,
        other => panic!("{other:?} has no version"),
    }
}

#[test]
fn what_is_put_is_got_until_it_is_deleted() {
    let running = start(config());
    let mut client = Client::connect(&running);
    assert!(matches!(client.get("k").response(), Response::Absent));
    for value in [&b"one"[..], b"", &[7; 100_000]] {
        version(&client.put("k", value).response());
        assert_eq!(client.get("k").value(), value);
    }
    assert_eq!(client.delete("k").response(), Response::Deleted { existed: true });
    assert_eq!(client.delete("k").response(), Response::Deleted { existed: false });
    assert!(matches!(client.get("k").response(), Response::Absent));
}

#[test]
fn other_connections_see_it_at_once() {
    let running = start(config());
    let (mut writer, mut reader) = (Client::connect(&running), Client::connect(&running));
    for round in 0..200u32 {
        writer.put("k", &round.to_le_bytes());
        assert_eq!(reader.get("k").value(), round.to_le_bytes());
    }
}

#[test]
fn conditions_hold_or_say_what_is_there() {
    let running = start(config());
    let mut client = Client::connect(&running);
    let put_if = |client: &mut Client, condition| {
        client.call(&Request::Put { key: key_of("k"), value: b"v", expires_at_ms: 0, condition })
    };
    let missing = put_if(&mut client, Condition::Version(Version::from_bits(77)));
    assert_eq!(missing.response(), Response::Mismatch { current: None });
    let first = version(&put_if(&mut client, Condition::Absent).response());
    let exists = put_if(&mut client, Condition::Absent);
    assert_eq!(exists.response(), Response::Mismatch { current: Some(first) });
    let second = version(&put_if(&mut client, Condition::Version(first)).response());
    let stale = put_if(&mut client, Condition::Version(first));
    assert_eq!(stale.response(), Response::Mismatch { current: Some(second) });
    let delete_if = |client: &mut Client, version| {
        client.call(&Request::Delete { key: key_of("k"), condition: Condition::Version(version) })
    };
    assert_eq!(delete_if(&mut client, first).response(), Response::Mismatch { current: Some(second) });
    assert_eq!(delete_if(&mut client, second).response(), Response::Deleted { existed: true });
}

#[test]
fn counters_count_and_nothing_else_does() {
    let running = start(config());
    let mut client = Client::connect(&running);
    let mut add = |key: &str, delta| client.call(&Request::FetchAdd { key: key_of(key), delta });
    for (delta, after) in [(5, 5), (-7, -2), (i64::MAX, i64::MAX - 2)] {
        assert!(matches!(add("c", delta).response(), Response::Counter { value, .. } if value == after));
    }
    let (kind, message) = add("c", 100).error();
    assert_eq!((kind, message.contains("range")), (ErrorKind::Invalid, true));
    let got = client.get("c");
    assert!(matches!(got.response(), Response::Value { flags: FLAG_COUNTER, .. }));
    client.put("text", b"text");
    let refused = client.call(&Request::FetchAdd { key: key_of("text"), delta: 1 });
    assert_eq!(refused.error().0, ErrorKind::Invalid);
}

#[test]
fn many_add_to_one_counter_and_none_is_lost() {
    let running = start(config());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = Client::connect(&running);
                for _ in 0..250 {
                    let added = client.call(&Request::FetchAdd { key: key_of("c"), delta: 1 });
                    assert!(matches!(added.response(), Response::Counter { .. }));
                }
            });
        }
    });
    assert_eq!(Client::connect(&running).get("c").value(), 1000i64.to_le_bytes());
}

#[test]
fn an_expired_key_is_absent_to_all() {
    let running = start(config());
    let mut client = Client::connect(&running);
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let mut put_until = |expires_at_ms| {
        client.call(&Request::Put {
            key: key_of("k"),
            value: b"v",
            expires_at_ms,
            condition: Condition::Always,
        })
    };
    version(&put_until(now_ms - 100).response());
    assert!(matches!(client.get("k").response(), Response::Absent));
    assert_eq!(client.delete("k").response(), Response::Deleted { existed: false });
    let put_if_absent = Request::Put {
        key: key_of("k"),
        value: b"w",
        expires_at_ms: now_ms + 60_000,
        condition: Condition::Absent,
    };
    version(&client.call(&put_if_absent).response());
    assert!(
        matches!(client.get("k").response(), Response::Value { expires_at_ms, .. } if expires_at_ms > now_ms)
    );
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let running = start(config());
    let mut client = Client::connect(&running);
    let (keys, mut batch) = ((0..500).map(|i| format!("key-{i}")).collect::<Vec<_>>(), Vec::new());
    for (i, key) in keys.iter().enumerate() {
        put(key, key.as_bytes()).encode(2 * i as u64, &mut batch);
        get(key).encode(2 * i as u64 + 1, &mut batch);
    }
    // In pieces that end in the middle of frames.
    for piece in batch.chunks(1009) {
        client.write(piece);
    }
    for (i, key) in keys.iter().enumerate() {
        let (stored, got) = (client.receive().unwrap(), client.receive().unwrap());
        assert_eq!((stored.id, got.id), (2 * i as u64, 2 * i as u64 + 1));
        version(&stored.response());
        assert_eq!(got.value(), key.as_bytes());
    }
}

#[test]
fn the_largest_value_goes_in_and_out() {
    // An unoptimized build takes longer to copy it than the quarantine of the other tests.
    let quarantine = Duration::from_secs(2);
    let running = start(Config { memory: Some(64 << 20), shards: Some(1), quarantine, ..config() });
    let mut client = Client::connect(&running);
    let mut value = vec![7; VALUE_LEN_MAX];
    let (first, last) = (b"first", b"last");
    value[..first.len()].copy_from_slice(first);
    value[VALUE_LEN_MAX - last.len()..].copy_from_slice(last);
    let key = "k".repeat(KEY_LEN_MAX);
    version(&client.put(&key, &value).response());
    assert!(client.get(&key).value() == value);
}

#[test]
fn what_was_done_is_counted() {
    let running = start(config());
    let mut client = Client::connect(&running);
    for i in 0..300 {
        client.put(&format!("key-{i}"), b"v");
    }
    client.get("key-1");
    client.get("nothing");
    client.delete("key-2");
    client.call(&Request::Ping);
    let op = |op, status| {
        let name = format!(
            "farside_ops_total{{op=\"{op}\",status=\"{status}\",transport=\"tcp\",path=\"two-sided\"}}"
        );
        figure(&running, &name)
    };
    crate::client::eventually("the slot of the deleted key is empty", || {
        figure(&running, "farside_keys") == 299
    });
    assert_eq!((op("put", "ok"), op("get", "ok"), op("get", "absent")), (300, 1, 1));
    assert_eq!((op("delete", "ok"), op("ping", "ok")), (1, 1));
    let asked = client.call(&Request::Stats);
    let Response::Stats(statistics) = asked.response() else { panic!() };
    let value =
        |name: &str| statistics.iter().find(|statistic| statistic.name == name).unwrap().value.clone();
    assert_eq!(value("farside_keys"), "299");
    assert_eq!(value("farside_authority"), "coherent");
    assert_eq!(value("farside_transports"), "tcp");
    assert_eq!(value("farside_sessions{transport=\"tcp\"}"), "1");
    let microseconds = |name: &str| value(name).parse::<u64>().unwrap();
    let upkeep = microseconds("farside_upkeep_cpu_microseconds_total");
    assert!(microseconds("farside_cpu_microseconds_total") > upkeep, "the requests took some time too");
}
