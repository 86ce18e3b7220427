//! Histories of a linearizable register pass, and the order the checker gives for them is a proof.

use farside_tests::history::{Entry, Response};
use farside_tests::linearizability::check_key;
use farside_tests::model::KeyState;
use proptest::prelude::*;

use crate::register::{Register, Workload};

/// Executes `order` and compares every outcome; does not use anything of the checker.
fn assert_proves(entries: &[Entry<u64>], order: &[usize]) {
    let mut state = KeyState::default();
    let mut latest_call = 0;
    for &index in order {
        let entry = &entries[index];
        latest_call = latest_call.max(entry.called_at);
        match &entry.response {
            Response::Done(outcome) => {
                assert!(entry.responded_at >= latest_call, "{entry} comes after one called later");
                state = state
                    .accept(&entry.operation, outcome)
                    .unwrap_or_else(|| panic!("{entry} cannot find the key holding {state}"));
            }
            Response::Indeterminate => state = state.after_unobserved(&entry.operation),
            Response::Failed => panic!("{entry} had no effect"),
        }
    }
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), order.len(), "an operation took effect twice");
    for (index, entry) in entries.iter().enumerate() {
        let done = matches!(entry.response, Response::Done(_));
        assert!(!done || sorted.binary_search(&index).is_ok(), "{entry} is left out");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_linearizable_register(seed: u64, clients in 1_u32..12, operations in 0_usize..300, unique_values: bool) {
        let workload = Workload { unique_values, ..Workload::hostile(clients, operations) };
        let entries = Register::history(seed, workload);
        if let Err(failure) = check_key(&entries) {
            panic!("{failure}");
        }
    }

    #[test]
    fn with_an_order_that_proves_it(seed: u64, clients in 1_u32..12, operations in 0_usize..300) {
        // Which operations found a record expired is not part of an order, so none expires here.
        let workload = Workload { expiring: 0, ..Workload::hostile(clients, operations) };
        let entries = Register::history(seed, workload);
        match check_key(&entries) {
            Ok(linearization) => assert_proves(&entries, &linearization.order),
            Err(failure) => panic!("{failure}"),
        }
    }
}
