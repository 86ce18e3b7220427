//! Two judges that share nothing with the checker, the specification included.
//!
//! - [`permutations_accept`] tries every order of the operations against the plain meaning of versions: each
//!   publication has one, and no two have the same.
//! - [`todc_accepts`] asks `todc-utils`, a published implementation of Wing, Gong and Lowe's search.

use std::collections::{HashMap, HashSet};

use farside_tests::history::{Entry, Response};
use farside_tests::operation::{Operation, Outcome, Time, Version};
use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History};
use todc_utils::specifications::Specification;

/// An operation that took effect, and what it reported if anybody was told.
#[derive(Clone, Debug)]
struct Effect {
    operation: Operation<u64>,
    outcome: Option<Outcome<u64>>,
    called_at: Time,
    responded_at: Time,
}

/// The histories an indeterminate history stands for: every choice of the operations that took effect.
fn worlds(entries: &[Entry<u64>]) -> Vec<Vec<Effect>> {
    let mut worlds = vec![Vec::new()];
    for entry in entries {
        let effect = |outcome, responded_at| Effect {
            operation: entry.operation.clone(),
            outcome,
            called_at: entry.called_at,
            responded_at,
        };
        match &entry.response {
            Response::Failed => {}
            Response::Done(outcome) => {
                for world in &mut worlds {
                    world.push(effect(Some(outcome.clone()), entry.responded_at));
                }
            }
            Response::Indeterminate => {
                let without = worlds.clone();
                for world in &mut worlds {
                    world.push(effect(None, Time::MAX));
                }
                worlds.extend(without);
            }
        }
    }
    worlds
}

/// Whether the history is linearizable, as found by trying every permutation of the operations.
pub(crate) fn permutations_accept(entries: &[Entry<u64>]) -> bool {
    worlds(entries).iter().any(|world| {
        let mut order: Vec<usize> = (0..world.len()).collect();
        let len = order.len();
        some_permutation(&mut order, len, &|order| explains(world, order))
    })
}

/// Heap's algorithm over the first `len` items.
fn some_permutation(items: &mut [usize], len: usize, holds: &impl Fn(&[usize]) -> bool) -> bool {
    if len <= 1 {
        return holds(items);
    }
    for index in 0..len {
        if some_permutation(items, len - 1, holds) {
            return true;
        }
        items.swap(if len.is_multiple_of(2) { index } else { 0 }, len - 1);
    }
    false
}

/// What a key holds.
#[derive(Clone, Copy)]
struct Held {
    value: u64,
    /// The operation that stored it.
    publication: usize,
    expires_at: Option<Time>,
}

/// What an order has come to.
#[derive(Clone, Default)]
struct Run {
    held: Option<Held>,
    version_of: HashMap<usize, u64>,
    /// Versions that publications turned out not to have.
    not_version_of: Vec<(usize, u64)>,
}

impl Run {
    /// Gives a publication its version; false if it has another one or shares it.
    fn name(&mut self, publication: usize, Version(version): Version) -> bool {
        let taken = self.version_of.iter().any(|(&other, &named)| other != publication && named == version);
        !taken && *self.version_of.entry(publication).or_insert(version) == version
    }

    fn is_consistent(&self) -> bool {
        self.not_version_of
            .iter()
            .all(|(publication, version)| self.version_of.get(publication) != Some(version))
    }

    /// The run after one more operation; `None` if that cannot have reported its outcome.
    fn step(mut self, publication: usize, effect: &Effect) -> Option<Self> {
        let outcome = effect.outcome.as_ref();
        let reports = |expected: &Outcome<u64>| outcome.is_none_or(|outcome| outcome == expected);
        let reports_stored = outcome.is_none_or(|outcome| matches!(outcome, Outcome::Stored { .. }));
        let store = |value: u64, expires_at: Option<Time>| Some(Held { value, publication, expires_at });
        let fits = match (effect.operation.clone(), self.held) {
            (Operation::Get, held) => match (outcome, held) {
                (None, _) | (Some(Outcome::NotFound), None) => true,
                (Some(Outcome::Found { value, version }), Some(held)) => {
                    *value == held.value && version.is_none_or(|version| self.name(held.publication, version))
                }
                _ => false,
            },
            (Operation::Put { value, expires_at }, _)
            | (Operation::PutIfAbsent { value, expires_at }, None) => {
                self.held = store(value, expires_at);
                reports_stored
            }
            (Operation::PutIfAbsent { .. }, Some(_)) => reports(&Outcome::Exists),
            (Operation::CompareExchange { expected, value, expires_at }, Some(held)) if reports_stored => {
                self.held = store(value, expires_at);
                self.name(held.publication, expected)
            }
            (Operation::CompareExchange { expected, .. }, held) => {
                self.not_version_of.extend(held.map(|held| (held.publication, expected.0)));
                reports(&Outcome::Mismatch)
            }
            (Operation::FetchAdd { delta }, held) => {
                let before = held.map_or(0, |held| held.value);
                self.held = store(before + delta, held.and_then(|held| held.expires_at));
                match outcome {
                    None => true,
                    Some(Outcome::Added { previous, .. }) => *previous == before,
                    Some(_) => false,
                }
            }
            (Operation::Delete, held) => {
                self.held = None;
                let exact = if held.is_some() { Outcome::Deleted } else { Outcome::NotFound };
                reports(&exact) || reports(&Outcome::Absent)
            }
        };
        fits.then_some(self)
    }
}

/// Whether this very order respects time and explains every outcome.
fn explains(world: &[Effect], order: &[usize]) -> bool {
    let mut start = Run::default();
    for (publication, effect) in world.iter().enumerate() {
        if let Some(version) = effect.outcome.as_ref().and_then(Outcome::published)
            && !start.name(publication, version)
        {
            return false;
        }
    }
    let mut runs = vec![start];
    for (index, &op) in order.iter().enumerate() {
        let effect = &world[op];
        // Everything later in the order must still find a moment before its response.
        let latest = order[index..].iter().map(|&later| world[later].responded_at).min().unwrap_or(Time::MAX);
        if latest < effect.called_at {
            return false;
        }
        let mut next_runs = Vec::new();
        for run in runs {
            if let Some(held) = run.held.filter(|held| held.expires_at.is_some_and(|at| at <= latest)) {
                // The record is not seen, yet it stays if nothing is stored in its place.
                let unseen = Run { held: None, ..run.clone() };
                next_runs.extend(
                    unseen.step(op, effect).map(|next| Run { held: next.held.or(Some(held)), ..next }),
                );
            }
            next_runs.extend(run.step(op, effect));
        }
        runs = next_runs;
    }
    runs.iter().any(Run::is_consistent)
}

/// Which publications a version can name if they did not report one.
#[derive(Clone, Copy, Debug)]
enum Names {
    Any,
    /// Another publication reported it.
    None,
    /// It was found with this value.
    Only(u64),
}

/// An operation with its outcome, and what is known of the version it needs.
type Told = (Operation<u64>, Option<Outcome<u64>>, Names);

struct KeySpecification;

impl Specification for KeySpecification {
    /// Value and version, if that is known.
    type State = Option<(u64, Option<u64>)>;
    type Operation = Told;

    fn init() -> Self::State {
        None
    }

    fn apply((operation, outcome, names): &Told, state: &Self::State) -> (bool, Self::State) {
        let lost = outcome.is_none();
        let is = |expected: Outcome<u64>| lost || *outcome == Some(expected);
        let stored = lost || matches!(outcome, Some(Outcome::Stored { .. }));
        let version = outcome.as_ref().and_then(Outcome::published).map(|Version(version)| version);
        let has = |(value, held): (u64, Option<u64>), Version(version): Version| match (held, names) {
            (Some(held), _) => held == version,
            (None, Names::Any) => true,
            (None, Names::None) => false,
            (None, Names::Only(found)) => *found == value,
        };
        match (operation, *state) {
            (Operation::Get, None) => (is(Outcome::NotFound), None),
            (Operation::Get, Some(record)) => match outcome {
                None => (true, *state),
                Some(Outcome::Found { value, version: None }) => (*value == record.0, *state),
                Some(Outcome::Found { value, version: Some(version) }) => {
                    (*value == record.0 && has(record, *version), Some((record.0, Some(version.0))))
                }
                Some(_) => (false, *state),
            },
            (Operation::Put { value, .. }, _) | (Operation::PutIfAbsent { value, .. }, None) => {
                (stored, Some((*value, version)))
            }
            (Operation::PutIfAbsent { .. }, Some(_)) => (is(Outcome::Exists), *state),
            (Operation::CompareExchange { expected, value, .. }, Some(record)) if stored => {
                let applies = has(record, *expected);
                (applies || lost, if applies { Some((*value, version)) } else { *state })
            }
            (Operation::CompareExchange { expected, .. }, record) => {
                let matches = record.and_then(|(_, held)| held) == Some(expected.0);
                (is(Outcome::Mismatch) && !matches, *state)
            }
            (Operation::FetchAdd { delta }, record) => {
                let before = record.map_or(0, |(value, _)| value);
                let fits =
                    lost || matches!(outcome, Some(Outcome::Added { previous, .. }) if *previous == before);
                (fits, Some((before + delta, version)))
            }
            (Operation::Delete, record) => {
                let exact = if record.is_some() { Outcome::Deleted } else { Outcome::NotFound };
                (is(exact) || is(Outcome::Absent), None)
            }
        }
    }
}

/// What the outcomes of a history tell of its versions; `None` if they contradict each other.
fn version_names(entries: &[Entry<u64>]) -> Option<HashMap<Version, Names>> {
    let mut published: HashMap<Version, u64> = HashMap::new();
    let mut found: HashMap<Version, u64> = HashMap::new();
    let mut exchanged: HashSet<Version> = HashSet::new();
    for entry in entries {
        let Response::Done(outcome) = &entry.response else { continue };
        if let Outcome::Found { value, version: Some(version) } = outcome
            && found.insert(*version, *value).is_some_and(|other| other != *value)
        {
            return None;
        }
        if let (Operation::CompareExchange { expected, .. }, Outcome::Stored { .. }) =
            (&entry.operation, outcome)
            && !exchanged.insert(*expected)
        {
            return None;
        }
        let value = match (&entry.operation, outcome) {
            (Operation::FetchAdd { delta }, Outcome::Added { previous, .. }) => previous + delta,
            (operation, _) => operation.value().copied().unwrap_or(0),
        };
        if let Some(version) = outcome.published()
            && published.insert(version, value).is_some()
        {
            return None;
        }
    }
    if published.iter().any(|(version, value)| found.get(version).is_some_and(|other| other != value)) {
        return None;
    }
    let mut names: HashMap<Version, Names> =
        found.into_iter().map(|(version, value)| (version, Names::Only(value))).collect();
    names.extend(published.into_keys().map(|version| (version, Names::None)));
    Some(names)
}

/// The verdict of `todc-utils`. It has no notion of time, so values must not expire; and as its states hold no
/// names of publications, a version that nobody reported may name several with one value.
pub(crate) fn todc_accepts(entries: &[Entry<u64>]) -> bool {
    let Some(names) = version_names(entries) else { return false };
    worlds(entries).iter().any(|world| {
        let told = |effect: &Effect| {
            let needed = match (&effect.operation, &effect.outcome) {
                (_, Some(Outcome::Found { version, .. })) => *version,
                (Operation::CompareExchange { expected, .. }, _) => Some(*expected),
                _ => None,
            };
            let names = needed.and_then(|version| names.get(&version)).copied().unwrap_or(Names::Any);
            (effect.operation.clone(), effect.outcome.clone(), names)
        };
        let mut events: Vec<(Time, bool, usize)> = Vec::new();
        for (process, effect) in world.iter().enumerate() {
            events.push((effect.called_at, false, process));
            events.push((effect.responded_at, true, process));
        }
        events.sort_unstable();
        let actions: Vec<_> = events
            .into_iter()
            .map(|(_, is_response, process)| {
                let told = told(&world[process]);
                (process, if is_response { Action::Response(told) } else { Action::Call(told) })
            })
            .collect();
        // `todc-utils` has no empty history.
        actions.is_empty() || WGLChecker::<KeySpecification>::is_linearizable(History::from_actions(actions))
    })
}
