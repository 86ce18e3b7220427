//! What runs came across: whether the simulator reaches what it is for.

use std::ops::AddAssign;

macro_rules! tally {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// Counts of what happened in a run, or in many.
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        pub struct Tally {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl AddAssign for Tally {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)*
            }
        }

        impl Tally {
            /// All counts with their names.
            pub fn counts(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($field), self.$field),)*]
            }
        }
    };
}

tally! {
    /// Steps of the world.
    steps,
    /// Operations that were answered.
    answered,
    /// GETs that found a value.
    found,
    /// Values stored, with a version.
    stored,
    /// Blind PUTs that others took effect over.
    absorbed,
    /// Conditional operations that were refused.
    refused,
    /// Keys deleted.
    deleted,
    /// Additions.
    added,
    /// Operations that ended without effect by their deadline.
    late,
    /// Operations whose effect is unknown.
    indeterminate,
    /// Operations that found too many others at their key.
    contended,
    /// Operations that found no slot.
    full,
    /// Operations that found no block.
    starved,
    /// Operations that were dropped.
    cancelled,
    /// Clients that died.
    died,
    /// Slots brought forward by clients.
    forwarded,
    /// Sweeps that saw all.
    swept,
    /// Slots brought forward by sweeps.
    swept_forward,
    /// Keys that had expired, deleted by sweeps.
    swept_expired,
    /// Blocks found lost by sweeps.
    swept_lost,
    /// Blocks of ended sessions that were in use.
    reclaimed_reachable,
    /// Blocks of ended sessions that were not.
    reclaimed_unreachable,
    /// Times that all tags came round.
    wrapped,
    /// Keys that were there after a restart.
    recovered_keys,
    /// Of these, keys whose slot lagged behind.
    recovered_lagging,
    /// Slots of deleted keys that a restart emptied.
    recovered_dead,
    /// Undecided insertions that a restart dropped.
    recovered_tentative,
}
