//! Why a history is not linearizable, short enough to read.

use std::fmt;

use super::search::{Search, Stuck, Verdict};
use super::timeline::Timeline;
use crate::history::{Entry, Response};
use crate::model::KeyState;
use crate::operation::Value;

/// Lines of the prefix, of the states and of the open operations that are printed.
const SHOWN_MAX: usize = 8;
/// A contradiction of more operations explains nothing to a reader.
const CONTRADICTION_MAX: usize = 12;
/// Configurations for each of the searches that look for a contradiction.
const CONTRADICTION_BUDGET: usize = 20_000;
/// Looking for a contradiction takes a search for every few operations: more than these would take minutes.
const SHRUNK_MAX: usize = 500;

/// The proof that no order of the operations explains all their outcomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation<V> {
    /// The longest linearizable prefix: operations in an order that explains every response before that of
    /// `misfit`.
    pub prefix: Vec<Entry<V>>,
    /// The first operation to respond with what no order explains.
    pub misfit: Entry<V>,
    /// The states the key can be in after such orders.
    pub states: Vec<KeyState<V>>,
    /// The operations open beside `misfit` that are not part of `prefix`.
    pub open: Vec<Entry<V>>,
    /// A minimal set of operations that contradict each other even if every other operation happened at any
    /// time after its call or never; empty if none was found that is small.
    pub contradiction: Vec<Entry<V>>,
}

impl<V: Value> Violation<V> {
    pub(super) fn new(entries: &[Entry<V>], timeline: &Timeline<V>, stuck: Stuck<V>) -> Self {
        let entry_of = |op: u32| entries[timeline.ops[op as usize].entry].clone();
        let response = &timeline.returns[stuck.next];
        let open = timeline
            .open_at(response)
            .filter(|op| *op != response.op && !stuck.order.contains(op))
            .map(entry_of)
            .collect();
        Self {
            prefix: stuck.order.iter().map(|&op| entry_of(op)).collect(),
            misfit: entry_of(response.op),
            states: stuck.states,
            open,
            contradiction: contradiction(entries, timeline.ops[response.op as usize].entry),
        }
    }
}

impl<V: fmt::Debug> fmt::Display for Violation<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "no order of the operations explains the response of")?;
        writeln!(f, "    {}", self.misfit)?;
        writeln!(f, "before it the key can only be")?;
        list(f, self.states.iter().take(SHOWN_MAX), self.states.len())?;
        if !self.open.is_empty() {
            writeln!(f, "beside it these are open")?;
            list(f, self.open.iter().take(SHOWN_MAX), self.open.len())?;
        }
        writeln!(f, "the longest linearizable prefix has {} operations and can end with", self.prefix.len())?;
        let tail = self.prefix.len().saturating_sub(SHOWN_MAX);
        list(f, self.prefix[tail..].iter(), self.prefix.len() - tail)?;
        if !self.contradiction.is_empty() {
            writeln!(f, "these contradict each other, whatever all others did")?;
            list(f, self.contradiction.iter(), self.contradiction.len())?;
        }
        Ok(())
    }
}

fn list<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    items: impl ExactSizeIterator<Item = T>,
    total: usize,
) -> fmt::Result {
    let hidden = total - items.len();
    for item in items {
        writeln!(f, "    {item}")?;
    }
    if hidden > 0 {
        writeln!(f, "    and {hidden} more")?;
    }
    Ok(())
}

/// Shrinks a history that breaks at the response of `misfit`, by taking outcomes away from it as long as it
/// stays broken: an operation without its outcome is indeterminate, which explains more, never less.
fn contradiction<V: Value>(entries: &[Entry<V>], misfit: usize) -> Vec<Entry<V>> {
    let end = entries[misfit].responded_at;
    let mut history: Vec<Entry<V>> = entries.iter().filter(|entry| entry.called_at <= end).cloned().collect();
    for entry in &mut history {
        if entry.responded_at > end && entry.response != Response::Failed {
            entry.response = Response::Indeterminate;
        }
    }
    if history.len() > SHRUNK_MAX {
        return Vec::new();
    }
    let mut definite: Vec<usize> =
        (0..history.len()).filter(|&index| matches!(history[index].response, Response::Done(_))).collect();

    let mut chunk_len = definite.len().div_ceil(2);
    while chunk_len > 0 {
        let mut kept = Vec::new();
        for chunk in definite.chunks(chunk_len) {
            let mut weaker = history.clone();
            for &index in chunk {
                weaker[index].response = Response::Indeterminate;
            }
            if is_broken(&weaker) {
                history = weaker;
            } else {
                kept.extend_from_slice(chunk);
            }
        }
        definite = kept;
        chunk_len /= 2;
    }
    if definite.len() > CONTRADICTION_MAX {
        return Vec::new();
    }
    definite.into_iter().map(|index| history[index].clone()).collect()
}

fn is_broken<V: Value>(entries: &[Entry<V>]) -> bool {
    let timeline = Timeline::new(entries);
    matches!(Search::new(&timeline, CONTRADICTION_BUDGET).run().0, Verdict::Stuck(_))
}
