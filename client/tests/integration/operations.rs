//! Every operation over every path, by session and by client.

use crate::ways::{Way, config, over_each_way};
use farside::server::Config;
use farside::{AccessPath, AtomicScope, Delete, Embedded, ErrorKind, Operation, Put, PutOptions, Version};
use pollster::block_on;
use std::time::{Duration, Instant};

fn stored(put: Put) -> Version {
    put.version().unwrap_or_else(|| panic!("{put:?}"))
}

/// A client that leases blocks of its own asks the server when there are none of a size.
#[test]
fn small_records_find_room_in_memory_that_large_ones_left() {
    let config = Config { memory: Some(4 << 20), shards: Some(1), ..Config::default() };
    let farside = Embedded::start(config, Way::Shm.builder()).unwrap();
    let mut session = farside.session().unwrap();
    let mut count = 0;
    let full = loop {
        match session.put(format!("key-{count}"), [5; 1000]) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), ErrorKind::Full);
    for i in 0..count {
        session.delete(format!("key-{i}")).unwrap();
    }
    let began = Instant::now();
    // Blocks rest for 100 ms; of another size they would be after 102 s.
    while let Err(error) = session.put("tiny", "x") {
        assert_eq!(error.kind(), ErrorKind::Full);
        assert!(began.elapsed() < Duration::from_secs(20), "{error}");
    }
    assert_eq!(session.fetch_add("counter", 2).unwrap(), 0);
    assert_eq!(session.get("tiny").unwrap().as_deref(), Some(&b"x"[..]));
    assert_eq!(session.fetch_add("counter", 2).unwrap(), 2);
}

#[test]
fn the_active_path_is_the_one_that_was_meant() {
    over_each_way(|way, farside| {
        let active = farside.active();
        assert_eq!(active.reads == AccessPath::OneSided, way.reads_one_sided(), "{active}");
        let updates_one_sided = active.updates == AccessPath::OneSided;
        let has_atomics = active.atomics != AtomicScope::None;
        assert_eq!(updates_one_sided, way.updates_one_sided().unwrap_or(has_atomics), "{active}");
        let best = updates_one_sided || way == Way::Tcp;
        assert_eq!(active.reasons.is_empty(), best, "each lesser path has a reason: {active}");
    });
}

/// As those that are trusted on a server that trusts none.
#[test]
fn writers_that_are_not_trusted_read_themselves_and_have_their_changes_made() {
    for way in Way::all().into_iter().filter(|way| way.reads_one_sided()) {
        let farside = way.start_with(Config { untrusted_writers: true, ..config() });
        let active = farside.active();
        assert_eq!((active.reads, active.updates), (AccessPath::OneSided, AccessPath::TwoSided), "{active}");
        assert!(
            active.to_string().contains("updates: the server makes its clients' changes itself"),
            "{active}"
        );
        let mut session = farside.session().unwrap();
        let version = session.put("k", "one").unwrap().expect("nobody else writes");
        assert!(matches!(session.compare_exchange("k", version, "two").unwrap(), Put::Stored { .. }));
        assert_eq!(session.get("k").unwrap().as_deref(), Some(&b"two"[..]));
        assert_eq!(session.fetch_add("n", 5).unwrap(), 0);
        assert!(session.delete("k").unwrap());
        assert_eq!(session.get("k").unwrap(), None);
        let stats = session.stats();
        for operation in [Operation::Put, Operation::CompareExchange, Operation::FetchAdd, Operation::Delete]
        {
            let counts = stats[operation].counts;
            assert_eq!((counts.two_sided, counts.fabric.round_trips), (1, 0), "{operation:?} over {way:?}");
        }
        assert_eq!(stats[Operation::Get].counts.two_sided, 0, "{way:?}");
    }
}

#[test]
fn a_session_does_every_operation() {
    over_each_way(|way, farside| {
        let mut session = farside.session().unwrap();
        assert_eq!(session.get("k").unwrap(), None);
        let first = session.put("k", "one").unwrap().expect("nobody else writes");
        let value = session.get("k").unwrap().unwrap();
        assert_eq!((&*value, value.version(), value.expires_at()), (&b"one"[..], first, None));
        assert_eq!(value.counter(), None);

        // Conditions.
        assert_eq!(session.put_if_absent("k", "x").unwrap(), Put::Mismatch { current: Some(first) });
        let second = stored(session.compare_exchange("k", first, "two").unwrap());
        assert_eq!(
            session.compare_exchange("k", first, "x").unwrap(),
            Put::Mismatch { current: Some(second) }
        );
        assert_eq!(session.compare_exchange("none", first, "x").unwrap(), Put::Mismatch { current: None });
        assert_eq!(session.delete_if("k", first).unwrap(), Delete::Mismatch { current: second });
        assert_eq!(session.delete_if("none", first).unwrap(), Delete::Absent);
        let mut buffer = b"old".to_vec();
        assert_eq!(session.get_into("k", &mut buffer).unwrap().unwrap().version(), second);
        assert_eq!(buffer, b"two");
        assert_eq!(session.get_into("none", &mut buffer).unwrap(), None);
        assert_eq!(buffer, b"two", "an absent key leaves the buffer");
        assert_eq!(session.delete_if("k", second).unwrap(), Delete::Deleted);
        assert!(!session.delete("k").unwrap());
        stored(session.put_if_absent("k", "three").unwrap());
        assert!(session.delete("k").unwrap());
        assert_eq!(session.get("k").unwrap(), None);

        // Counters.
        assert_eq!(session.fetch_add("n", 5).unwrap(), 0);
        assert_eq!(session.fetch_add("n", -7).unwrap(), 5);
        assert_eq!(session.get("n").unwrap().unwrap().counter(), Some(-2));
        session.put("text", "not a number").unwrap();
        assert_eq!(session.fetch_add("text", 1).unwrap_err().kind(), ErrorKind::Invalid);
        session.fetch_add("max", i64::MAX).unwrap();
        assert_eq!(session.fetch_add("max", 1).unwrap_err().kind(), ErrorKind::Invalid);

        // Batches, item by item.
        let put = session.put_many(&[("a", "1"), ("", "no key"), ("b", "2")]);
        assert!(matches!((&put[0], &put[2]), (Ok(Some(_)), Ok(Some(_)))));
        assert_eq!(put[1].as_ref().unwrap_err().kind(), ErrorKind::Invalid);
        let mut values = Vec::new();
        session.get_many(&["b", "c", "a", ""], |i, value| {
            values.push((i, value.map(|value| value.map(|value| value.to_vec())).map_err(|e| e.kind())));
        });
        values.sort_by_key(|(i, _)| *i);
        let expected = [Ok(Some(b"2".to_vec())), Ok(None), Ok(Some(b"1".to_vec())), Err(ErrorKind::Invalid)];
        assert_eq!(values, expected.into_iter().enumerate().collect::<Vec<_>>(), "{way:?}");

        assert!(session.ping().unwrap() > Duration::ZERO);
        assert!(!session.server_stats().unwrap().is_empty());
    });
}

#[test]
fn a_client_does_every_operation() {
    over_each_way(|_, farside| {
        block_on(async {
            assert_eq!(farside.get("k").await.unwrap(), None);
            let first = farside.put("k", "one").await.unwrap().expect("nobody else writes");
            let value = farside.get("k").await.unwrap().unwrap();
            assert_eq!((&*value, value.version()), (&b"one"[..], first));
            assert_eq!(
                farside.put_if_absent("k", "x").await.unwrap(),
                Put::Mismatch { current: Some(first) }
            );
            let second = stored(farside.compare_exchange("k", first, "two").await.unwrap());
            assert_eq!(farside.delete_if("k", first).await.unwrap(), Delete::Mismatch { current: second });
            let mut buffer = Vec::new();
            assert_eq!(farside.get_into("k", &mut buffer).await.unwrap().unwrap().version(), second);
            assert_eq!(buffer, b"two");
            assert_eq!(farside.delete_if("k", second).await.unwrap(), Delete::Deleted);
            assert!(!farside.delete("k").await.unwrap());
            assert_eq!(farside.fetch_add("n", 5).await.unwrap(), 0);
            assert_eq!(farside.fetch_add("n", 1).await.unwrap(), 5);

            let items: Vec<_> = (0..300).map(|i| (format!("many/{i}"), vec![i as u8; i])).collect();
            assert!(farside.put_many(&items).await.iter().all(Result::is_ok));
            let keys: Vec<_> = items.iter().map(|(key, _)| key.as_str()).chain(["none", ""]).collect();
            let values = farside.get_many(&keys).await;
            for ((_, put), got) in items.iter().zip(&values) {
                assert_eq!(got.as_ref().unwrap().as_deref(), Some(&put[..]));
            }
            assert_eq!(values[300], Ok(None));
            assert_eq!(values[301].as_ref().unwrap_err().kind(), ErrorKind::Invalid);
            assert!(farside.ping().await.unwrap() > Duration::ZERO);
            assert!(!farside.server_stats().await.unwrap().is_empty());
        });
    });
}

#[test]
fn keys_and_values_of_every_size_at_the_edges_come_back() {
    // A record must be copied within a quarantine, which takes a build without optimization long.
    let slow = Config { quarantine: Duration::from_secs(30), ..config() };
    for way in Way::all() {
        let farside = way.start_with(slow.clone());
        let mut session = farside.session().unwrap();
        // A server gives each operation half a second, in which it copies less without optimization.
        let longest = if farside.active().updates == AccessPath::OneSided { 16 << 20 } else { 4 << 20 };
        for (key_len, value_len) in [(1, 0), (4096, 0), (3, 24), (7, 1017), (4096, 65_536), (9, longest)] {
            let key: Vec<u8> = (0..key_len).map(|i| (i * 31) as u8).collect();
            let value: Vec<u8> = (0..value_len).map(|i| (i * 7 + i / 251) as u8).collect();
            session
                .put(&key, &value)
                .unwrap_or_else(|error| panic!("{way:?}: a value of {value_len} bytes: {error}"));
            let got = session.get(&key).unwrap().unwrap();
            assert!(*got == value[..], "{way:?}: a value of {value_len} bytes");
        }
        for (key, value, kind) in [
            (Vec::new(), Vec::new(), ErrorKind::Invalid),
            (vec![0; 4097], Vec::new(), ErrorKind::TooLarge),
            (vec![0], vec![0; (16 << 20) + 1], ErrorKind::TooLarge),
        ] {
            let error = session.put(&key, &value).unwrap_err();
            assert_eq!(error.kind(), kind);
            if value.is_empty() {
                assert_eq!(session.get(&key).unwrap_err().kind(), kind);
                assert_eq!(session.delete(&key).unwrap_err().kind(), kind);
                assert_eq!(session.fetch_add(&key, 1).unwrap_err().kind(), kind);
            }
        }
    }
}

#[test]
fn a_value_expires_and_a_counter_keeps_its_time() {
    over_each_way(|_, farside| {
        let mut session = farside.session().unwrap();
        let (began, ttl) = (Instant::now(), Duration::from_millis(300));
        let version = stored(session.put_with("k", "v", PutOptions::new().ttl(ttl)).unwrap());
        while let Some(value) = session.get("k").unwrap() {
            assert!(value.expires_at().is_some() && began.elapsed() < Duration::from_secs(30));
            std::thread::sleep(Duration::from_millis(5));
        }
        // Expiry is counted by a clock of a few milliseconds' grain.
        assert!(began.elapsed() > ttl - Duration::from_millis(20), "{:?}", began.elapsed());
        assert_eq!(session.compare_exchange("k", version, "x").unwrap(), Put::Mismatch { current: None });
        assert!(!session.delete("k").unwrap(), "an expired value is no value");
        stored(session.put_if_absent("k", "again").unwrap());
        assert_eq!(session.get("k").unwrap().as_deref(), Some(&b"again"[..]));
    });
}

#[test]
fn the_counts_tell_one_round_trip_for_what_is_warm() {
    // What takes longer than the quarantine is tried again, as happens on a busy machine: hence the least of several.
    const TRIES: u64 = 20;
    for way in Way::all().into_iter().filter(|way| way.reads_one_sided()) {
        let farside = way.start();
        let mut session = farside.session().unwrap();
        session.put("k", "one").unwrap();
        let gets = (0..TRIES).map(|_| {
            session.get("k").unwrap();
            let counts = session.last_counts();
            (counts.fabric.round_trips, counts.fabric.reads, counts.hint_hits)
        });
        assert_eq!(gets.min(), Some((1, 1, 1)), "{way:?}");
        let two_sided = u64::from(farside.active().updates == AccessPath::TwoSided);
        let puts = (0..TRIES).map(|_| {
            session.put("k", "two").unwrap();
            let counts = session.last_counts();
            (counts.two_sided, counts.fabric.round_trips)
        });
        assert_eq!(puts.min(), Some((two_sided, 1 - two_sided)), "{way:?}");
        let stats = session.stats()[Operation::Put];
        assert_eq!((stats.count, stats.errors), (TRIES + 1, 0));
        drop(session);
        assert_eq!(farside.stats()[Operation::Get].count, TRIES, "a session's figures outlive it");
    }
}

#[test]
fn a_reader_reads_and_is_refused_updates() {
    for way in Way::all() {
        let farside = way.start();
        farside.session().unwrap().put("k", "v").unwrap();
        let reader = way.builder().address(&farside.address()).read_only(true).connect_blocking().unwrap();
        let mut session = reader.session().unwrap();
        assert_eq!(session.get("k").unwrap().as_deref(), Some(&b"v"[..]));
        for error in [
            session.put("k", "x").unwrap_err(),
            session.delete("k").unwrap_err(),
            session.fetch_add("n", 1).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        }
        assert_eq!(reader.active().reads == AccessPath::OneSided, way.reads_one_sided());
        assert_eq!(reader.active().updates, AccessPath::TwoSided);
    }
}

#[test]
fn memory_that_is_used_up_says_full_and_goes_on_serving() {
    for way in [Way::Shm, Way::Tcp] {
        let small = Config { memory: Some(4 << 20), shards: Some(1), ..config() };
        let farside = Embedded::start(small, way.builder().deadline(Duration::from_secs(2))).unwrap();
        let mut session = farside.session().unwrap();
        let value = vec![7; 60_000];
        let full = (0..1000).find_map(|i| session.put(format!("{i}"), &value).err().map(|error| (i, error)));
        let (stored, error) = full.expect("4 MiB do not hold 60 MB");
        assert_eq!(error.kind(), ErrorKind::Full, "{error}");
        assert!(stored > 10);
        for i in 0..stored {
            assert_eq!(session.get(format!("{i}")).unwrap().as_deref(), Some(&value[..]), "{i}");
        }
        // A key that goes makes room, after the quarantine.
        for i in 0..4 {
            assert!(session.delete(format!("{i}")).unwrap());
        }
        session.flush();
        session.put("again", &value[..1000]).unwrap();
    }
}

/// The blocks for all come in one answer, often before the last of the batch has begun to wait: whoever takes them in
/// takes them in for all. The keys are long, so that a first attempt takes a while.
#[test]
fn a_batch_waits_for_blocks_as_one() {
    let farside = Way::Shm.start();
    for round in 0..200 {
        let key = |number: usize| vec![number as u8; 4096];
        let items: Vec<_> = (0..64).map(|number| (key(number), [round as u8; 8])).collect();
        let mut session = farside.session().unwrap();
        session.set_deadline(Duration::from_secs(5));
        let failed = session.put_many(&items).into_iter().find_map(Result::err);
        assert_eq!(failed.map(|error| error.to_string()), None, "round {round}");
    }
}

/// A reader that comes across many lagging slots brings them forward; what it lends stays what it read.
#[test]
fn bringing_slots_forward_leaves_a_lent_value_alone() {
    let farside =
        Embedded::start(Config { shards: Some(1), ..config() }, farside::Client::builder()).unwrap();
    let key = |writer: usize, number: usize| format!("{writer}:{number}");
    // Each writer leaves fewer slots behind than make it bring them forward itself.
    let mut writers: Vec<_> = (0..4).map(|_| farside.session().unwrap()).collect();
    for (writer, session) in writers.iter_mut().enumerate() {
        for number in 0..40 {
            session.put(key(writer, number), "before").unwrap();
            session.put(key(writer, number), key(writer, number)).unwrap();
        }
    }
    let mut reader = farside.session().unwrap();
    for (writer, number) in (0..4).flat_map(|writer| (0..40).map(move |number| (writer, number))) {
        let value = reader.get(key(writer, number)).unwrap().expect("it was put");
        assert_eq!(String::from_utf8_lossy(&value), key(writer, number));
    }
    reader.flush();
    assert!(reader.stats().forwards > 0, "the reader had slots to bring forward");
}
