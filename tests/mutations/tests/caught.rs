//! It can fail: each deliberate mistake in protocol, reclamation and fences is found by the simulator within a budget of
//! seeds, and without any of them nothing is.
//!
//! ```text
//! cargo test -p farside-mutations -- --nocapture     prints the table
//! ```

use farside_protocol::mutation::{self, Mutation};
use farside_tests::simulator::{Setup, Theme, run};
use std::time::Instant;

/// Seeds after which a mistake counts as not found.
const BUDGET: u64 = 6_000;
/// Seeds of the control, which makes no mistake.
const CONTROL: u64 = 1_000;

/// A mistake, made by the plans or by the server.
enum Mistake {
    Plan(Mutation),
    /// The server leases retired blocks at once.
    NoQuarantine,
    /// The server reuses a dead session's blocks while its posted work may still execute.
    NoServerFence,
}

impl Mistake {
    fn name(&self) -> String {
        match self {
            Self::Plan(mutation) => format!("{mutation:?}"),
            Self::NoQuarantine => "NoQuarantine".into(),
            Self::NoServerFence => "NoServerFence".into(),
        }
    }

    /// What the first seed that finds it found.
    fn find(&self, theme: Theme) -> Option<(u64, String)> {
        mutation::set(match self {
            Self::Plan(mutation) => Some(*mutation),
            Self::NoQuarantine | Self::NoServerFence => None,
        });
        let found = (0..BUDGET).find_map(|seed| {
            let mut setup = Setup::about(theme, seed);
            match self {
                Self::Plan(_) => {}
                Self::NoQuarantine => setup.break_quarantine(),
                Self::NoServerFence => setup.break_fence(),
            }
            run(&setup).err().map(|failed| (seed, failed.breach.to_string()))
        });
        mutation::set(None);
        found
    }
}

/// One test, for a mistake is made by the whole process.
#[test]
fn every_deliberate_mistake_is_found() {
    use Mutation::*;
    let mixed = [
        EndWithoutLife,
        NoKill,
        NoCheck,
        AbsorbNextToCompareExchange,
        AbsorbUnverified,
        RetireAtTheLink,
        RetireWithoutWinning,
        ForwardWithoutRetire,
        DeleteAtTheSlot,
        DeleteAbsorbed,
        ReadTentative,
        NoKeyCompare,
        IgnoreNext,
        InsertBesideLive,
        OldEvidence,
        NoFence,
    ];
    let mistakes = mixed.map(|mutation| (Mistake::Plan(mutation), Theme::Mixed)).into_iter().chain([
        (Mistake::NoServerFence, Theme::Mixed),
        // These two take a block that is used again while somebody looks at it.
        (Mistake::Plan(NoReadDeadline), Theme::Recycling),
        (Mistake::NoQuarantine, Theme::Recycling),
        (Mistake::Plan(NoChecksum), Theme::Rot),
        (Mistake::Plan(ForgetCounts), Theme::Restart),
        (Mistake::Plan(RecoverTentative), Theme::Restart),
        (Mistake::Plan(RecoverAtTheSlot), Theme::Restart),
    ]);

    for theme in Theme::ALL {
        for seed in 0..CONTROL {
            if let Err(failed) = run(&Setup::about(theme, seed)) {
                panic!("without any mistake, seed {seed} of {theme:?} found: {failed}");
            }
        }
    }
    let mut missed = Vec::new();
    println!("{:28} {:9} {:>5} {:>8}  found", "mistake", "theme", "seed", "time");
    for (mistake, theme) in mistakes {
        let (name, began) = (mistake.name(), Instant::now());
        match mistake.find(theme) {
            Some((seed, breach)) => {
                let breach = breach.lines().next().unwrap_or_default();
                println!(
                    "{name:28} {:9} {seed:5} {:6.1} s  {breach}",
                    format!("{theme:?}"),
                    began.elapsed().as_secs_f64()
                );
            }
            None => missed.push(name),
        }
    }
    assert!(missed.is_empty(), "not found within {BUDGET} seeds: {missed:?}");
}
