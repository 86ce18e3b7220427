//! Running many seeds.

use super::{Failed, Setup, Tally, Theme, explain, run};
use std::fmt;
use std::ops::Range;

/// The first seed of a range whose run went wrong.
#[derive(Clone, Debug)]
pub struct Found {
    /// What the run was about.
    pub theme: Theme,
    /// Its seed.
    pub seed: u64,
    /// What the seed made of it.
    pub setup: Setup,
    /// What was found, with the events that led to it.
    pub failed: Failed,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { theme, seed, setup, failed } = self;
        write!(
            f,
            "{setup}\n{failed}\nthis was seed {seed} of {theme}; to run it again:\n    {}",
            replay(*theme, *seed)
        )
    }
}

/// The command that runs one seed again.
pub fn replay(theme: Theme, seed: u64) -> String {
    format!(
        "FARSIDE_SIM_THEME={theme} FARSIDE_SIM_SEED={seed} cargo test -p farside-tests --test simulation -- --nocapture replay"
    )
}

/// Runs the `seeds` of a theme, each after `change` had its way with it, to the first that goes wrong. That one is run
/// again with its events kept.
pub fn hunt(theme: Theme, seeds: Range<u64>, change: impl Fn(&mut Setup)) -> Result<Tally, Box<Found>> {
    let mut total = Tally::default();
    for seed in seeds {
        let mut setup = Setup::about(theme, seed);
        change(&mut setup);
        match run(&setup) {
            Ok(tally) => total += tally,
            Err(_) => {
                let failed = *explain(&setup).expect_err("a run is the same every time");
                return Err(Box::new(Found { theme, seed, setup, failed }));
            }
        }
    }
    Ok(total)
}
