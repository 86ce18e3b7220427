//! Deliberate mistakes in the protocol, for the tests that show they would be found.
//!
//! Without the feature `mutations`, which only the test suite asks for, [`is`] is the constant `false` and every
//! mistake is compiled away. With it one mistake at a time can be switched on in the running process.

/// A deliberate mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Mutation {
    /// A record's END does not name the life of its block: a stale hint can hit another record.
    EndWithoutLife = 1,
    /// INSERT does not kill the tentative words of its own key that it meets in its check.
    NoKill,
    /// INSERT commits without looking at its window a second time.
    NoCheck,
    /// A blind PUT counts itself absorbed also when a conditional operation took effect.
    AbsorbNextToCompareExchange,
    /// A blind PUT counts itself absorbed by a record that it did not verify in this operation.
    AbsorbUnverified,
    /// A record is retired when it is superseded, while the slot still leads to it.
    RetireAtTheLink,
    /// Whoever tries to move a slot retires the records it skips, also if another won.
    RetireWithoutWinning,
    /// A bring-forward skips records without retiring them.
    ForwardWithoutRetire,
    /// DELETE empties the slot and leaves the link.
    DeleteAtTheSlot,
    /// DELETE reports success also when another superseded the record first.
    DeleteAbsorbed,
    /// What was read is trusted however long the operation took (rule T2).
    NoReadDeadline,
    /// GET takes a record through a tentative word for committed.
    ReadTentative,
    /// A record's checksum is not compared.
    NoChecksum,
    /// The key in a record is not compared.
    NoKeyCompare,
    /// The end of a chain is not looked for: the record in the slot is taken as current.
    IgnoreNext,
    /// INSERT ignores a live record of its key that appeared elsewhere meanwhile.
    InsertBesideLive,
    /// Slot words and `NEXT` links are acted upon however old the evidence for them is (rules T4 and T7).
    OldEvidence,
    /// A compare-and-swap whose completion was lost is judged while it may still execute (rule T5).
    NoFence,
    /// A restarted server counts the leases of free blocks from 1 again (rule T3).
    ForgetCounts,
    /// A restarted server takes an insertion that was not decided for a key.
    RecoverTentative,
    /// A restarted server takes the record in a slot for the key's current one, and frees its successors.
    RecoverAtTheSlot,
}

/// Whether `mutation` is switched on.
#[cfg(not(feature = "mutations"))]
#[inline(always)]
pub const fn is(_mutation: Mutation) -> bool {
    false
}

#[cfg(feature = "mutations")]
mod switch {
    use super::Mutation;
    use core::sync::atomic::{AtomicU32, Ordering};

    static ACTIVE: AtomicU32 = AtomicU32::new(0);

    /// Whether `mutation` is switched on.
    pub fn is(mutation: Mutation) -> bool {
        ACTIVE.load(Ordering::Relaxed) == mutation as u32
    }

    /// Switches `mutation` on and all others off, in the whole process.
    pub fn set(mutation: Option<Mutation>) {
        ACTIVE.store(mutation.map_or(0, |mutation| mutation as u32), Ordering::Relaxed);
    }
}

#[cfg(feature = "mutations")]
pub use switch::{is, set};
