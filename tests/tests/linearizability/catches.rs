//! Errors planted in the history of a linearizable register are caught, whatever else goes on.
//!
//! Each error is one that no other operation of the workload can excuse: either the values are used once in the
//! whole history, or nothing else is open and every outcome before is known.

use farside_tests::history::Response;
use farside_tests::linearizability::{Failure, Violation, check_key};
use farside_tests::operation::{Operation, Outcome, Version};
use proptest::prelude::*;

use crate::register::{Register, Workload};

const OPERATIONS_AROUND: usize = 60;

fn put(value: u64) -> Operation<u64> {
    Operation::Put { value, expires_at: None }
}

fn found(value: u64) -> Outcome<u64> {
    Outcome::Found { value, version: None }
}

fn version(outcome: &Outcome<u64>) -> Version {
    outcome.published().expect("a register alone reports its versions")
}

/// Plants an error in the middle of a run with other operations open around it, and returns why the checker
/// refuses the whole.
fn planted(seed: u64, error: impl FnOnce(&mut Register)) -> Violation<u64> {
    let workload = Workload { unreported: 0, ..Workload::hostile(6, 0) };
    violation(Register::new(seed, workload), error)
}

/// As [`planted`], with nothing open and nothing indeterminate: for errors that tell no value.
fn planted_in_silence(seed: u64, error: impl FnOnce(&mut Register)) -> Violation<u64> {
    violation(Register::new(seed, Workload::certain(6, 0)), |register| {
        register.drain();
        error(register);
    })
}

fn violation(mut register: Register, error: impl FnOnce(&mut Register)) -> Violation<u64> {
    register.run(OPERATIONS_AROUND);
    assert_eq!(check_key(&register.entries).err(), None, "the ground is not sound");
    error(&mut register);
    register.run(OPERATIONS_AROUND);
    register.drain();
    match check_key(&register.entries) {
        Err(Failure::NotLinearizable(violation)) => *violation,
        other => panic!("the planted error was not caught: {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_stale_read(seed: u64) {
        planted(seed, |register| {
            let (old, new) = (register.fresh_value(), register.fresh_value());
            register.execute(put(old));
            register.execute(put(new));
            register.report(Operation::Get, found(old));
        });
    }

    #[test]
    fn a_value_from_nowhere(seed: u64) {
        let violation = planted(seed, |register| {
            let never_stored = register.fresh_value();
            register.report(Operation::Get, found(never_stored));
        });
        prop_assert_eq!(violation.contradiction, vec![violation.misfit]);
    }

    #[test]
    fn a_read_that_came_before_its_write(seed: u64) {
        planted(seed, |register| {
            let value = register.fresh_value();
            register.report(Operation::Get, found(value));
            register.execute(put(value));
        });
    }

    #[test]
    fn a_lost_put(seed: u64) {
        planted(seed, |register| {
            let (old, new) = (register.fresh_value(), register.fresh_value());
            register.execute(put(old));
            register.report(put(new), Outcome::Stored { version: None });
            register.report(Operation::Get, found(old));
        });
    }

    #[test]
    fn a_lost_addition(seed: u64) {
        planted(seed, |register| {
            let start = register.fresh_value();
            register.execute(put(start));
            for _ in 0..2 {
                let outcome = Outcome::Added { previous: start, version: None };
                register.report(Operation::FetchAdd { delta: 1 }, outcome);
            }
        });
    }

    #[test]
    fn two_exchanges_of_one_version(seed: u64) {
        planted(seed, |register| {
            let start = register.fresh_value();
            let expected = version(&register.execute(put(start)));
            for _ in 0..2 {
                let value = register.fresh_value();
                let exchange = Operation::CompareExchange { expected, value, expires_at: None };
                register.report(exchange, Outcome::Stored { version: None });
            }
        });
    }

    #[test]
    fn an_exchange_of_an_old_version(seed: u64) {
        planted(seed, |register| {
            let (old, new, value) = (register.fresh_value(), register.fresh_value(), register.fresh_value());
            let expected = version(&register.execute(put(old)));
            register.execute(put(new));
            let exchange = Operation::CompareExchange { expected, value, expires_at: None };
            register.report(exchange, Outcome::Stored { version: None });
        });
    }

    #[test]
    fn a_mismatch_with_the_current_version(seed: u64) {
        planted_in_silence(seed, |register| {
            let (old, new) = (register.fresh_value(), register.fresh_value());
            let expected = version(&register.execute(put(old)));
            let exchange = Operation::CompareExchange { expected, value: new, expires_at: None };
            register.report(exchange, Outcome::Mismatch);
        });
    }

    #[test]
    fn a_value_back_from_the_dead(seed: u64) {
        planted(seed, |register| {
            let value = register.fresh_value();
            register.execute(put(value));
            register.execute(Operation::Delete);
            register.report(Operation::Get, found(value));
        });
    }

    #[test]
    fn reads_that_go_back(seed: u64) {
        planted(seed, |register| {
            let (one, other) = (register.fresh_value(), register.fresh_value());
            register.execute(put(one));
            register.execute(put(other));
            for value in [other, one, other] {
                register.report(Operation::Get, found(value));
            }
        });
    }

    #[test]
    fn two_deletes_of_one_value(seed: u64) {
        planted_in_silence(seed, |register| {
            let value = register.fresh_value();
            register.execute(put(value));
            register.execute(Operation::Delete);
            register.report(Operation::Delete, Outcome::Deleted);
        });
    }

    #[test]
    fn a_key_lost(seed: u64) {
        planted_in_silence(seed, |register| {
            let value = register.fresh_value();
            register.execute(put(value));
            register.report(Operation::Get, Outcome::NotFound);
        });
    }

    #[test]
    fn two_first_puts_if_absent(seed: u64) {
        planted_in_silence(seed, |register| {
            register.execute(Operation::Delete);
            for _ in 0..2 {
                let value = register.fresh_value();
                let operation = Operation::PutIfAbsent { value, expires_at: None };
                register.report(operation, Outcome::Stored { version: None });
            }
        });
    }

    #[test]
    fn an_expiry_ahead_of_time(seed: u64) {
        planted_in_silence(seed, |register| {
            let value = register.fresh_value();
            register.execute(Operation::Put { value, expires_at: Some(u64::MAX - 1) });
            register.report(Operation::Get, Outcome::NotFound);
        });
    }

    #[test]
    fn a_version_used_twice(seed: u64) {
        let mut register = Register::new(seed, Workload::certain(6, 0));
        register.run(OPERATIONS_AROUND);
        register.drain();
        let (one, other) = (register.fresh_value(), register.fresh_value());
        let reused = version(&register.execute(put(one)));
        register.execute(put(other));
        let last = register.entries.last_mut().expect("the put");
        last.response = Response::Done(Outcome::Stored { version: Some(reused) });
        let failure = check_key(&register.entries).expect_err("caught");
        let is_caught = matches!(failure, Failure::VersionReused { version, .. } if version == reused);
        prop_assert!(is_caught, "{}", failure);
    }
}
