//! Each operation alone: its answers, its round trips, and the duties it leaves.

mod support;

use farside_hashtable::plan::upkeep::{self, Reach};
use farside_hashtable::plan::{Delete, Failure, Put, delete, fetch_add, get, put};
use farside_protocol::wire::Condition;
use farside_protocol::{Class, Key, Link, Locator, Record, SlotWord, Version};
use support::{LATER, World, run};

#[test]
fn insert_takes_three_round_trips_and_a_cold_get_two() {
    let mut world = World::new(64);
    assert!(matches!(world.put(b"key", b"value"), Put::Stored { .. }));
    assert_eq!(world.round_trips(), 3);
    assert_eq!(world.get(b"key").as_deref(), Some(&b"value"[..]));
    assert_eq!(world.round_trips(), 2);
    assert_eq!(world.get(b"other"), None);
    assert_eq!(world.round_trips(), 1);
}

#[test]
fn warm_operations_take_one_round_trip() {
    let mut world = World::new(64);
    let Put::Stored { hint, .. } = world.put(b"key", b"one") else { panic!() };
    world.round_trips();
    let Put::Stored { hint, version } = world.put_with(b"key", b"two", Condition::Always, Some(hint), 0)
    else {
        panic!()
    };
    assert_eq!(world.round_trips(), 1);
    let (op, before) = (world.op(b"key"), world.io.reads);
    let got = run(get(&mut world.io, &world.table, &op, Some(&hint), None)).unwrap().unwrap();
    assert_eq!((got.version, world.round_trips(), world.io.reads - before), (version, 1, 1));
    assert_eq!(got.hint, None, "the one that served is as good as it was");
    let op = world.op(b"key");
    let deleted =
        run(delete(&mut world.io, &world.table, &op, Condition::Always, Some(hint), &mut world.duties));
    assert_eq!((deleted, world.round_trips()), (Ok(Delete::Deleted), 1));
    assert_eq!(world.get(b"key"), None);
}

#[test]
fn a_record_may_lie_in_a_larger_block_than_it_needs() {
    let mut world = World::new(64);
    let (lease, op) = (world.lease(3000), world.op(b"key"));
    let record = Record::new(op.key, b"small").unwrap();
    assert!(record.class() < lease.class);
    let stored = run(put(
        &mut world.io,
        &world.table,
        &op,
        &record,
        Condition::Always,
        lease,
        None,
        &mut world.duties,
    ));
    let Ok(Put::Stored { hint, .. }) = stored else { panic!("{stored:?}") };
    assert_eq!(world.get(b"key").as_deref(), Some(&b"small"[..]));
    let op = world.op(b"key");
    let got = run(get(&mut world.io, &world.table, &op, Some(&hint), None)).unwrap().unwrap();
    assert_eq!((&farside_hashtable::Io::incoming(&world.io)[got.value], got.hint), (&b"small"[..], None));
    let (life, class) = (lease.life, lease.class);
    let reach = run(upkeep::reclaim(&mut world.io, &world.table, life, class, LATER)).unwrap();
    assert_eq!(reach, Reach::Reachable);
    assert!(matches!(world.put(b"key", b"next"), Put::Stored { .. }));
    world.bring_forward();
    assert_eq!(world.duties.retired, [life]);
    assert_eq!(world.only_record().1, b"next");
}

#[test]
fn a_stale_hint_follows_one_successor_and_then_goes_to_the_slot() {
    let mut world = World::new(64);
    let Put::Stored { hint, .. } = world.put(b"key", b"0") else { panic!() };
    for (value, round_trips) in [("1", 2), ("2", 4)] {
        world.put(b"key", value.as_bytes());
        world.bring_forward();
        world.round_trips();
        let op = world.op(b"key");
        let got = run(get(&mut world.io, &world.table, &op, Some(&hint), None)).unwrap().unwrap();
        assert_eq!(&farside_hashtable::Io::incoming(&world.io)[got.value], value.as_bytes());
        assert_eq!(world.round_trips(), round_trips);
    }
}

#[test]
fn updates_chain_and_one_forward_jumps_over_all_of_them() {
    let mut world = World::new(64);
    for value in ["0", "1", "2", "3"] {
        world.put(b"key", value.as_bytes());
    }
    assert_eq!(world.get(b"key").as_deref(), Some(&b"3"[..]));
    assert_eq!(world.duties.forwards.len(), 1);
    world.round_trips();
    world.bring_forward();
    assert_eq!(world.round_trips(), 1);
    assert_eq!(world.duties.retired.len(), 3);
    assert_eq!(world.only_record(), (b"key".to_vec(), b"3".to_vec()));
}

#[test]
fn whoever_loses_the_slot_retires_nothing_and_helps_what_is_there() {
    let mut world = World::new(64);
    world.put(b"key", b"0");
    world.put(b"key", b"1");
    let forward = world.duties.forwards.pop().unwrap();
    world.put(b"key", b"2");
    // The lookup of that PUT found the lag and leads over both.
    world.bring_forward();
    assert_eq!(world.duties.retired.len(), 2);
    world.forward(forward);
    assert_eq!(world.duties.retired.len(), 2);
    assert_eq!(world.only_record().1, b"2");
}

#[test]
fn a_deleted_keys_slot_is_emptied_and_used_again() {
    let mut world = World::new(64);
    world.put(b"key", b"0");
    let op = world.op(b"key");
    run(delete(&mut world.io, &world.table, &op, Condition::Always, None, &mut world.duties)).unwrap();
    // An INSERT that meets the dead chain empties its slot first.
    world.put(b"key", b"1");
    assert_eq!(world.only_record(), (b"key".to_vec(), b"1".to_vec()));
    assert_eq!(world.duties.retired.len(), 1);
}

#[test]
fn conditions_are_answered_with_the_current_version() {
    let mut world = World::new(64);
    let absent = world.put_with(b"key", b"0", Condition::Version(Version::from_bits(77)), None, 0);
    assert_eq!(absent, Put::Mismatch { current: None });
    let Put::Stored { version, .. } = world.put_with(b"key", b"0", Condition::Absent, None, 0) else {
        panic!()
    };
    let exists = world.put_with(b"key", b"1", Condition::Absent, None, 0);
    assert_eq!(exists, Put::Mismatch { current: Some(version) });
    let Put::Stored { version: second, hint } =
        world.put_with(b"key", b"1", Condition::Version(version), None, 0)
    else {
        panic!()
    };
    for hint in [None, Some(hint)] {
        let old = world.put_with(b"key", b"2", Condition::Version(version), hint, 0);
        assert_eq!(old, Put::Mismatch { current: Some(second) });
    }
    let op = world.op(b"key");
    let condition = Condition::Version(version);
    let outcome = run(delete(&mut world.io, &world.table, &op, condition, None, &mut world.duties));
    assert_eq!(outcome, Ok(Delete::Mismatch { current: Some(second) }));
    assert_eq!(world.get(b"key").as_deref(), Some(&b"1"[..]));
}

#[test]
fn an_expired_record_is_absent_and_gives_way() {
    let mut world = World::new(64);
    let Put::Stored { version, hint } = world.put_with(b"key", b"0", Condition::Always, None, 1_000_010)
    else {
        panic!()
    };
    assert!(world.get(b"key").is_some());
    world.io.wall_ms = 1_000_010;
    assert_eq!(world.get(b"key"), None);
    for hint in [None, Some(hint)] {
        let op = world.op(b"key");
        let deleted =
            run(delete(&mut world.io, &world.table, &op, Condition::Always, hint, &mut world.duties));
        assert_eq!(deleted, Ok(Delete::Absent));
        let outcome = world.put_with(b"key", b"1", Condition::Version(version), hint, 0);
        assert_eq!(outcome, Put::Mismatch { current: None });
    }
    assert!(matches!(world.put_with(b"key", b"1", Condition::Absent, None, 0), Put::Stored { .. }));
    assert_eq!(world.get(b"key").as_deref(), Some(&b"1"[..]));
}

#[test]
fn fetch_add_counts_from_zero_and_refuses_other_values() {
    let mut world = World::new(64);
    let mut hint = None;
    for (delta, sum) in [(5, 5), (-7, -2), (i64::MAX, i64::MAX - 2)] {
        let lease = world.lease(51);
        let op = world.op(b"key");
        let added = run(fetch_add(&mut world.io, &world.table, &op, delta, lease, hint, &mut world.duties));
        let added = added.unwrap();
        assert_eq!((added.value, added.version), (sum, Version::of(lease.life)));
        hint = Some(added.hint);
    }
    let lease = world.lease(51);
    let op = world.op(b"key");
    let added = run(fetch_add(&mut world.io, &world.table, &op, 3, lease, None, &mut world.duties));
    assert_eq!(added, Err(Failure::Overflow));
    world.put(b"text", b"12345678");
    let op = world.op(b"text");
    let added = run(fetch_add(&mut world.io, &world.table, &op, 1, lease, None, &mut world.duties));
    assert_eq!(added, Err(Failure::NotACounter));
}

#[test]
fn keys_that_share_window_and_fingerprint_live_side_by_side() {
    let mut world = World::new(4);
    let keys = world.colliding_keys(12);
    for key in &keys {
        assert!(matches!(world.put(key, key), Put::Stored { .. }));
    }
    for key in &keys {
        assert_eq!(world.get(key).as_ref(), Some(key));
    }
}

#[test]
fn full_is_answered_only_when_all_words_of_the_window_are_committed() {
    let mut world = World::new(1);
    for i in 0..32u32 {
        assert!(matches!(world.put(&i.to_le_bytes(), b""), Put::Stored { .. }), "{i}");
    }
    let record = Record::new(Key::new(b"one more").unwrap(), b"").unwrap();
    let (lease, op) = (world.lease(record.len()), world.op(b"one more"));
    let attempt = |world: &mut World| {
        run(put(&mut world.io, &world.table, &op, &record, Condition::Always, lease, None, &mut world.duties))
    };
    assert_eq!(attempt(&mut world), Err(Failure::Full));
    // A tentative word that a dead client left in the last slot gives way.
    let (slot, word) = world.slots()[31];
    world.io.words[slot.offset() as usize / 8] = SlotWord::tentative(word.locator()).to_bits();
    assert!(matches!(attempt(&mut world), Ok(Put::Stored { .. })));
}

/// A PUT whose CAS another blind write beats is ordered just before it; one that a compare-exchange beats is not.
#[test]
fn only_a_blind_write_absorbs() {
    for (link, absorbed) in
        [(Link::NextBlind as fn(Locator) -> Link, true), (Link::NextOther as fn(Locator) -> Link, false)]
    {
        let mut world = World::new(64);
        world.put(b"key", b"0");
        let (_, word) = world.slots()[0];
        let other = world.lease(64).life;
        let mut bytes = [0; 64];
        let record = Record::new(Key::new(b"key").unwrap(), b"rival").unwrap();
        let locator = record.encode(word.locator().fingerprint(), record.class(), other, &mut bytes);
        let first = world.io.round_trips;
        world.io.before = Some(Box::new(move |round_trip, words| {
            // Before the PUT's [WRITE, CAS], its third round trip, the rival supersedes the record.
            if round_trip == first + 2 {
                for (i, chunk) in bytes.chunks(8).enumerate() {
                    words[other.block.offset() as usize / 8 + i] =
                        u64::from_le_bytes(chunk.try_into().unwrap());
                }
                words[word.locator().block().offset() as usize / 8] = link(locator).to_bits();
            }
        }));
        let outcome = world.put(b"key", b"mine");
        assert_eq!(outcome == Put::Absorbed, absorbed);
        let value = if absorbed { &b"rival"[..] } else { b"mine" };
        assert_eq!(world.get(b"key").as_deref(), Some(value));
    }
}

#[test]
fn what_was_read_too_long_ago_is_read_again() {
    let mut world = World::new(64);
    let Put::Stored { hint, .. } = world.put(b"key", b"0") else { panic!() };
    world.round_trips();
    // Each chain takes longer than the quarantine, until none takes any time.
    world.io.delays_ns = [100_000_001; 5].into();
    let op = world.op(b"key");
    let got = run(get(&mut world.io, &world.table, &op, Some(&hint), None)).unwrap();
    assert!(got.is_some());
    // One warm READ, two void lookups that read two things each, and the one that counts.
    assert_eq!(world.round_trips(), 1 + 4 + 2);
}

/// A chain that cannot be walked within the quarantine proves nothing about its records.
#[test]
fn a_slow_walk_is_no_damage() {
    let mut world = World::new(64);
    for value in ["0", "1", "2"] {
        world.put(b"key", value.as_bytes());
    }
    let slots = world.slots();
    let slow: [u64; 12] = [60_000_000; 12];
    world.io.delays_ns = slow.into();
    assert_eq!(world.get(b"key").as_deref(), Some(&b"2"[..]));
    world.io.delays_ns = slow.into();
    let first = farside_protocol::SlotIndex(slots[0].0.0 / 8 * 8);
    let tend = upkeep::tend_line(&mut world.io, &world.table, first, 0, &mut world.duties, |_| ());
    assert_eq!(run(tend).unwrap().damaged, 0);
    assert_eq!(world.get(b"key").as_deref(), Some(&b"2"[..]));
}

/// Between its READ and a later look at the clock a record may be superseded and then expire: so what counts is the
/// clock as it was before.
#[test]
fn a_record_that_expires_after_it_was_read_was_there() {
    let mut world = World::new(64);
    let expires_at_ms = world.io.wall_ms + 10;
    world.put_with(b"key", b"value", Condition::Always, None, expires_at_ms);
    // The window, then the record, whose READ completes after its time.
    world.io.delays_ns = [0, 20_000_000].into();
    assert_eq!(world.get(b"key").as_deref(), Some(&b"value"[..]));
    assert_eq!(world.get(b"key"), None);

    let expires_at_ms = world.io.wall_ms + 10;
    world.put_with(b"key", b"value", Condition::Always, None, expires_at_ms);
    world.io.delays_ns = [0, 20_000_000].into();
    let absent = world.put_with(b"key", b"other", Condition::Absent, None, 0);
    assert!(matches!(absent, Put::Mismatch { current: Some(_) }), "{absent:?}");
}

/// Memory that changed its size class: the record's old place lies inside a value that reads like the record.
#[test]
fn a_hint_past_its_age_is_not_used() {
    const HINT_NS: u64 = 512 * 100_000_000;
    for (age_ns, is_used) in [(HINT_NS, true), (HINT_NS + 1, false)] {
        let aged = || {
            let mut world = World::new(64);
            let Put::Stored { hint, .. } = world.put(b"key", b"old") else { panic!() };
            let (slot, _) = world.slots()[0];
            world.io.words[slot.offset() as usize / 8] = SlotWord::EMPTY.to_bits();
            world.io.now_ns += age_ns;
            (world, hint)
        };
        let inside = |world: &World, hint: farside_hashtable::hints::Hint| {
            world.io.words[hint.locator.block().offset() as usize / 8]
        };

        let (mut world, hint) = aged();
        let op = world.op(b"key");
        assert_eq!(run(get(&mut world.io, &world.table, &op, Some(&hint), None)).unwrap().is_some(), is_used);

        let (mut world, hint) = aged();
        world.put_with(b"key", b"new", Condition::Always, Some(hint), 0);
        assert_eq!(inside(&world, hint) != Link::end_of(hint.life()).to_bits(), is_used);

        let (mut world, hint) = aged();
        let op = world.op(b"key");
        let plan = delete(&mut world.io, &world.table, &op, Condition::Always, Some(hint), &mut world.duties);
        assert_eq!(run(plan) == Ok(Delete::Deleted), is_used);
        assert_eq!(inside(&world, hint) != Link::end_of(hint.life()).to_bits(), is_used);

        let (mut world, hint) = aged();
        let (op, lease) = (world.op(b"key"), world.lease(100));
        let plan = fetch_add(&mut world.io, &world.table, &op, 1, lease, Some(hint), &mut world.duties);
        assert_eq!(run(plan).is_err(), is_used, "the old value is no counter");
    }
}

#[test]
fn a_damaged_record_is_reported_never_served_and_dropped_by_upkeep() {
    let mut world = World::new(64);
    world.put(b"key", b"value");
    let (slot, word) = world.slots()[0];
    world.io.words[word.locator().block().offset() as usize / 8 + 5] ^= 1 << 20;
    let op = world.op(b"key");
    assert_eq!(run(get(&mut world.io, &world.table, &op, None, None)), Err(Failure::Corrupt));
    let mut lives = Vec::new();
    let first = farside_protocol::SlotIndex(slot.0 / 8 * 8);
    let tend =
        upkeep::tend_line(&mut world.io, &world.table, first, 0, &mut world.duties, |life| lives.push(life));
    assert_eq!(run(tend).unwrap().damaged, 1);
    assert!(lives.is_empty() && world.slots().is_empty());
    assert!(matches!(world.put(b"key", b"again"), Put::Stored { .. }));
}

#[test]
fn upkeep_forwards_expires_and_marks() {
    let mut world = World::new(64);
    world.put(b"live", b"0");
    world.put(b"live", b"1");
    world.put_with(b"expired", b"0", Condition::Always, None, 1_000_001);
    world.duties.forwards.clear();
    world.io.wall_ms = 1_000_100;
    let tend_all = |world: &mut World, grace_ms| {
        let (mut lives, mut total) = (Vec::new(), upkeep::Tally::default());
        for first in (0..world.table.geometry.slots()).step_by(8).map(farside_protocol::SlotIndex) {
            let visit = |life| lives.push(life);
            let plan =
                upkeep::tend_line(&mut world.io, &world.table, first, grace_ms, &mut world.duties, visit);
            let tally = run(plan).unwrap();
            total.keys += tally.keys;
            total.expired += tally.expired;
            total.forwarded += tally.forwarded;
        }
        (lives.len(), total)
    };
    let (reachable, tally) = tend_all(&mut world, 1000);
    assert_eq!((reachable, tally.keys, tally.expired, tally.forwarded), (3, 2, 0, 1));
    let (_, tally) = tend_all(&mut world, 99);
    assert_eq!((tally.keys, tally.expired), (1, 1));
    assert_eq!(world.only_record().1, b"1");
    assert_eq!(world.duties.retired.len(), 2);
}

#[test]
fn reclaim_tells_what_a_dead_client_published() {
    let mut world = World::new(64);
    world.put(b"key", b"0");
    let (slot, word) = world.slots()[0];
    let life = world.duties.published[0];
    let class = Class::holding(44).unwrap();
    let reach =
        |world: &mut World, life| run(upkeep::reclaim(&mut world.io, &world.table, life, class, LATER));
    assert_eq!(reach(&mut world, life), Ok(Reach::Reachable));
    world.put(b"key", b"1");
    assert_eq!(reach(&mut world, life), Ok(Reach::Reachable), "superseded, but its slot still leads to it");
    world.bring_forward();
    assert_eq!(reach(&mut world, life), Ok(Reach::Unreachable));
    // Died between its tentative word and its commit.
    world.io.words[slot.offset() as usize / 8] = SlotWord::tentative(word.locator()).to_bits();
    assert_eq!(reach(&mut world, life), Ok(Reach::Unreachable));
    assert!(world.slots().is_empty());
    // Died before it wrote anything.
    let never = world.lease(44).life;
    assert_eq!(reach(&mut world, never), Ok(Reach::Unreachable));
}
