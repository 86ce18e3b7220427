//! The sequential specification: what each operation does to one key, and to a map of keys under an explicit
//! clock.
//!
//! Versions are chosen by the system under test, so [`KeyState::execute`] takes the version of a publication as
//! an argument, and [`KeyState::accept`] asks the question a checker has: can this state have produced that
//! outcome, and which state follows?

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use crate::operation::{Operation, Outcome, Time, Value, Version};

/// A value with what Farside keeps beside it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record<V> {
    /// The value.
    pub value: V,
    /// The version of this publication; `None` as long as no outcome has told it.
    pub version: Option<Version>,
    /// When the record expires.
    pub expires_at: Option<Time>,
}

/// The state of one key. The default is an absent key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyState<V> {
    record: Option<Record<V>>,
}

impl<V> Default for KeyState<V> {
    fn default() -> Self {
        Self { record: None }
    }
}

impl<V: Value> KeyState<V> {
    /// The record of the key, `None` if it is absent.
    pub fn record(&self) -> Option<&Record<V>> {
        self.record.as_ref()
    }

    /// Whether the key holds a record whose time is up at `now`.
    pub fn is_expired(&self, now: Time) -> bool {
        self.record.as_ref().and_then(|record| record.expires_at).is_some_and(|expires_at| expires_at <= now)
    }

    /// Executes `operation` and returns what it reports and the state it leaves. `version` names the
    /// publication if there is one.
    pub fn execute(&self, operation: &Operation<V>, version: Option<Version>) -> (Outcome<V>, Self) {
        let stored = |value: &V, expires_at: &Option<Time>| {
            (Outcome::Stored { version }, Self::holding(value.clone(), version, *expires_at))
        };
        let unchanged = |outcome| (outcome, self.clone());
        match (operation, &self.record) {
            (Operation::Get, None) => unchanged(Outcome::NotFound),
            (Operation::Get, Some(record)) => {
                unchanged(Outcome::Found { value: record.value.clone(), version: record.version })
            }
            (Operation::Put { value, expires_at }, _) => stored(value, expires_at),
            (Operation::PutIfAbsent { value, expires_at }, None) => stored(value, expires_at),
            (Operation::PutIfAbsent { .. }, Some(_)) => unchanged(Outcome::Exists),
            (Operation::CompareExchange { expected, value, expires_at }, Some(record))
                if record.version == Some(*expected) =>
            {
                stored(value, expires_at)
            }
            (Operation::CompareExchange { .. }, _) => unchanged(Outcome::Mismatch),
            (Operation::FetchAdd { delta }, record) => {
                let counter = record.as_ref().map_or(Some(0), |record| record.value.counter());
                let Some(previous) = counter else { return unchanged(Outcome::NotACounter) };
                let sum = V::from_counter(previous.wrapping_add(*delta));
                let expires_at = record.as_ref().and_then(|record| record.expires_at);
                (Outcome::Added { previous, version }, Self::holding(sum, version, expires_at))
            }
            (Operation::Delete, None) => unchanged(Outcome::NotFound),
            (Operation::Delete, Some(_)) => (Outcome::Deleted, Self::default()),
        }
    }

    /// The state after `operation` reported `outcome` in this state, or `None` if it cannot have.
    ///
    /// A record whose version has not been told yet takes the version that `outcome` gives away. This is exact
    /// as long as callers expect only versions that some outcome told them.
    pub fn accept(&self, operation: &Operation<V>, outcome: &Outcome<V>) -> Option<Self> {
        let told = match (operation, outcome) {
            (Operation::Get, Outcome::Found { version, .. }) => *version,
            (Operation::CompareExchange { expected, .. }, Outcome::Stored { .. }) => Some(*expected),
            _ => None,
        };
        let (exact, next) = self.knowing(told).execute(operation, outcome.published());
        outcome.agrees_with(&exact).then_some(next)
    }

    /// The state after `operation` took effect as far as it could, with nobody told how.
    pub fn after_unobserved(&self, operation: &Operation<V>) -> Self {
        let told = match operation {
            Operation::CompareExchange { expected, .. } => Some(*expected),
            _ => None,
        };
        self.knowing(told).execute(operation, None).1
    }

    pub(crate) fn holding(value: V, version: Option<Version>, expires_at: Option<Time>) -> Self {
        Self { record: Some(Record { value, version, expires_at }) }
    }

    fn knowing(&self, version: Option<Version>) -> Cow<'_, Self> {
        match &self.record {
            Some(record) if record.version.is_none() && version.is_some() => {
                Cow::Owned(Self::holding(record.value.clone(), version, record.expires_at))
            }
            _ => Cow::Borrowed(self),
        }
    }
}

impl<V: fmt::Debug> fmt::Display for KeyState<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(record) = &self.record else { return f.write_str("absent") };
        write!(f, "{:?}", record.value)?;
        if let Some(version) = record.version {
            write!(f, " {version:?}")?;
        }
        match record.expires_at {
            Some(time) => write!(f, " until {time}"),
            None => Ok(()),
        }
    }
}

/// An outcome that the model does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation} reported \"{observed}\", but the key held {state}: expected \"{expected}\"")]
pub struct Disagreement<V: Value> {
    /// What was called.
    pub operation: Operation<V>,
    /// What was reported.
    pub observed: Outcome<V>,
    /// What the model reports.
    pub expected: Outcome<V>,
    /// The state of the key at the call.
    pub state: KeyState<V>,
}

/// A map of keys with a clock of its own; records vanish the moment they expire.
#[derive(Clone, Debug)]
pub struct MapModel<K, V> {
    keys: BTreeMap<K, KeyState<V>>,
    now: Time,
}

impl<K, V> Default for MapModel<K, V> {
    fn default() -> Self {
        Self { keys: BTreeMap::new(), now: 0 }
    }
}

impl<K: Ord + Clone, V: Value> MapModel<K, V> {
    /// The time the model lives at; it starts at 0.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Moves the clock to `now` and drops what has expired.
    ///
    /// # Panics
    ///
    /// If `now` lies in the past.
    pub fn advance_to(&mut self, now: Time) {
        assert!(now >= self.now, "the clock went back from {} to {now}", self.now);
        self.now = now;
        self.keys.retain(|_, state| !state.is_expired(now));
    }

    /// Executes `operation` on `key`; `version` names the publication if there is one.
    pub fn execute(&mut self, key: &K, operation: &Operation<V>, version: Option<Version>) -> Outcome<V> {
        let (outcome, next) = self.state(key).execute(operation, version);
        self.set(key, next);
        outcome
    }

    /// Follows an `outcome` the system under test reported for `operation` on `key`.
    ///
    /// # Errors
    ///
    /// If the model does not allow it; the model is unchanged then.
    pub fn accept(
        &mut self,
        key: &K,
        operation: &Operation<V>,
        outcome: &Outcome<V>,
    ) -> Result<(), Box<Disagreement<V>>> {
        let state = self.state(key);
        match state.accept(operation, outcome) {
            Some(next) => {
                self.set(key, next);
                Ok(())
            }
            None => Err(Box::new(Disagreement {
                operation: operation.clone(),
                observed: outcome.clone(),
                expected: state.execute(operation, outcome.published()).0,
                state,
            })),
        }
    }

    /// The state of `key`.
    pub fn state(&self, key: &K) -> KeyState<V> {
        self.keys.get(key).cloned().unwrap_or_default()
    }

    /// The present keys with their records, in the order of the keys.
    pub fn records(&self) -> impl Iterator<Item = (&K, &Record<V>)> {
        self.keys.iter().filter_map(|(key, state)| Some((key, state.record()?)))
    }

    fn set(&mut self, key: &K, state: KeyState<V>) {
        if state.record.is_none() || state.is_expired(self.now) {
            self.keys.remove(key);
        } else {
            self.keys.insert(key.clone(), state);
        }
    }
}

#[cfg(test)]
mod tests;
