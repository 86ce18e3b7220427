//! Small histories, each with one point. Times are drawn as `called..responded`.

use std::ops::Range;

use super::*;
use crate::content::Content;
use crate::history::Recorder;
use crate::model::KeyState;
use crate::operation::Time;

fn entry(client: u32, time: Range<Time>, operation: Operation<u64>, response: Response<u64>) -> Entry<u64> {
    Entry { client, operation, called_at: time.start, responded_at: time.end, response }
}

fn get(client: u32, time: Range<Time>, value: u64) -> Entry<u64> {
    entry(client, time, Operation::Get, Response::Done(Outcome::Found { value, version: None }))
}

fn get_nothing(client: u32, time: Range<Time>) -> Entry<u64> {
    entry(client, time, Operation::Get, Response::Done(Outcome::NotFound))
}

fn put(client: u32, time: Range<Time>, value: u64) -> Entry<u64> {
    let stored = Response::Done(Outcome::Stored { version: None });
    entry(client, time, Operation::Put { value, expires_at: None }, stored)
}

fn put_until(client: u32, time: Range<Time>, value: u64, expires_at: Time) -> Entry<u64> {
    let stored = Response::Done(Outcome::Stored { version: None });
    entry(client, time, Operation::Put { value, expires_at: Some(expires_at) }, stored)
}

fn delete(client: u32, time: Range<Time>, outcome: Outcome<u64>) -> Entry<u64> {
    entry(client, time, Operation::Delete, Response::Done(outcome))
}

fn exchange(client: u32, time: Range<Time>, expected: u64, value: u64) -> Entry<u64> {
    let operation = Operation::CompareExchange { expected: Version(expected), value, expires_at: None };
    entry(client, time, operation, Response::Done(Outcome::Stored { version: None }))
}

fn with_version(mut entry: Entry<u64>, number: u64) -> Entry<u64> {
    if let Response::Done(Outcome::Found { version, .. } | Outcome::Stored { version }) = &mut entry.response
    {
        *version = Some(Version(number));
    }
    entry
}

fn lost(entry: Entry<u64>) -> Entry<u64> {
    Entry { response: Response::Indeterminate, responded_at: Time::MAX, ..entry }
}

fn failed(entry: Entry<u64>) -> Entry<u64> {
    Entry { response: Response::Failed, ..entry }
}

fn is_linearizable(entries: &[Entry<u64>]) -> bool {
    check_key(entries).is_ok()
}

fn violation(entries: &[Entry<u64>]) -> Violation<u64> {
    match check_key(entries) {
        Err(Failure::NotLinearizable(violation)) => *violation,
        other => panic!("expected a violation, not {other:?}"),
    }
}

#[test]
fn nothing_is_linearizable() {
    assert!(is_linearizable(&[]));
    assert!(is_linearizable(&[get_nothing(0, 1..2)]));
}

#[test]
fn concurrent_writes_take_any_order_that_the_reads_allow() {
    let writes = [put(0, 1..9, 1), put(1, 1..9, 2), put(2, 1..9, 3)];
    let reads = |order: [u64; 3]| [get(3, 2..3, order[0]), get(3, 4..5, order[1]), get(3, 6..7, order[2])];
    assert!(is_linearizable(&[writes.as_slice(), &reads([3, 1, 2])].concat()));
    assert!(!is_linearizable(&[writes.as_slice(), &reads([3, 1, 3])].concat()));
}

#[test]
fn order_in_time_counts_not_only_order_in_each_client() {
    // Sequentially consistent: the second reader could have come first.
    assert!(!is_linearizable(&[put(0, 1..9, 1), get(1, 2..3, 1), get_nothing(2, 4..5)]));
    assert!(is_linearizable(&[put(0, 1..9, 1), get(1, 2..5, 1), get_nothing(2, 4..6)]));
}

#[test]
fn operations_that_touch_are_concurrent() {
    assert!(is_linearizable(&[put(0, 1..5, 1), get_nothing(1, 5..6)]));
    assert!(!is_linearizable(&[put(0, 1..4, 1), get_nothing(1, 5..6)]));
}

#[test]
fn an_indeterminate_operation_happens_late_or_never_but_once() {
    let put_1 = put(0, 1..2, 1);
    let lost_2 = lost(put(1, 3..4, 2));
    assert!(is_linearizable(&[put_1.clone(), lost_2.clone(), get(0, 5..6, 1)]));
    assert!(is_linearizable(&[put_1.clone(), lost_2.clone(), get(0, 5..6, 1), get(0, 7..8, 2)]));
    assert!(!is_linearizable(&[
        put_1.clone(),
        lost_2.clone(),
        get(0, 5..6, 2),
        put(0, 7..8, 3),
        get(0, 9..10, 2)
    ]));
    assert!(!is_linearizable(&[get(0, 1..2, 2), lost_2, put_1]), "it cannot happen before its call");
}

#[test]
fn indeterminate_additions_are_not_taken_for_each_other() {
    // The delete needs the addition of 2, for the read needs that of 1.
    let add = |client, delta| {
        let added = Response::Done(Outcome::Added { previous: 0, version: None });
        lost(entry(client, 1..2, Operation::FetchAdd { delta }, added))
    };
    let rest = [delete(2, 3..4, Outcome::Deleted), put(2, 5..6, 5), get(2, 7..8, 6)];
    assert!(is_linearizable(&[[add(0, 1), add(1, 2)].as_slice(), &rest].concat()));
    assert!(!is_linearizable(&[[add(0, 2), add(1, 2)].as_slice(), &rest].concat()));
}

#[test]
fn a_failed_operation_never_happened() {
    assert!(is_linearizable(&[failed(put(0, 1..2, 1)), get_nothing(0, 3..4)]));
    assert!(!is_linearizable(&[failed(put(0, 1..2, 1)), get(0, 3..4, 1)]));
}

#[test]
fn one_delete_deletes() {
    let deletes = |one, other| [put(0, 1..2, 1), delete(0, 3..6, one), delete(1, 4..5, other)];
    assert!(is_linearizable(&deletes(Outcome::Deleted, Outcome::NotFound)));
    assert!(is_linearizable(&deletes(Outcome::Absent, Outcome::Deleted)));
    assert!(is_linearizable(&deletes(Outcome::Absent, Outcome::Absent)));
    assert!(!is_linearizable(&deletes(Outcome::Deleted, Outcome::Deleted)));
    assert!(!is_linearizable(&deletes(Outcome::NotFound, Outcome::NotFound)));
}

#[test]
fn a_put_may_be_absorbed_by_a_concurrent_one() {
    assert!(is_linearizable(&[put(0, 1..4, 1), with_version(put(1, 2..3, 2), 7), get(0, 5..6, 2)]));
    assert!(!is_linearizable(&[put(0, 1..4, 1), with_version(put(1, 5..6, 2), 7), get(0, 7..8, 1)]));
}

#[test]
fn a_version_does_not_outlive_its_publication() {
    let first = with_version(put(0, 1..2, 1), 7);
    assert!(is_linearizable(&[first.clone(), exchange(0, 5..6, 7, 3)]));
    // The second put did not report its version; but 7 is that of the first.
    assert!(!is_linearizable(&[first, put(1, 3..4, 2), exchange(0, 5..6, 7, 3)]));
    // The same if version 7 was only found.
    let found = with_version(get(0, 3..4, 1), 7);
    assert!(!is_linearizable(&[put(0, 1..2, 1), found, put(1, 5..6, 2), exchange(0, 7..8, 7, 3)]));
}

#[test]
fn a_version_names_one_publication() {
    let twice = [with_version(put(0, 1..2, 1), 7), with_version(put(0, 3..4, 2), 7)];
    assert!(matches!(check_key(&twice), Err(Failure::VersionReused { version: Version(7), .. })));
    let exchanged_twice = [put(0, 1..2, 1), exchange(0, 3..4, 7, 2), exchange(0, 5..6, 7, 3)];
    let failure = check_key(&exchanged_twice).expect_err("7 was gone");
    assert_eq!(
        failure.to_string(),
        "the version #7 cannot name the same publication in both of\n    \
         client 0 at 3-4: compare-exchange #7 to 2 -> stored\n    \
         client 0 at 5-6: compare-exchange #7 to 3 -> stored"
    );
}

#[test]
fn a_value_may_be_absent_from_its_expiry_on() {
    let put = put_until(0, 1..2, 1, 10);
    assert!(!is_linearizable(&[put.clone(), get_nothing(0, 3..9)]));
    assert!(is_linearizable(&[put.clone(), get_nothing(0, 3..10)]));
    assert!(is_linearizable(&[put.clone(), get(0, 11..12, 1)]));
    assert!(is_linearizable(&[put.clone(), get_nothing(0, 11..12), get(1, 13..14, 1)]), "clocks differ");
    assert!(!is_linearizable(&[put, self::put(0, 3..4, 2), get_nothing(0, 11..12)]), "it was replaced");
}

#[test]
fn the_explanation_names_what_does_not_fit_and_why() {
    let mut entries = vec![put(0, 1..2, 10), get(1, 3..4, 10), put(0, 5..6, 20), put(2, 5..30, 30)];
    entries.extend([get(1, 7..8, 10), get(0, 9..10, 20)]);
    let violation = violation(&entries);
    assert_eq!(violation.misfit, entries[4]);
    // The put of 10 is not among them: it happens once, and the first read shows that it had.
    assert_eq!(violation.contradiction, [entries[1].clone(), entries[2].clone(), entries[4].clone()]);
    assert_eq!(
        violation.to_string(),
        "no order of the operations explains the response of
    client 1 at 7-8: get -> 10
before it the key can only be
    20
    30
beside it these are open
    client 2 at 5-30: put 30 -> stored
the longest linearizable prefix has 3 operations and can end with
    client 0 at 1-2: put 10 -> stored
    client 1 at 3-4: get -> 10
    client 0 at 5-6: put 20 -> stored
these contradict each other, whatever all others did
    client 1 at 3-4: get -> 10
    client 0 at 5-6: put 20 -> stored
    client 1 at 7-8: get -> 10
"
    );
}

#[test]
fn the_explanation_in_the_readme_is_real() {
    let mut client = Recorder::new(0);
    let call = client.call(10, "key", Operation::Put { value: 7_u64, expires_at: None });
    client.respond(call, 20, Response::Done(Outcome::Stored { version: None }));
    let call = client.call(30, "key", Operation::Get);
    client.respond(call, 40, Response::Done(Outcome::NotFound));
    let failure = check(&History::from_recorders([client])).expect_err("the value is gone");
    assert!(include_str!("../../README.md").contains(&failure.to_string()), "{failure}");
}

#[test]
fn the_states_in_an_explanation_are_real() {
    // Nothing after the puts tells their values, so the search takes them for equal.
    let entries = [put(0, 1..2, 10), put(0, 3..4, 20), get_nothing(0, 5..6)];
    let states: Vec<String> = violation(&entries).states.iter().map(KeyState::to_string).collect();
    assert_eq!(states, ["20"]);
}

#[test]
fn bytes_are_values_too() {
    let text = || Content::Bytes(b"text".to_vec());
    let client = |operation, outcome| {
        let mut recorder = Recorder::new(0);
        let put = Operation::Put { value: text(), expires_at: None };
        let call = recorder.call(1, "key", put);
        recorder.respond(call, 2, Response::Done(Outcome::Stored { version: None }));
        let call = recorder.call(3, "key", operation);
        recorder.respond(call, 4, Response::Done(outcome));
        check(&History::from_recorders([recorder]))
    };
    assert_eq!(client(Operation::FetchAdd { delta: 1 }, Outcome::NotACounter), Ok(()));
    assert_eq!(client(Operation::Get, Outcome::Found { value: text(), version: None }), Ok(()));
    let failure = client(Operation::Get, Outcome::NotFound).expect_err("the key is present");
    assert!(failure.to_string().starts_with("key \"key\": not linearizable: no order"), "{failure}");
}

#[test]
fn each_key_is_checked() {
    let mut recorder = Recorder::new(0);
    for (key, value) in [("a", 1), ("b", 2), ("c", 3)] {
        let call = recorder.call(value, key, Operation::Get);
        let outcome = if key == "b" { Outcome::Found { value, version: None } } else { Outcome::NotFound };
        recorder.respond(call, value + 1, Response::Done(outcome));
    }
    let failure = check(&History::from_recorders([recorder])).expect_err("b was never written");
    assert_eq!(failure.key, "b");
}
