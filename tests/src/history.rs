//! Recording what concurrent clients called, when, and what came back.
//!
//! Each client keeps a [`Recorder`] of its own, so recording takes no lock and adds no synchronisation that
//! could hide a race; [`History::from_recorders`] puts them together, key by key, since Farside promises
//! linearizability for each key.

use std::collections::BTreeMap;
use std::fmt;

use crate::operation::{Operation, Outcome, Time};

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response<V> {
    /// It took effect between its call and its response, and reports this.
    Done(Outcome<V>),
    /// It took effect at some moment after its call, or never will. An operation whose response never came is
    /// the same.
    Indeterminate,
    /// A definite error: it had no effect.
    Failed,
}

/// One operation of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<V> {
    /// Who called.
    pub client: u32,
    /// What was called.
    pub operation: Operation<V>,
    /// When it was called.
    pub called_at: Time,
    /// When its response came; [`Time::MAX`] if none has. Says nothing about an indeterminate operation's
    /// effect, which may come later.
    pub responded_at: Time,
    /// How it ended.
    pub response: Response<V>,
}

impl<V: fmt::Debug> fmt::Display for Entry<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {} at {}", self.client, self.called_at)?;
        match &self.response {
            Response::Done(outcome) => write!(f, "-{}: {} -> {outcome}", self.responded_at, self.operation),
            Response::Indeterminate => write!(f, ": {} -> indeterminate", self.operation),
            Response::Failed => write!(f, "-{}: {} -> failed", self.responded_at, self.operation),
        }
    }
}

/// A call that waits for its response.
#[derive(Debug)]
#[must_use = "a call without a response is taken as indeterminate"]
pub struct Invocation(usize);

/// The record of one client. A client may have several calls open at once.
#[derive(Clone, Debug)]
pub struct Recorder<K, V> {
    client: u32,
    entries: Vec<(K, Entry<V>)>,
}

impl<K, V> Recorder<K, V> {
    /// An empty record for the client with this number.
    pub fn new(client: u32) -> Self {
        Self { client, entries: Vec::new() }
    }

    /// Notes a call; take `now` before the operation is handed to the system under test.
    pub fn call(&mut self, now: Time, key: K, operation: Operation<V>) -> Invocation {
        let entry = Entry {
            client: self.client,
            operation,
            called_at: now,
            responded_at: Time::MAX,
            response: Response::Indeterminate,
        };
        self.entries.push((key, entry));
        Invocation(self.entries.len() - 1)
    }

    /// Notes the response to a call of this recorder; take `now` after it came.
    ///
    /// # Panics
    ///
    /// If the operation cannot report that outcome, or the response is older than the call: the harness is
    /// wrong then, not the system it tests.
    pub fn respond(&mut self, Invocation(call): Invocation, now: Time, response: Response<V>) {
        let entry = &mut self.entries[call].1;
        assert!(now >= entry.called_at, "the response at {now} comes before its call at {}", entry.called_at);
        if let Response::Done(outcome) = &response {
            assert!(entry.operation.can_report(outcome), "an outcome of another kind of operation");
        }
        entry.responded_at = now;
        entry.response = response;
    }
}

/// What all clients called and were told, by key. Keys are absent at the start.
#[derive(Clone, Debug)]
pub struct History<K, V> {
    keys: BTreeMap<K, Vec<Entry<V>>>,
}

impl<K: Ord, V> History<K, V> {
    /// Puts the records of all clients together. Their times must come from one clock; moments that are equal
    /// count as concurrent.
    pub fn from_recorders(recorders: impl IntoIterator<Item = Recorder<K, V>>) -> Self {
        let mut keys: BTreeMap<K, Vec<Entry<V>>> = BTreeMap::new();
        for (key, entry) in recorders.into_iter().flat_map(|recorder| recorder.entries) {
            keys.entry(key).or_default().push(entry);
        }
        for entries in keys.values_mut() {
            entries.sort_by_key(|entry| entry.called_at);
        }
        Self { keys }
    }

    /// The keys and their operations, these in the order of their calls.
    pub fn keys(&self) -> impl Iterator<Item = (&K, &[Entry<V>])> {
        self.keys.iter().map(|(key, entries)| (key, entries.as_slice()))
    }

    /// The number of operations on all keys.
    pub fn len(&self) -> usize {
        self.keys.values().map(Vec::len).sum()
    }

    /// Whether nothing was called.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_all_clients_are_grouped_by_key_and_sorted_by_call() {
        let (mut a, mut b) = (Recorder::new(1), Recorder::new(2));
        let put = b.call(3, "x", Operation::Put { value: 7_u64, expires_at: None });
        let get = a.call(5, "x", Operation::Get);
        let other = a.call(6, "y", Operation::Get);
        a.respond(get, 8, Response::Done(Outcome::Found { value: 7, version: None }));
        b.respond(put, 9, Response::Done(Outcome::Stored { version: None }));
        a.respond(other, 10, Response::Failed);
        let history = History::from_recorders([a, b]);
        let lines: Vec<String> = history
            .keys()
            .flat_map(|(key, entries)| entries.iter().map(move |entry| format!("{key}, {entry}")))
            .collect();
        assert_eq!(
            lines,
            [
                "x, client 2 at 3-9: put 7 -> stored",
                "x, client 1 at 5-8: get -> 7",
                "y, client 1 at 6-10: get -> failed"
            ]
        );
        assert_eq!(history.len(), 3);
    }

    #[test]
    fn a_call_without_a_response_is_indeterminate() {
        let mut recorder = Recorder::new(0);
        let _lost = recorder.call(1, "x", Operation::<u64>::Delete);
        let history = History::from_recorders([recorder]);
        let (_, entries) = history.keys().next().expect("one key");
        assert_eq!(entries[0].response, Response::Indeterminate);
        assert_eq!(entries[0].responded_at, Time::MAX);
    }

    #[test]
    #[should_panic(expected = "another kind")]
    fn an_outcome_must_fit_its_operation() {
        let mut recorder = Recorder::new(0);
        let call = recorder.call(1, "x", Operation::<u64>::Get);
        recorder.respond(call, 2, Response::Done(Outcome::Deleted));
    }
}
