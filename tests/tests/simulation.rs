//! The simulator over many seeds. What it checks, and what it does not: `docs/testing.md`.

use farside_tests::simulator::{Death, Setup, Tally, Theme, accesses, explain, hunt, run};

/// Seeds of each theme in an ordinary run.
const SEEDS: u64 = 1500;

/// Counts that so many seeds need not reach: an insertion that is disturbed eight times over is rare.
const RARE: [&str; 1] = ["contended"];

/// What only runs with a restart come across.
const RECOVERED: &str = "recovered";

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is `{text}`; it must be a number")))
}

fn run_seeds(theme: Theme) -> Tally {
    let from = number("FARSIDE_SIM_FROM").unwrap_or(0);
    let seeds = number("FARSIDE_SIM_SEEDS").unwrap_or(SEEDS);
    hunt(theme, from..from + seeds, |_| ()).unwrap_or_else(|found| panic!("{found}"))
}

/// Every promise holds in every run; and the runs come across everything that they are for.
#[test]
fn mixed_runs_keep_every_promise() {
    let tally = run_seeds(Theme::Mixed);
    for (name, count) in tally.counts() {
        println!("{name:24} {count}");
    }
    if number("FARSIDE_SIM_SEEDS").is_none_or(|seeds| seeds >= SEEDS) {
        let unreached = tally
            .counts()
            .into_iter()
            .filter(|(name, count)| *count == 0 && !RARE.contains(name) && !name.starts_with(RECOVERED));
        assert_eq!(unreached.collect::<Vec<_>>(), [], "the simulator no longer gets there");
    }
}

/// Whatever was acknowledged is there after a restart, and nothing else that was not asked for.
#[test]
fn restarts_keep_every_promise() {
    let tally = run_seeds(Theme::Restart);
    if number("FARSIDE_SIM_SEEDS").is_none_or(|seeds| seeds >= SEEDS) {
        let of_recovery = tally.counts().into_iter().filter(|(name, _)| name.starts_with(RECOVERED));
        assert_eq!(of_recovery.filter(|(_, count)| *count == 0).collect::<Vec<_>>(), []);
    }
}

/// Everybody ends at each step in turn, with everything before it as it would be without.
#[test]
fn everybody_may_end_at_any_step() {
    for seed in 0..3 {
        let mut whole = Setup::about(Theme::Restart, seed);
        whole.restart_at = Some(u64::MAX);
        let last = run(&whole).unwrap_or_else(|failed| panic!("{failed}")).steps;
        for at in 0..last.min(3000) {
            let mut setup = whole.clone();
            setup.restart_at = Some(at);
            if run(&setup).is_err() {
                let failed = explain(&setup).expect_err("a run is the same every time");
                panic!("{setup}\n{failed}\nthis was seed {seed} with an end at step {at}");
            }
        }
    }
}

#[test]
fn recycling_runs_keep_every_promise() {
    run_seeds(Theme::Recycling);
}

#[test]
fn rot_never_reaches_a_caller() {
    run_seeds(Theme::Rot);
}

/// A client dies, or is evicted, at each of its accesses, with everything else as it would be without.
#[test]
fn a_client_may_die_at_any_step() {
    for seed in 0..8 {
        let setup = Setup::about(Theme::Mixed, seed);
        let last = accesses(&setup, 0).unwrap_or_else(|failed| panic!("{failed}"));
        for (after, evicted) in (0..=last).flat_map(|after| [(after, false), (after, true)]) {
            let death = Some(Death { client: 0, after, evicted, silences: after % 2 == 1 });
            let mut setup = setup.clone();
            setup.death = death;
            if run(&setup).is_err() {
                let failed = explain(&setup).expect_err("a run is the same every time");
                panic!("{setup}\n{failed}\nthis was seed {seed} with {death:?}");
            }
        }
    }
}

#[test]
fn a_seed_is_the_same_run_every_time() {
    for seed in 0..20 {
        let setup = Setup::about(Theme::Mixed, seed);
        let [first, second] = [(); 2].map(|()| run(&setup).unwrap_or_else(|failed| panic!("{failed}")));
        assert_eq!(first, second);
    }
}

/// Runs the seed that `FARSIDE_SIM_SEED` names, and tells of it; without it there is nothing to replay.
#[test]
fn replay() {
    let Some(seed) = number("FARSIDE_SIM_SEED") else { return };
    let name = std::env::var("FARSIDE_SIM_THEME").unwrap_or_else(|_| Theme::Mixed.to_string());
    let theme = Theme::named(&name).unwrap_or_else(|| {
        panic!(
            "FARSIDE_SIM_THEME is `{name}`; it must be one of {}",
            Theme::ALL.map(|theme| theme.to_string()).join(", ")
        )
    });
    let setup = Setup::about(theme, seed);
    println!("{setup}");
    match explain(&setup) {
        Ok(tally) => println!("nothing is wrong with it: {tally:?}"),
        Err(failed) => panic!("{failed}"),
    }
}
