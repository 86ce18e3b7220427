//! Sets of configurations: how far a search has come.

use std::collections::HashMap;

use super::bitset::BitSet;
use super::moves::StateId;

/// Operations linearized one after the other, as an index into [`Orders`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OrderId(u32);

impl OrderId {
    pub(super) const EMPTY: Self = Self(u32::MAX);
}

/// The orders of all configurations; those that begin alike share their beginning.
#[derive(Default)]
pub(super) struct Orders {
    /// The last operation of each order, and the order before it.
    links: Vec<(u32, OrderId)>,
}

impl Orders {
    pub(super) fn push(&mut self, before: OrderId, op: u32) -> OrderId {
        self.links.push((op, before));
        OrderId(u32::try_from(self.links.len() - 1).expect("the search's budget is below 2^32"))
    }

    pub(super) fn to_vec(&self, mut order: OrderId) -> Vec<u32> {
        let mut ops = Vec::new();
        while let Some(&(op, before)) = self.links.get(order.0 as usize) {
            ops.push(op);
            order = before;
        }
        ops.reverse();
        ops
    }
}

/// What the operations linearized so far came to, and all the rest depends on.
#[derive(Clone)]
pub(super) struct Configuration {
    pub(super) situation: Situation,
    /// The indeterminate operations that were linearized.
    pub(super) used: BitSet,
    /// The order that led here, for the report.
    pub(super) order: OrderId,
}

/// The state and the open operations that are linearized, indeterminate ones apart.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Situation {
    pub(super) linearized: BitSet,
    pub(super) state: StateId,
}

/// Configurations, none of which another one dominates that came before it: what can be explained after using
/// some indeterminate operations can be explained after using fewer of them in the same situation.
#[derive(Default)]
pub(super) struct Frontier {
    used_in: HashMap<Situation, Vec<BitSet>>,
    /// Configurations to be taken, by how many indeterminate operations they used.
    waiting: Vec<Vec<Configuration>>,
}

impl Frontier {
    pub(super) fn add(&mut self, configuration: Configuration) {
        let used = &configuration.used;
        let known = self.used_in.entry(configuration.situation.clone()).or_default();
        if known.iter().any(|other| other.is_subset_of(used)) {
            return;
        }
        known.push(used.clone());
        let used_count = used.len();
        if self.waiting.len() <= used_count {
            self.waiting.resize_with(used_count + 1, Vec::new);
        }
        self.waiting[used_count].push(configuration);
    }

    /// Takes a configuration among those that used the fewest indeterminate operations.
    pub(super) fn take(&mut self) -> Option<Configuration> {
        self.waiting.iter_mut().find_map(Vec::pop)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used_in.is_empty()
    }
}
