use proptest::prelude::*;

use super::*;
use crate::content::Content;

fn bytes(value: &[u8]) -> Content {
    Content::Bytes(value.to_vec())
}

fn put(value: &[u8]) -> Operation<Content> {
    Operation::Put { value: bytes(value), expires_at: None }
}

fn stored(version: u64) -> Outcome<Content> {
    Outcome::Stored { version: Some(Version(version)) }
}

fn found(value: &[u8], version: u64) -> Outcome<Content> {
    Outcome::Found { value: bytes(value), version: Some(Version(version)) }
}

fn counted(count: u64, version: u64) -> Outcome<Content> {
    Outcome::Found { value: Content::Counter(count), version: Some(Version(version)) }
}

/// A map with one key, and each publication with the next version.
struct OneKey {
    map: MapModel<&'static str, Content>,
    version: u64,
}

impl OneKey {
    fn new() -> Self {
        Self { map: MapModel::default(), version: 0 }
    }

    fn execute(&mut self, operation: &Operation<Content>) -> Outcome<Content> {
        self.version += 1;
        self.map.execute(&"key", operation, Some(Version(self.version)))
    }
}

#[test]
fn a_key_is_absent_until_it_is_put_and_after_it_is_deleted() {
    let mut key = OneKey::new();
    assert_eq!(key.execute(&Operation::Get), Outcome::NotFound);
    assert_eq!(key.execute(&Operation::Delete), Outcome::NotFound);
    assert_eq!(key.execute(&put(b"")), stored(3));
    assert_eq!(key.execute(&Operation::Get), found(b"", 3));
    assert_eq!(key.execute(&put(b"b")), stored(5));
    assert_eq!(key.execute(&Operation::Get), found(b"b", 5));
    assert_eq!(key.execute(&Operation::Delete), Outcome::Deleted);
    assert_eq!(key.execute(&Operation::Get), Outcome::NotFound);
    assert_eq!(key.map.records().count(), 0);
}

#[test]
fn put_if_absent_stores_once() {
    let mut key = OneKey::new();
    let put_if_absent = Operation::PutIfAbsent { value: bytes(b"a"), expires_at: None };
    assert_eq!(key.execute(&put_if_absent), stored(1));
    assert_eq!(key.execute(&put_if_absent), Outcome::Exists);
    assert_eq!(key.execute(&Operation::Get), found(b"a", 1));
    key.execute(&Operation::Delete);
    assert_eq!(key.execute(&put_if_absent), stored(5));
}

#[test]
fn compare_exchange_stores_over_the_expected_version_only() {
    let mut key = OneKey::new();
    let exchange = |version| Operation::CompareExchange {
        expected: Version(version),
        value: bytes(b"new"),
        expires_at: None,
    };
    assert_eq!(key.execute(&exchange(1)), Outcome::Mismatch);
    assert_eq!(key.execute(&put(b"old")), stored(2));
    assert_eq!(key.execute(&exchange(1)), Outcome::Mismatch);
    assert_eq!(key.execute(&exchange(2)), stored(4));
    assert_eq!(key.execute(&exchange(2)), Outcome::Mismatch);
    assert_eq!(key.execute(&Operation::Get), found(b"new", 4));
}

#[test]
fn fetch_add_counts_from_nothing_wraps_and_leaves_other_values_alone() {
    let mut key = OneKey::new();
    let add = |delta| Operation::FetchAdd { delta };
    let added = |previous, version| Outcome::Added { previous, version: Some(Version(version)) };
    assert_eq!(key.execute(&add(5)), added(0, 1));
    assert_eq!(key.execute(&add(u64::MAX)), added(5, 2));
    assert_eq!(key.execute(&Operation::Get), counted(4, 2));
    key.execute(&put(b"8  bytes"));
    assert_eq!(key.execute(&add(1)), Outcome::NotACounter);
    assert_eq!(key.execute(&Operation::Get), found(b"8  bytes", 4));
}

#[test]
fn a_record_vanishes_the_moment_it_expires() {
    let mut key = OneKey::new();
    key.execute(&Operation::Put { value: Content::Counter(1), expires_at: Some(10) });
    key.map.advance_to(9);
    // An addition keeps the expiry.
    key.execute(&Operation::FetchAdd { delta: 1 });
    assert_eq!(key.execute(&Operation::Get), counted(2, 2));
    key.map.advance_to(10);
    assert_eq!(key.execute(&Operation::Get), Outcome::NotFound);
    assert_eq!(
        key.execute(&Operation::FetchAdd { delta: 1 }),
        Outcome::Added { previous: 0, version: Some(Version(5)) }
    );
    key.map.advance_to(1_000);
    assert_eq!(key.execute(&Operation::Get), counted(1, 5));
}

#[test]
fn a_put_that_has_expired_leaves_nothing() {
    let mut key = OneKey::new();
    key.map.advance_to(10);
    key.execute(&put(b"old"));
    key.execute(&Operation::Put { value: bytes(b"new"), expires_at: Some(10) });
    assert_eq!(key.execute(&Operation::Get), Outcome::NotFound);
}

#[test]
fn keys_do_not_touch_each_other() {
    let mut map: MapModel<&str, Content> = MapModel::default();
    map.execute(&"b", &put(b"2"), None);
    map.execute(&"a", &put(b"1"), None);
    map.execute(&"b", &Operation::Delete, None);
    map.execute(&"c", &put(b"3"), None);
    let records: Vec<_> = map.records().map(|(key, record)| (*key, record.value.clone())).collect();
    assert_eq!(records, [("a", bytes(b"1")), ("c", bytes(b"3"))]);
}

#[test]
fn what_the_model_does_not_allow_is_explained_and_changes_nothing() {
    let mut map: MapModel<&str, Content> = MapModel::default();
    map.accept(&"key", &put(b"a"), &stored(1)).expect("a put fits");
    let before = map.state(&"key");
    let disagreement = map.accept(&"key", &Operation::Get, &found(b"a", 2)).expect_err("another version");
    assert_eq!(
        disagreement.to_string(),
        "get reported \"61(1 bytes) #2\", but the key held 61(1 bytes) #1: expected \"61(1 bytes) #1\""
    );
    assert_eq!(map.state(&"key"), before);
}

#[test]
fn a_version_is_learnt_from_the_first_outcome_that_tells_it() {
    let unreported = KeyState::default().after_unobserved(&put(b"a"));
    let exchange = Operation::CompareExchange { expected: Version(7), value: bytes(b"b"), expires_at: None };
    assert!(unreported.accept(&exchange, &stored(8)).is_some());
    let known = unreported.accept(&Operation::Get, &found(b"a", 6)).expect("any version fits");
    assert_eq!(known.accept(&exchange, &stored(8)), None);
    assert_eq!(known.accept(&Operation::Get, &found(b"a", 7)), None);
}

fn operations() -> impl Strategy<Value = Operation<u64>> {
    let value = 0..3_u64;
    let expiry = proptest::option::of(0..20_u64);
    prop_oneof![
        Just(Operation::Get),
        Just(Operation::Delete),
        (0..3_u64).prop_map(|delta| Operation::FetchAdd { delta }),
        (value.clone(), expiry.clone()).prop_map(|(value, expires_at)| Operation::Put { value, expires_at }),
        (value.clone(), expiry.clone())
            .prop_map(|(value, expires_at)| Operation::PutIfAbsent { value, expires_at }),
        (value, expiry, 0..40_u64).prop_map(|(value, expires_at, expected)| Operation::CompareExchange {
            value,
            expires_at,
            expected: Version(expected),
        }),
    ]
}

proptest! {
    /// The model accepts what it does itself, and nothing else.
    #[test]
    fn accepts_exactly_what_it_executes(operations in proptest::collection::vec(operations(), 0..40)) {
        let mut state = KeyState::default();
        let mut outcomes = Vec::new();
        for (version, operation) in (0..).zip(&operations) {
            let version = Version(version);
            let (outcome, next) = state.execute(operation, Some(version));
            prop_assert!(operation.can_report(&outcome));
            prop_assert_eq!(state.accept(operation, &outcome), Some(next.clone()));
            prop_assert_eq!(outcome.changed_nothing() && next != state, false);
            for other in outcomes.iter().filter(|other| !outcome.agrees_with(other) && !is_stored(other)) {
                prop_assert_eq!(state.accept(operation, other), None);
            }
            outcomes.push(outcome);
            state = next;
        }
    }
}

/// Whether the model cannot contradict this outcome's version, as it did not choose it.
fn is_stored(outcome: &Outcome<u64>) -> bool {
    outcome.published().is_some()
}
