//! On small histories, right and wrong ones, the checker's verdict is that of two independent judges.

use farside_tests::history::{Entry, Response};
use farside_tests::linearizability::{Failure, check_key};
use farside_tests::operation::{Operation, Outcome, Time, Version};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::oracle::{permutations_accept, todc_accepts};
use crate::register::{NEVER_TOLD, Register, Workload};

const HISTORIES: u64 = 20_000;

/// Compares the checker with `judge` on many histories, enough of them of either kind.
fn assert_agrees(history: impl Fn(u64) -> Vec<Entry<u64>>, judge: impl Fn(&[Entry<u64>]) -> bool) {
    let mut linearizable = 0;
    for seed in 0..HISTORIES {
        let entries = history(seed);
        let verdict = check_key(&entries);
        assert!(
            !matches!(verdict, Err(Failure::Undecided { .. })),
            "seed {seed}: a small history is undecided"
        );
        let expected = judge(&entries);
        assert_eq!(verdict.is_ok(), expected, "seed {seed}: {}", listing(&entries));
        linearizable += u64::from(expected);
    }
    println!("{linearizable} of {HISTORIES} histories are linearizable");
    assert!((HISTORIES / 10..=HISTORIES * 9 / 10).contains(&linearizable), "lopsided: {linearizable}");
}

fn listing(entries: &[Entry<u64>]) -> String {
    entries.iter().map(|entry| format!("\n    {entry}")).collect()
}

/// A history of up to `operations`; most are corrupted.
fn small_history(seed: u64, workload: &Workload) -> Vec<Entry<u64>> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let workload = Workload {
        operations: rng.random_range(1..=workload.operations),
        lost: rng.random_range(0..40),
        unreported: rng.random_range(0..100),
        reads: rng.random_range(0..60),
        adding: rng.random_bool(0.5),
        ..workload.clone()
    };
    let mut entries = Register::history(seed, workload);
    for _ in 0..rng.random_range(0..6) {
        corrupt(&mut rng, &mut entries);
    }
    forget_guesses(&mut entries);
    entries
}

/// Makes every compare-exchange that expects a version nobody was told before fail: the checker answers for
/// callers that do not guess.
fn forget_guesses(entries: &mut [Entry<u64>]) {
    let told: Vec<(Time, Version)> = entries
        .iter()
        .filter_map(|entry| match &entry.response {
            Response::Done(Outcome::Found { version, .. }) => Some((entry.responded_at, (*version)?)),
            Response::Done(outcome) => Some((entry.responded_at, outcome.published()?)),
            _ => None,
        })
        .collect();
    for entry in entries {
        if let Operation::CompareExchange { expected, .. } = &mut entry.operation
            && !told.iter().any(|&(at, version)| version == *expected && at < entry.called_at)
        {
            *expected = NEVER_TOLD;
            if let Response::Done(outcome) = &mut entry.response {
                *outcome = Outcome::Mismatch;
            }
        }
    }
}

/// Ends an operation earlier, or replaces its outcome by another one it could have reported.
fn corrupt(rng: &mut SmallRng, entries: &mut [Entry<u64>]) {
    let told: Vec<(u64, Option<Version>)> = entries
        .iter()
        .filter_map(|entry| match &entry.response {
            Response::Done(Outcome::Found { value, version }) => Some((*value, *version)),
            Response::Done(outcome) => Some((*entry.operation.value()?, outcome.published())),
            _ => Some((*entry.operation.value()?, None)),
        })
        .collect();
    let index = rng.random_range(0..entries.len());
    let entry = &mut entries[index];
    let Response::Done(outcome) = &mut entry.response else { return };
    if rng.random_bool(0.3) {
        entry.responded_at = rng.random_range(entry.called_at..=entry.responded_at);
        return;
    }
    let (value, version) = if told.is_empty() { (0, None) } else { told[rng.random_range(0..told.len())] };
    let published = outcome.published();
    let outcomes = match entry.operation {
        Operation::Get => vec![
            Outcome::NotFound,
            Outcome::Found { value, version },
            Outcome::Found { value, version: None },
        ],
        Operation::Put { .. } => vec![Outcome::Stored { version: None }],
        Operation::PutIfAbsent { .. } => vec![Outcome::Exists, Outcome::Stored { version: published }],
        Operation::CompareExchange { .. } => {
            vec![Outcome::Mismatch, Outcome::Stored { version: published }]
        }
        Operation::FetchAdd { .. } => {
            let previous = value + rng.random_range(0..2);
            vec![Outcome::Added { previous, version: published }]
        }
        Operation::Delete => vec![Outcome::Deleted, Outcome::NotFound, Outcome::Absent],
    };
    *outcome = outcomes[rng.random_range(0..outcomes.len())].clone();
}

/// With few values operations get in each other's way more often.
#[test]
fn with_todc_on_few_values() {
    let workload = Workload { expiring: 0, unique_values: false, ..Workload::hostile(4, 10) };
    assert_agrees(|seed| small_history(seed, &workload), todc_accepts);
}

#[test]
fn with_todc_on_unique_values() {
    let workload = Workload { expiring: 0, ..Workload::hostile(4, 10) };
    assert_agrees(|seed| small_history(seed, &workload), todc_accepts);
}

#[test]
fn with_all_permutations_of_up_to_six_operations() {
    let workload = Workload { expiring: 0, ..Workload::hostile(4, 6) };
    assert_agrees(|seed| small_history(seed, &workload), permutations_accept);
}

#[test]
fn with_all_permutations_when_values_expire() {
    let workload = Workload { expiring: 60, ..Workload::hostile(3, 6) };
    assert_agrees(|seed| small_history(seed, &workload), permutations_accept);
}

/// Without versions, two publications of one value need not be told apart.
#[test]
fn with_all_permutations_of_few_values_without_versions() {
    let workload = Workload { expiring: 30, unique_values: false, ..Workload::hostile(4, 6) };
    let history = |seed| {
        let mut entries = small_history(seed, &workload);
        for entry in &mut entries {
            if let Response::Done(
                Outcome::Found { version, .. } | Outcome::Stored { version } | Outcome::Added { version, .. },
            ) = &mut entry.response
            {
                *version = None;
            }
        }
        entries.retain(|entry| !matches!(entry.operation, Operation::CompareExchange { .. }));
        entries
    };
    assert_agrees(history, permutations_accept);
}
