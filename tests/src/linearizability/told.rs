//! What the outcomes of a history tell, and until when.
//!
//! Under contention most values are overwritten before anybody reads them. Which of them a key holds cannot
//! matter then, so one stands for all, and states become equal that would be searched one by one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;

use crate::history::{Entry, Response};
use crate::model::{KeyState, Record};
use crate::operation::{Operation, Outcome, Time, Value, Version};

pub(super) struct Told<V> {
    /// The values that outcomes tell, and when the last one does.
    values: HashMap<V, Time>,
    /// Those that are counters.
    counters: BTreeMap<u64, Time>,
    /// The most by which additions that nobody saw can have moved a counter.
    unseen_sum: u64,
    /// The versions that are found or expected, and when for the last time.
    versions: HashMap<Version, Time>,
    /// When the last version is expected that no outcome tells.
    guessed: Time,
    /// The versions that operations report to have published.
    published: HashSet<Version>,
    /// The versions that were found, with their values.
    found: HashMap<Version, V>,
    stand_ins: StandIns<V>,
}

/// What stands for all that is not told any more.
struct StandIns<V> {
    /// A written value that counts, and one that does not, with the times they are told last.
    counter: Option<(V, Time)>,
    other: Option<(V, Time)>,
    /// A version that is never told.
    version: Version,
}

impl<V: Value> Told<V> {
    pub(super) fn new(entries: &[Entry<V>]) -> Self {
        let mut told = Self {
            values: HashMap::new(),
            counters: BTreeMap::new(),
            unseen_sum: 0,
            versions: HashMap::new(),
            guessed: 0,
            published: HashSet::new(),
            found: HashMap::new(),
            stand_ins: StandIns { counter: None, other: None, version: Version(0) },
        };
        for entry in entries {
            told.note_outcome(entry);
        }
        for entry in entries {
            told.note_expectation(entry);
        }
        told.counters = told.values.iter().filter_map(|(value, &at)| Some((value.counter()?, at))).collect();
        for entry in entries {
            told.note_stand_in(entry);
        }
        while told.versions.contains_key(&told.stand_ins.version) {
            told.stand_ins.version.0 += 1;
        }
        told
    }

    fn note_outcome(&mut self, entry: &Entry<V>) {
        let at = entry.responded_at;
        match (&entry.operation, &entry.response) {
            (_, Response::Done(outcome)) => {
                self.published.extend(outcome.published());
                match outcome {
                    Outcome::Found { value, version } => {
                        note_time(&mut self.values, value.clone(), at);
                        if let Some(version) = version {
                            note_time(&mut self.versions, *version, at);
                            self.found.insert(*version, value.clone());
                        }
                    }
                    Outcome::Added { previous, .. } => {
                        note_time(&mut self.values, V::from_counter(*previous), at);
                    }
                    _ => {}
                }
            }
            (Operation::FetchAdd { delta }, Response::Indeterminate) => {
                self.unseen_sum = self.unseen_sum.saturating_add(*delta);
            }
            _ => {}
        }
    }

    fn note_expectation(&mut self, entry: &Entry<V>) {
        let Operation::CompareExchange { expected, .. } = entry.operation else { return };
        let at = match entry.response {
            Response::Done(_) => entry.responded_at,
            Response::Indeterminate => Time::MAX,
            Response::Failed => return,
        };
        note_time(&mut self.versions, expected, at);
        if let Some(value) = self.found.get(&expected) {
            note_time(&mut self.values, value.clone(), at);
        } else if !self.published.contains(&expected) {
            self.guessed = self.guessed.max(at);
        }
    }

    fn note_stand_in(&mut self, entry: &Entry<V>) {
        let Some(value) = entry.operation.value() else { return };
        let at = self.last_told(value);
        let is_counter = value.counter().is_some();
        let stand_in = if is_counter { &mut self.stand_ins.counter } else { &mut self.stand_ins.other };
        if stand_in.as_ref().is_none_or(|(_, other)| at < *other) {
            *stand_in = Some((value.clone(), at));
        }
    }

    /// When an outcome tells this value for the last time, or may tell a sum that started from it.
    fn last_told(&self, value: &V) -> Time {
        let Some(count) = value.counter() else { return self.values.get(value).copied().unwrap_or(0) };
        match count.checked_add(self.unseen_sum) {
            Some(highest) => self.counters.range(count..=highest).map(|(_, &at)| at).max().unwrap_or(0),
            None => Time::MAX,
        }
    }

    /// Whether a publication of `value` that did not report its version can have this one.
    pub(super) fn can_name(&self, version: Version, value: &V) -> bool {
        !self.published.contains(&version) && self.found.get(&version).is_none_or(|found| found == value)
    }

    /// The state that stands for all those that nothing from `now` on tells from this one.
    pub(super) fn simplify(&self, state: &KeyState<V>, now: Time) -> KeyState<V> {
        let Some(record) = state.record() else { return KeyState::default() };
        let Record { mut value, mut version, mut expires_at } = record.clone();
        let stand_in =
            if value.counter().is_some() { &self.stand_ins.counter } else { &self.stand_ins.other };
        let is_untold = |last: Time| last < now;
        if let Some((stand_in, last)) = stand_in
            && is_untold(*last)
            && is_untold(self.last_told(&value))
        {
            value.clone_from(stand_in);
            if version.is_none() && is_untold(self.guessed) {
                version = Some(self.stand_ins.version);
            }
        }
        if let Some(version) = &mut version
            && is_untold(self.versions.get(version).copied().unwrap_or(0))
        {
            *version = self.stand_ins.version;
        }
        if state.is_expired(now) {
            expires_at = Some(0);
        }
        KeyState::holding(value, version, expires_at)
    }
}

fn note_time<K: Eq + Hash>(times: &mut HashMap<K, Time>, key: K, at: Time) {
    let last = times.entry(key).or_insert(at);
    *last = at.max(*last);
}
