//! SCAN: what it must pass and must not, on tables at rest and on tables that change under it.

use crate::ways::{Way, config, over_each_way};
use farside::server::Config;
use farside::{ErrorKind, Operation, PutOptions, Scan, Session};
use pollster::block_on;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

type Found = Vec<(Vec<u8>, Vec<u8>)>;

fn scan(session: &mut Session, scan: Scan) -> Found {
    let (mut scan, mut found) = (scan, Vec::new());
    while session.scan(&mut scan, |key, value| found.push((key.to_vec(), value.to_vec()))).unwrap() {}
    assert!(scan.is_done());
    assert!(!session.scan(&mut scan, |_, _| unreachable!("it is at its end")).unwrap());
    found
}

#[test]
fn a_scan_passes_each_live_key_once() {
    over_each_way(|way, farside| {
        let mut session = farside.session().unwrap();
        assert_eq!(scan(&mut session, Scan::new("").unwrap()), []);
        let mut expected = BTreeMap::new();
        for number in 0..500u32 {
            let (key, value) = (format!("user:{number}"), vec![number as u8; number as usize * 7 % 900]);
            session.put(&key, &value).unwrap();
            expected.insert(key.into_bytes(), value);
        }
        // Longer than a page of the server's.
        for number in 0..3u8 {
            let (key, value) = (format!("user:long:{number}"), vec![number; 100_000]);
            session.put(&key, &value).unwrap();
            expected.insert(key.into_bytes(), value);
        }
        for number in (0..500u32).step_by(5) {
            let key = format!("user:{number}");
            assert!(session.delete(&key).unwrap());
            expected.remove(key.as_bytes());
        }
        session.put("stock", "of another prefix").unwrap();
        let soon = PutOptions::new().ttl(Duration::from_millis(1));
        assert!(session.put_with("user:gone", "", soon).unwrap().version().is_some());
        thread::sleep(Duration::from_millis(20));
        for page in [1, 7, 256, u16::MAX] {
            let mut found = scan(&mut session, Scan::new("user:").unwrap().with_page(page));
            found.sort();
            assert!(found == expected.clone().into_iter().collect::<Found>(), "{way:?}, pages of {page}");
        }
        assert_eq!(scan(&mut session, Scan::new("").unwrap()).len(), expected.len() + 1);
        assert_eq!(scan(&mut session, Scan::new("nobody").unwrap()), []);
        let counts = session.stats()[Operation::Scan].counts;
        assert_eq!(counts.two_sided == 0, way.reads_one_sided(), "{way:?}");

        let (mut scan, mut keys) = (Scan::new("user:long").unwrap(), 0);
        while let Some(page) = block_on(farside.scan(&mut scan)).unwrap() {
            keys += page.len();
        }
        assert_eq!(keys, 3);
    });
}

#[test]
fn a_scan_from_a_key_on_passes_it_and_all_behind_it_and_reads_no_more_than_its_pages_hold() {
    const KEYS: u32 = 1000;
    for way in Way::all() {
        // What is read is not read again, however slow the device: it stays fresh.
        let quarantine = Duration::from_secs(10);
        let farside = way.start_with(Config { max_keys: Some(1500), quarantine, ..config() });
        let mut session = farside.session().unwrap();
        for number in 0..KEYS {
            session.put(number.to_le_bytes(), "value").unwrap();
        }
        let order: Vec<_> =
            scan(&mut session, Scan::new("").unwrap()).into_iter().map(|(key, _)| key).collect();
        for number in (0..KEYS).step_by(211) {
            let key = number.to_le_bytes();
            let found = scan(&mut session, Scan::new("").unwrap().at(key).unwrap());
            let first = order.iter().position(|key| *key == found[0].0).unwrap();
            assert!(found.iter().map(|(key, _)| key).eq(&order[first..]), "{way:?}");
            // The 32 slots in which the key may lie are the first.
            assert!(found[..32.min(found.len())].iter().any(|(found, _)| *found == key), "{way:?}");
        }
        let mut full = 0;
        for number in 0..10u32 {
            let page = [1, 10, 100][number as usize % 3];
            let mut from_key = Scan::new("").unwrap().at(number.to_le_bytes()).unwrap().with_page(page);
            let (before, mut keys) = (session.stats()[Operation::Scan].counts, 0);
            session.scan(&mut from_key, |_, _| keys += 1).unwrap();
            assert!(keys <= u64::from(page), "{way:?}");
            full += u32::from(keys == u64::from(page));
            let reads = session.stats()[Operation::Scan].counts.fabric.reads - before.fabric.reads;
            // One for each record, and a few for the words of slots.
            let expected = if way.reads_one_sided() { keys + 1..=keys + 8 } else { 0..=0 };
            assert!(expected.contains(&reads), "{way:?}: {reads} READs for {keys} of {page} keys");
        }
        assert!(full >= 5, "{way:?}: the others end with their shard");
        assert!(scan(&mut session, Scan::new("").unwrap().at("absent").unwrap()).len() > 1, "{way:?}");
        assert_eq!(Scan::new("").unwrap().at("").unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[test]
fn a_scan_of_a_table_that_changes_misses_no_key_that_stays() {
    const STAY: u32 = 300;
    const CHANGE: u32 = 300;
    let keys_that_stay = |value: u32| (0..STAY).map(move |number| (format!("stay:{number}"), value));
    over_each_way(|way, farside| {
        let mut session = farside.session().unwrap();
        for (key, value) in keys_that_stay(0) {
            session.put(key, value.to_le_bytes()).unwrap();
        }
        session.put("gone", "before").unwrap();
        session.delete("gone").unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut session = farside.session().unwrap();
                for round in (1u32..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                    for number in 0..CHANGE {
                        let key = format!("change:{number}");
                        match (round + number) % 3 {
                            0 => drop(session.delete(key).unwrap()),
                            _ => drop(session.put(key, round.to_le_bytes()).unwrap()),
                        }
                        // Chains that grow while they are followed.
                        session.put(format!("stay:{}", number % STAY), round.to_le_bytes()).unwrap();
                    }
                }
            });
            for _ in 0..10 {
                let found = scan(&mut session, Scan::new("").unwrap());
                let stayed = found.iter().filter(|(key, _)| key.starts_with(b"stay:")).count();
                assert_eq!(stayed, STAY as usize, "{way:?}: each once");
                assert!(found.iter().all(|(key, value)| value.len() == 4 && key != b"gone"), "{way:?}");
            }
            is_over.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn a_scan_goes_on_in_its_own_table_alone() {
    let [first, second] = [Way::Tcp.start(), Way::Tcp.start()];
    let put = |farside: &farside::Embedded| {
        let mut session = farside.session().unwrap();
        (0..100u8).for_each(|number| assert!(session.put([number], "").unwrap().is_some()));
        session
    };
    let (mut one, mut other) = (put(&first), put(&second));
    let mut scan = Scan::new("").unwrap().with_page(10);
    assert!(one.scan(&mut scan, |_, _| ()).unwrap());
    let mut elsewhere = scan.clone();
    let error = other.scan(&mut elsewhere, |_, _| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
    // By another session of its own table it can be.
    assert!(first.session().unwrap().scan(&mut scan, |_, _| ()).unwrap());
    assert_eq!(Scan::new([0; 4097]).unwrap_err().kind(), ErrorKind::TooLarge);
}
