//! The checker's effort on long histories of one busy key, all clients having an operation open all the time.
//!
//! Configurations are counted and bounded, since they are the same on every machine; times are printed.

use std::time::Instant;

use farside_tests::history::{Entry, Response};
use farside_tests::linearizability::{Failure, check_key};
use farside_tests::operation::{Operation, Outcome};

use crate::register::{Register, Workload};

const OPERATIONS: usize = 10_000;
const CLIENTS: u32 = 16;
const SEED: u64 = 7;

/// Checks a linearizable history within `each_max` configurations for each of its operations.
fn assert_checked(what: &str, entries: &[Entry<u64>], each_max: usize) {
    let start = Instant::now();
    let linearization = check_key(entries).unwrap_or_else(|failure| panic!("{what}: {failure}"));
    let elapsed = start.elapsed();
    let each = linearization.configurations / entries.len();
    println!("{what}: {} operations, {elapsed:.2?}, {each} configurations for each", entries.len());
    assert!(each <= each_max, "{what}: {each} configurations for each operation");
}

#[test]
fn with_every_outcome_known() {
    let entries = Register::history(SEED, Workload::certain(CLIENTS, OPERATIONS));
    assert_checked("every outcome known", &entries, 40);
}

#[test]
fn with_few_reads() {
    let workload = Workload { reads: 10, ..Workload::certain(CLIENTS, OPERATIONS) };
    assert_checked("one read in ten", &Register::history(SEED, workload), 120);
}

#[test]
fn with_few_values_and_no_versions() {
    let workload =
        Workload { unique_values: false, unreported: 100, ..Workload::certain(CLIENTS, OPERATIONS) };
    assert_checked("few values, no versions", &Register::history(SEED, workload), 60);
}

#[test]
fn with_everything_at_once_and_a_hundredth_of_the_responses_lost() {
    let workload = Workload { lost: 1, ..Workload::hostile(CLIENTS, OPERATIONS) };
    assert_checked("everything at once", &Register::history(SEED, workload), 300);
}

/// An indeterminate operation stays open for ever; the effort may grow in proportion to them, not by powers.
#[test]
fn with_ever_more_responses_lost() {
    for lost in [0, 1, 2, 4] {
        let entries = Register::history(SEED, Workload { lost, ..Workload::hostile(CLIENTS, 4_000) });
        let indeterminate = entries.iter().filter(|entry| entry.response == Response::Indeterminate).count();
        assert_checked(&format!("{indeterminate} responses lost"), &entries, 50 + 4 * indeterminate);
    }
}

#[test]
fn with_an_error_at_the_end() {
    let mut register = Register::new(SEED, Workload::certain(CLIENTS, 0));
    register.run(OPERATIONS);
    let (old, new) = (register.fresh_value(), register.fresh_value());
    register.execute(Operation::Put { value: old, expires_at: None });
    register.execute(Operation::Put { value: new, expires_at: None });
    register.report(Operation::Get, Outcome::Found { value: old, version: None });
    register.drain();
    let start = Instant::now();
    let failure = check_key(&register.entries).expect_err("the read is stale");
    println!("a stale read after {OPERATIONS} operations: {:.2?}\n{failure}", start.elapsed());
    assert!(matches!(failure, Failure::NotLinearizable(_)));
}
