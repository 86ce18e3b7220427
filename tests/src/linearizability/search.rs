//! The search for an order of the operations of one key that explains every outcome.
//!
//! Wing and Gong's search with Lowe's cache of configurations, in Lowe's just-in-time form: an operation is
//! linearized only when a response that comes next demands it. Nothing is lost by that, since any valid order
//! stays valid when each operation moves as late as the responses allow. So the search goes from response to
//! response with all the configurations that explain the responses so far, and a configuration needs to say
//! only which of the *open* operations are linearized.
//!
//! That is still exponential in the operations open at once. These cuts make it small in practice, and each
//! keeps at least one valid order if there is any:
//!
//! - An open operation whose outcome says that it changed nothing is linearized as soon as that outcome fits:
//!   moved to the front of the rest of a valid order, it hinders nothing there and is not missed where it was.
//! - Of equal operations the one that must return first goes first ([`Moves::possible`]).
//! - Configurations that used needlessly many indeterminate operations are dropped ([`Frontier`]).
//! - States that nothing to come tells apart are made equal ([`Told::simplify`](super::told::Told::simplify)).

use std::collections::HashMap;

use super::bitset::BitSet;
use super::frontier::{Configuration, Frontier, OrderId, Orders, Situation};
use super::moves::{Moves, StateId, States, successors};
use super::timeline::{Return, Timeline};
use crate::model::KeyState;
use crate::operation::{Time, Value};

/// How a search ended.
pub(super) enum Verdict<V> {
    /// There is a valid order: indices of operations.
    Linearizable(Vec<u32>),
    /// There is none.
    Stuck(Stuck<V>),
    /// The budget of configurations was used up.
    OutOfBudget,
}

/// The furthest the search came.
pub(super) struct Stuck<V> {
    /// The first response no order explains, as an index into the timeline's returns.
    pub(super) next: usize,
    /// An order of operations that explains every response before it.
    pub(super) order: Vec<u32>,
    /// The states such orders lead to.
    pub(super) states: Vec<KeyState<V>>,
}

pub(super) struct Search<'a, V> {
    timeline: &'a Timeline<V>,
    states: States<V>,
    orders: Orders,
    /// How many configurations may still be extended.
    budget: usize,
}

struct OutOfBudget;

impl<'a, V: Value> Search<'a, V> {
    /// A search that extends at most `budget` configurations.
    pub(super) fn new(timeline: &'a Timeline<V>, budget: usize) -> Self {
        Self { timeline, states: States::new(), orders: Orders::default(), budget }
    }

    /// Runs the search; also returns how many configurations it extended.
    pub(super) fn run(mut self) -> (Verdict<V>, usize) {
        let budget = self.budget;
        let verdict = self.verdict().unwrap_or_else(|OutOfBudget| Verdict::OutOfBudget);
        (verdict, budget - self.budget)
    }

    fn verdict(&mut self) -> Result<Verdict<V>, OutOfBudget> {
        let mut frontier = Frontier::default();
        frontier.add(Configuration {
            situation: Situation {
                linearized: BitSet::below(self.timeline.slots),
                state: self.states.id(KeyState::default()),
            },
            used: BitSet::below(self.timeline.indeterminate.len()),
            order: OrderId::EMPTY,
        });
        for (next, response) in self.timeline.returns.iter().enumerate() {
            let mut level = Level::new(response);
            while let Some(mut configuration) = frontier.take() {
                let state = self.states.get(configuration.situation.state);
                let state = self.timeline.told.simplify(state, response.at);
                configuration.situation.state = self.states.id(state);
                level.arrive(self, configuration);
            }
            let mut stuck: Vec<(StateId, OrderId)> = Vec::new();
            while let Some(configuration) = level.unexplained.take() {
                self.budget = self.budget.checked_sub(1).ok_or(OutOfBudget)?;
                stuck.push((configuration.situation.state, configuration.order));
                level.extend(self, &configuration);
            }
            if level.explained.is_empty() {
                return Ok(Verdict::Stuck(self.stuck(next, &stuck)));
            }
            frontier = level.explained;
        }
        let order = frontier.take().map_or(OrderId::EMPTY, |configuration| configuration.order);
        Ok(Verdict::Linearizable(self.orders.to_vec(order)))
    }

    fn stuck(&self, next: usize, ends: &[(StateId, OrderId)]) -> Stuck<V> {
        let mut seen: Vec<StateId> = Vec::new();
        let mut states = Vec::new();
        for &(state, order) in ends {
            if !seen.contains(&state) {
                seen.push(state);
                states.push(self.replay(&self.orders.to_vec(order), state, self.timeline.returns[next].at));
            }
        }
        let order = self.orders.to_vec(ends.first().map_or(OrderId::EMPTY, |&(_, order)| order));
        Stuck { next, order, states }
    }

    /// The state that `order` leads to and that was simplified to `end`, for people to read.
    fn replay(&self, order: &[u32], end: StateId, now: Time) -> KeyState<V> {
        let told = &self.timeline.told;
        let mut states = vec![KeyState::default()];
        for &op in order {
            let op = &self.timeline.ops[op as usize];
            let mut next_states: Vec<KeyState<V>> = Vec::new();
            for next in states.iter().flat_map(|state| successors(told, state, op, Time::MAX)) {
                if !next_states.contains(&next) {
                    next_states.push(next);
                }
            }
            states = next_states;
        }
        let end = self.states.get(end);
        states.into_iter().find(|state| told.simplify(state, now) == *end).unwrap_or_else(|| end.clone())
    }
}

/// The work on one response.
struct Level<'a> {
    response: &'a Return,
    moves: HashMap<StateId, Moves>,
    /// Configurations that do not explain the response yet.
    unexplained: Frontier,
    /// Configurations that do.
    explained: Frontier,
}

impl<'a> Level<'a> {
    fn new(response: &'a Return) -> Self {
        Self {
            response,
            moves: HashMap::new(),
            unexplained: Frontier::default(),
            explained: Frontier::default(),
        }
    }

    /// Linearizes what changed nothing and files the configuration.
    fn arrive<V: Value>(&mut self, search: &mut Search<'_, V>, mut configuration: Configuration) {
        let ops = &search.timeline.ops;
        let situation = &mut configuration.situation;
        let moves = self.moves.entry(situation.state).or_insert_with_key(|&state| {
            Moves::new(search.timeline, self.response, &mut search.states, state)
        });
        for &idle in &moves.idle {
            let slot = ops[idle as usize].slot;
            if !situation.linearized.has(slot) {
                situation.linearized.insert(slot);
                configuration.order = search.orders.push(configuration.order, idle);
            }
        }
        let returning = ops[self.response.op as usize].slot;
        if situation.linearized.has(returning) {
            situation.linearized.remove(returning);
            self.explained.add(configuration);
        } else {
            self.unexplained.add(configuration);
        }
    }

    /// Linearizes one more operation, each that can be.
    fn extend<V: Value>(&mut self, search: &mut Search<'_, V>, configuration: &Configuration) {
        let Configuration { situation, used, order } = configuration;
        let ops = &search.timeline.ops;
        let is_linearized = |op: u32| {
            let op = &ops[op as usize];
            let linearized = if op.is_indeterminate() { used } else { &situation.linearized };
            linearized.has(op.slot)
        };
        let moves: Vec<_> = self.moves[&situation.state].possible(is_linearized).collect();
        for candidate in moves {
            let op = &ops[candidate.op as usize];
            let mut linearized = situation.linearized.clone();
            let mut used = used.clone();
            if op.is_indeterminate() {
                used.insert(op.slot);
            } else {
                linearized.insert(op.slot);
            }
            let situation = Situation { linearized, state: candidate.next };
            let order = search.orders.push(*order, candidate.op);
            self.arrive(search, Configuration { situation, used, order });
        }
    }
}
