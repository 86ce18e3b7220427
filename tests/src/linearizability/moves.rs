//! What the open operations can do to a state: computed once for each state and response, since many
//! configurations share a state.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};

use super::timeline::{Op, Return, Timeline};
use super::told::Told;
use crate::model::{KeyState, Record};
use crate::operation::{Operation, Outcome, Time, Value, Version};

/// A state of the key, as an index into [`States`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct StateId(u32);

/// The states met so far.
pub(super) struct States<V> {
    states: Vec<KeyState<V>>,
    ids: HashMap<KeyState<V>, StateId>,
}

impl<V: Value> States<V> {
    pub(super) fn new() -> Self {
        Self { states: Vec::new(), ids: HashMap::new() }
    }

    pub(super) fn id(&mut self, state: KeyState<V>) -> StateId {
        *self.ids.entry(state).or_insert_with_key(|state| {
            self.states.push(state.clone());
            StateId(u32::try_from(self.states.len() - 1).expect("the search's budget is below 2^32"))
        })
    }

    pub(super) fn get(&self, id: StateId) -> &KeyState<V> {
        &self.states[id.0 as usize]
    }
}

/// An operation that can be linearized next, and the state it leads to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub(super) op: u32,
    pub(super) next: StateId,
    /// Moves with the same number are equals.
    equals: usize,
}

/// What can be linearized next in a state.
pub(super) struct Moves {
    /// Operations whose outcome says that they changed nothing, and fits.
    pub(super) idle: Vec<u32>,
    /// All others that can be next; equals stand together, in the order in which they must return.
    moves: Vec<Move>,
}

impl Moves {
    /// What the operations open at `response` can do to the state `from`.
    pub(super) fn new<V: Value>(
        timeline: &Timeline<V>,
        response: &Return,
        states: &mut States<V>,
        from: StateId,
    ) -> Self {
        let state = states.get(from).clone();
        let mut idle = Vec::new();
        let mut moves = Vec::new();
        let mut equals = HashMap::new();
        for index in timeline.open_at(response) {
            let op = &timeline.ops[index as usize];
            for next in successors(&timeline.told, &state, op, response.at) {
                let next = states.id(timeline.told.simplify(&next, response.at));
                match &op.outcome {
                    Some(outcome) if outcome.changed_nothing() && next == from => idle.push(index),
                    None if next == from => {}
                    _ => {
                        let number = equals.len();
                        let equals = *equals.entry((Deed::of(op), next)).or_insert(number);
                        moves.push(Move { op: index, next, equals });
                    }
                }
            }
        }
        moves.sort_by_key(|candidate| candidate.equals);
        Self { idle, moves }
    }

    /// The moves of operations that are not linearized yet. Of equals only the first: where a valid order has
    /// another one, the two can change places, since the first must return first.
    pub(super) fn possible(&self, is_linearized: impl Fn(u32) -> bool) -> impl Iterator<Item = Move> {
        let mut last_equals = None;
        self.moves.iter().copied().filter(move |candidate| {
            let is_first = last_equals != Some(candidate.equals) && !is_linearized(candidate.op);
            if is_first {
                last_equals = Some(candidate.equals);
            }
            is_first
        })
    }
}

/// What an operation does and reports, apart from what is seen in the state it leads to: two operations with
/// the same deed that lead from one state to the same are equals, since they do so from any other state too.
#[derive(PartialEq, Eq, Hash)]
struct Deed<V> {
    operation: Discriminant<Operation<V>>,
    outcome: Option<Discriminant<Outcome<V>>>,
    expected: Option<Version>,
    delta: Option<u64>,
}

impl<V> Deed<V> {
    fn of(op: &Op<V>) -> Self {
        let (expected, delta) = match op.operation {
            Operation::CompareExchange { expected, .. } => (Some(expected), None),
            Operation::FetchAdd { delta } => (None, Some(delta)),
            _ => (None, None),
        };
        Self {
            operation: discriminant(&op.operation),
            outcome: op.outcome.as_ref().map(discriminant),
            expected,
            delta,
        }
    }
}

/// The states that `op` can lead to from `state` at `now`: two if it cannot be told from the outcome whether
/// the record had expired for the one who executed it.
pub(super) fn successors<V: Value>(
    told: &Told<V>,
    state: &KeyState<V>,
    op: &Op<V>,
    now: Time,
) -> impl Iterator<Item = KeyState<V>> {
    let present = execute(told, state, op);
    let expired = state.is_expired(now).then(KeyState::default).and_then(|absent| {
        let next = execute(told, &absent, op)?;
        // Clocks differ: the next reader may still find the record.
        Some(if next == absent { state.clone() } else { next })
    });
    present.into_iter().chain(expired)
}

fn execute<V: Value>(told: &Told<V>, state: &KeyState<V>, op: &Op<V>) -> Option<KeyState<V>> {
    if let (Some(Record { value, version: None, .. }), Some(version)) = (state.record(), op.needs())
        && !told.can_name(version, value)
    {
        return op.is_indeterminate().then(|| state.clone());
    }
    match &op.outcome {
        Some(outcome) => state.accept(&op.operation, outcome),
        None => Some(state.after_unobserved(&op.operation)),
    }
}
