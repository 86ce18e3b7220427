//! Deciding whether a history is linearizable: whether each operation can be given one moment between its call
//! and its response such that the outcomes are those of the [model](crate::model) executing them in that order.
//!
//! Each key is checked by itself, which is enough: linearizability is local (Herlihy and Wing, 1990). The
//! search is that of Wing and Gong, "Testing and verifying concurrent objects" (1993), with the cache and the
//! just-in-time linearization of Lowe, "Testing for linearizability" (2017).
//!
//! What the model leaves open:
//! - An [indeterminate](crate::history::Response::Indeterminate) operation takes effect once at some moment
//!   after its call, or never; a failed one never does.
//! - A value with an expiry may be found absent by any operation that ends at or after that time. It need not
//!   be, and two operations may disagree, as their clocks do.
//! - A publication that reported no version can have any that no other one reported and that was not found with
//!   another value. Give each publication a value of its own, and this leaves nothing open.

use std::collections::HashMap;
use std::fmt::Debug;

use crate::history::{Entry, History, Response};
use crate::operation::{Operation, Outcome, Value, Version};

mod bitset;
mod frontier;
mod moves;
mod search;
mod timeline;
mod told;
mod violation;

use search::{Search, Verdict};
use timeline::Timeline;
pub use violation::Violation;

/// Configurations the search of one key may enter: minutes of work and gigabytes of memory are the bound, not
/// forever.
const BUDGET: usize = 10_000_000;

/// A history that is not known to be linearizable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure<V: Value> {
    /// No order of the operations explains their outcomes.
    #[error("not linearizable: {0}")]
    NotLinearizable(Box<Violation<V>>),
    /// Two publications go by one version, so a compare-exchange can take one for the other.
    #[error("the version {version:?} cannot name the same publication in both of\n    {first}\n    {second}")]
    VersionReused {
        /// The version.
        version: Version,
        /// An operation that published, found or exchanged it.
        first: Box<Entry<V>>,
        /// An operation that did so too, with another publication.
        second: Box<Entry<V>>,
    },
    /// The search gave up.
    #[error("undecided after {configurations} configurations; check a history with fewer clients on one key")]
    Undecided {
        /// The configurations it had entered.
        configurations: usize,
    },
}

/// The key whose history failed, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("key {key:?}: {failure}")]
pub struct KeyFailure<K: Debug, V: Value> {
    /// The key.
    pub key: K,
    /// The reason.
    pub failure: Failure<V>,
}

/// An order of the operations on a key that explains every outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linearization {
    /// Indices into the entries that were checked. Failed operations are not among them, nor are indeterminate
    /// ones that nothing depends on.
    pub order: Vec<usize>,
    /// How many configurations the search entered.
    pub configurations: usize,
}

/// Checks every key of `history`.
///
/// # Errors
///
/// The first key in their order that is not known to be linearizable.
pub fn check<K, V>(history: &History<K, V>) -> Result<(), Box<KeyFailure<K, V>>>
where
    K: Ord + Clone + Debug,
    V: Value,
{
    for (key, entries) in history.keys() {
        check_key(entries).map_err(|failure| Box::new(KeyFailure { key: key.clone(), failure }))?;
    }
    Ok(())
}

/// Checks the operations on one key, which is absent at the start.
///
/// # Errors
///
/// If they are not known to be linearizable.
pub fn check_key<V: Value>(entries: &[Entry<V>]) -> Result<Linearization, Failure<V>> {
    let timeline = Timeline::new(entries);
    let (verdict, configurations) = Search::new(&timeline, BUDGET).run();
    match verdict {
        Verdict::Linearizable(order) => {
            check_versions(entries)?;
            let order = order.into_iter().map(|op| timeline.ops[op as usize].entry).collect();
            Ok(Linearization { order, configurations })
        }
        Verdict::Stuck(stuck) => {
            Err(Failure::NotLinearizable(Box::new(Violation::new(entries, &timeline, stuck))))
        }
        Verdict::OutOfBudget => Err(Failure::Undecided { configurations }),
    }
}

/// Each version is published by one operation, found with one value, and exchanged once. The search alone would
/// miss a version that comes back on a publication whose own version nobody was told.
fn check_versions<V: Value>(entries: &[Entry<V>]) -> Result<(), Failure<V>> {
    let mut publishers: HashMap<Version, &Entry<V>> = HashMap::new();
    let mut exchangers: HashMap<Version, &Entry<V>> = HashMap::new();
    let mut values: HashMap<Version, (V, &Entry<V>)> = HashMap::new();
    for entry in entries {
        let Response::Done(outcome) = &entry.response else { continue };
        let reused = |version, first: &Entry<V>| {
            let (first, second) = (Box::new(first.clone()), Box::new(entry.clone()));
            Err(Failure::VersionReused { version, first, second })
        };
        if let Some(version) = outcome.published()
            && let Some(first) = publishers.insert(version, entry)
        {
            return reused(version, first);
        }
        if let (Operation::CompareExchange { expected, .. }, Outcome::Stored { .. }) =
            (&entry.operation, outcome)
            && let Some(first) = exchangers.insert(*expected, entry)
        {
            return reused(*expected, first);
        }
        if let Some((version, value)) = named_value(&entry.operation, outcome) {
            let (first_value, first) = values.entry(version).or_insert_with(|| (value.clone(), entry));
            if *first_value != value {
                return reused(version, first);
            }
        }
    }
    Ok(())
}

/// The version an outcome tells, with the value it names.
fn named_value<V: Value>(operation: &Operation<V>, outcome: &Outcome<V>) -> Option<(Version, V)> {
    match (operation, outcome) {
        (_, Outcome::Found { value, version }) => Some(((*version)?, value.clone())),
        (Operation::FetchAdd { delta }, Outcome::Added { previous, version }) => {
            Some(((*version)?, V::from_counter(previous.wrapping_add(*delta))))
        }
        (operation, Outcome::Stored { version }) => Some(((*version)?, operation.value()?.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
