//! How badly the fabric of a simulation behaves.

use super::Rng;
use crate::capabilities::Denied;

/// What the fabric does to those who use it. `one_in` fields are odds; 0 is never.
///
/// Each seed should draw its own ([`Conduct::drawn`]): a run in which everything goes wrong at once rarely gets far
/// enough to meet what a single fault brings about (swarm testing, Groce et al., 2012).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conduct {
    /// READs and WRITEs go in up to four pieces, each executed at its own time, else whole.
    pub tear: bool,
    /// The pieces go in any order.
    pub reorder: bool,
    /// A READ's word may be joined from bytes of two moments.
    pub split_words: bool,
    /// An access is held back while others go on.
    pub hold_one_in: u32,
    /// A compare-and-swap is held back: it is where a long wait between looking and acting matters most.
    pub hold_cas_one_in: u32,
    /// How long at most, steps.
    pub hold_steps_max: u64,
    /// The same client's chains are preferred for about so many steps; 0: all are equal.
    pub burst_steps: u32,
    /// A chain's completion is an error, after any prefix of its accesses.
    pub fail_one_in: u32,
    /// A chain never completes, after any prefix of its accesses.
    pub silence_one_in: u32,
    /// The accesses of a chain that failed, fell silent or was abandoned may still execute, until the fence.
    pub late: bool,
    /// A fence cannot be had.
    pub fence_fails_one_in: u32,
    /// Longest time a step takes, nanoseconds, at least 1.
    pub step_ns_max: u64,
    /// Longest time that passes in a step besides if there is nothing to execute.
    pub idle_ns_max: u64,
    /// Time leaps.
    pub leap_one_in: u32,
    /// How far at most, nanoseconds.
    pub leap_ns_max: u64,
    /// The tick of the clock that all users share, nanoseconds, at least 1: it shows multiples of it.
    pub tick_ns: u64,
    /// Capabilities taken away.
    pub denied: Denied,
}

impl Conduct {
    /// Every access whole, in order, and successful.
    pub const CALM: Self = Self {
        tear: false,
        reorder: false,
        split_words: false,
        hold_one_in: 0,
        hold_cas_one_in: 0,
        hold_steps_max: 0,
        burst_steps: 0,
        fail_one_in: 0,
        silence_one_in: 0,
        late: false,
        fence_fails_one_in: 0,
        step_ns_max: 100,
        idle_ns_max: 1000,
        leap_one_in: 0,
        leap_ns_max: 0,
        tick_ns: 1,
        denied: Denied { atomic: false, write: false, read: false, order: false },
    };

    /// A conduct drawn from `rng` for a table with this quarantine, with about half of the misdeeds in it.
    pub fn drawn(rng: &mut Rng, quarantine_ns: u64) -> Self {
        let faulty = rng.one_in(3);
        Self {
            tear: !rng.one_in(4),
            reorder: rng.one_in(2),
            split_words: rng.one_in(4),
            hold_one_in: rng.pick(&[0, 0, 8, 32]),
            hold_cas_one_in: rng.pick(&[0, 2, 8]),
            hold_steps_max: rng.pick(&[20, 100, 500, 2000]),
            burst_steps: rng.pick(&[0, 0, 10, 50]),
            fail_one_in: if faulty { rng.pick(&[0, 20, 100]) } else { 0 },
            silence_one_in: if faulty { rng.pick(&[0, 50, 200]) } else { 0 },
            late: rng.one_in(2),
            fence_fails_one_in: if faulty { rng.pick(&[0, 0, 8]) } else { 0 },
            step_ns_max: quarantine_ns / rng.pick(&[40, 200, 2000]),
            idle_ns_max: quarantine_ns / 10,
            leap_one_in: rng.pick(&[0, 0, 50, 300]),
            leap_ns_max: quarantine_ns * rng.pick(&[1, 3, 40]),
            tick_ns: rng.pick(&[1, 1, quarantine_ns / 7]),
            denied: Denied { order: rng.one_in(8), ..Denied::default() },
        }
    }

    /// Whether a chain can end without its answer.
    pub const fn is_faulty(&self) -> bool {
        self.fail_one_in != 0 || self.silence_one_in != 0
    }
}
