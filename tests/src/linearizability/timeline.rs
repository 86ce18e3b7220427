//! A history of one key prepared for the search: the responses in the order of time, and beside each the
//! operations that were open when it came.

use super::told::Told;
use crate::history::{Entry, Response};
use crate::operation::{Operation, Outcome, Time, Value, Version};

/// An operation that may have taken effect.
pub(super) struct Op<V> {
    pub(super) operation: Operation<V>,
    /// What it reported; `None` if it is indeterminate, and then it need not take effect at all.
    pub(super) outcome: Option<Outcome<V>>,
    /// Its place in the entries the timeline was made from.
    pub(super) entry: usize,
    /// Its number among the indeterminate operations, or among the others that are open with it.
    pub(super) slot: usize,
}

impl<V> Op<V> {
    pub(super) fn is_indeterminate(&self) -> bool {
        self.outcome.is_none()
    }

    /// The version the key must have for this operation to fit, or to have an effect.
    pub(super) fn needs(&self) -> Option<Version> {
        match (&self.operation, &self.outcome) {
            (_, Some(Outcome::Found { version, .. })) => *version,
            (Operation::CompareExchange { expected, .. }, None | Some(Outcome::Stored { .. })) => {
                Some(*expected)
            }
            _ => None,
        }
    }
}

/// The response of an operation that reported an outcome.
pub(super) struct Return {
    pub(super) op: u32,
    pub(super) at: Time,
    /// The operations with outcomes that were called by now and have not returned before, this one among them,
    /// in the order of their returns.
    open: Vec<u32>,
    /// How many indeterminate operations were called by now.
    indeterminate: usize,
}

pub(super) struct Timeline<V> {
    pub(super) ops: Vec<Op<V>>,
    pub(super) returns: Vec<Return>,
    /// The indeterminate operations in the order of their calls.
    pub(super) indeterminate: Vec<u32>,
    /// The bound of the slots of all others.
    pub(super) slots: usize,
    pub(super) told: Told<V>,
}

impl<V: Value> Timeline<V> {
    pub(super) fn new(entries: &[Entry<V>]) -> Self {
        let mut timeline = Self {
            ops: Vec::new(),
            returns: Vec::new(),
            indeterminate: Vec::new(),
            slots: 0,
            told: Told::new(entries),
        };
        let mut open: Vec<u32> = Vec::new();
        let mut free_slots: Vec<usize> = Vec::new();
        let mut op_of_entry: Vec<u32> = vec![0; entries.len()];
        for Event { at, is_return, entry } in events(entries) {
            if is_return {
                let op = op_of_entry[entry];
                let indeterminate = timeline.indeterminate.len();
                timeline.returns.push(Return { op, at, open: open.clone(), indeterminate });
                open.retain(|&other| other != op);
                free_slots.push(timeline.ops[op as usize].slot);
                continue;
            }
            let index = u32::try_from(timeline.ops.len()).expect("fewer than 2^32 operations");
            op_of_entry[entry] = index;
            let Entry { operation, response, responded_at, .. } = &entries[entry];
            let (outcome, slot) = if let Response::Done(outcome) = response {
                let returns_later =
                    |&other: &u32| entries[timeline.ops[other as usize].entry].responded_at > *responded_at;
                open.insert(open.iter().position(returns_later).unwrap_or(open.len()), index);
                let slot = free_slots.pop().unwrap_or_else(|| {
                    timeline.slots += 1;
                    timeline.slots - 1
                });
                (Some(outcome.clone()), slot)
            } else {
                timeline.indeterminate.push(index);
                (None, timeline.indeterminate.len() - 1)
            };
            timeline.ops.push(Op { operation: operation.clone(), outcome, entry, slot });
        }
        timeline
    }

    /// The operations open at `response`: those with outcomes in the order of their returns, and after them the
    /// indeterminate ones in the order of their calls.
    pub(super) fn open_at<'a>(&'a self, response: &'a Return) -> impl Iterator<Item = u32> + 'a {
        response.open.iter().chain(&self.indeterminate[..response.indeterminate]).copied()
    }
}

struct Event {
    at: Time,
    is_return: bool,
    entry: usize,
}

/// Calls and returns in the order of time, calls first among equals, without what cannot have had an effect.
fn events<V>(entries: &[Entry<V>]) -> Vec<Event> {
    let mut events = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let has_return = match (&entry.response, &entry.operation) {
            (Response::Failed, _) | (Response::Indeterminate, Operation::Get) => continue,
            (Response::Indeterminate, _) => false,
            (Response::Done(_), _) => true,
        };
        events.push(Event { at: entry.called_at, is_return: false, entry: index });
        if has_return {
            events.push(Event { at: entry.responded_at, is_return: true, entry: index });
        }
    }
    events.sort_by_key(|event| (event.at, event.is_return));
    events
}
