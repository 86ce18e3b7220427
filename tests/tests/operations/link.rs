//! A link between the RDMA devices of clients and server that delays and loses packets, and goes down.

use crate::concurrent::{record_callers, show};
use crate::target::{TCP, VERBS, config, rdma_devices};
use farside::server::Config;
use farside::{Client, Embedded};
use farside_tests::linearizability::check;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The command that makes the link `well`, `lossy` or `down`.
const LINK_VARIABLE: &str = "FARSIDE_TEST_LINK";

const PHASE: Duration = Duration::from_secs(2);
/// What is not as it was by then will not be.
const RECOVERY_MAX: Duration = Duration::from_secs(90);
/// On a busy machine soft-RoCE of Linux 6.1 sometimes takes nothing in after its link came back, until that goes down and
/// comes back once more.
const DEAF: Duration = Duration::from_secs(20);

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn what_clients_over_a_bad_link_are_told_is_linearizable_and_they_recover() {
    let Ok(command) = std::env::var(LINK_VARIABLE) else {
        eprintln!("SKIPPED a bad link: {LINK_VARIABLE} names no command that makes it one");
        return;
    };
    let make_it = |state: &str| {
        assert!(Command::new(&command).arg(state).status().unwrap().success(), "{command} {state}");
    };
    for device in rdma_devices("a bad link") {
        // TCP goes over the link too.
        let config = Config { listen: (device, 0).into(), insecure: true, ..config(Some(device)) };
        let farside = Embedded::start(config, Client::builder()).unwrap();
        let (calls, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let goes_on = |_| {
            calls.fetch_add(1, Ordering::Relaxed);
            !is_over.load(Ordering::Relaxed)
        };
        let calls_in_a_phase = || {
            let before = calls.load(Ordering::Relaxed);
            thread::sleep(PHASE);
            calls.load(Ordering::Relaxed) - before
        };
        let history = thread::scope(|scope| {
            // An assertion that fails in here ends the callers too, for whom the scope waits.
            let _end = SetOnDrop(&is_over);
            let callers =
                scope.spawn(|| record_callers(&farside, &[VERBS, VERBS, VERBS, TCP], &[VERBS], goes_on));
            while calls.load(Ordering::Relaxed) < 100 {
                assert!(!callers.is_finished(), "the callers have begun");
                thread::sleep(Duration::from_millis(10));
            }
            let well = calls_in_a_phase();
            for bad in ["lossy", "down", "lossy", "down"] {
                make_it(bad);
                let meanwhile = calls_in_a_phase();
                println!("well {well}, {bad} {meanwhile}");
                assert!(
                    bad == "lossy" || meanwhile < well / 4,
                    "is this the link? {meanwhile} of {well} calls"
                );
                make_it("well");
                let (patience, mut deaf) = (Instant::now() + RECOVERY_MAX, Instant::now() + DEAF);
                while calls_in_a_phase() < well / 4 {
                    assert!(Instant::now() < patience, "throughput does not come back");
                    if Instant::now() > deaf {
                        println!("after {bad} the link is not heard of: down and up again");
                        make_it("down");
                        make_it("well");
                        deaf = Instant::now() + DEAF;
                    }
                }
            }
            is_over.store(true, Ordering::Relaxed);
            callers.join().unwrap()
        });
        show(&history);
        check(&history).unwrap_or_else(|failure| panic!("{failure}"));
    }
}
