//! The operations as plans, one file each. `DESIGN.md` has their states, linearization points and round trips.
//!
//! ```text
//! get ----------.                      .--> insert     a key that is absent
//! put ----------+--> lookup --> chain  |
//! delete -------+--------------------- +--> supersede  a key that is live
//! fetch_add ----'                      '--> forward    a slot that lags behind its chain
//! scan: the live keys of a run of slots, over the same parts
//! upkeep: the server's sweep and reclamation, over the same parts
//! recovery: what a server does that was started again on the memory of one that ended
//! ```
//!
//! Time: an operation's evidence is void once its quarantine has passed since the post of the first READ it rests
//! on (rule T2); every loop in here ends by the operation's deadline and pauses between its rounds.

mod chain;
mod delete;
mod fetch_add;
mod forward;
mod get;
mod insert;
mod lookup;
mod put;
mod recovery;
mod scan;
mod supersede;
pub mod upkeep;

pub use delete::{Delete, delete};
pub use fetch_add::{Added, fetch_add};
pub use forward::bring_forward;
pub use get::{Got, get, get_cold, get_warm};
pub use put::{Put, put};
pub use recovery::{Repaired, repair};
pub use scan::{Run, SCAN_RUN, Scanned, Taken};

use crate::hints::Hint;
use crate::io::Io;
use farside_protocol::limits::{EVIDENCE_QUARANTINES, HINT_QUARANTINES};
use farside_protocol::mutation::{self, Mutation};
use farside_protocol::{Class, Geometry, Key, KeyHash, Life, Superblock, TableSeed};

/// What plans know of the shard they work on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Table {
    /// The shard's measures.
    pub geometry: Geometry,
    /// The seed of its key hash.
    pub seed: TableSeed,
    /// Its quarantine, nanoseconds.
    pub quarantine_ns: u64,
}

impl Table {
    /// The table that `superblock` describes.
    pub const fn new(superblock: &Superblock) -> Self {
        Self {
            geometry: superblock.geometry,
            seed: superblock.seed,
            quarantine_ns: superblock.quarantine_ms * 1_000_000,
        }
    }

    /// Rule T2: whether what was read since `since_ns`, when the first READ was posted, may still be relied upon.
    #[inline]
    fn is_fresh<I: Io>(&self, io: &I, since_ns: u64) -> bool {
        io.now().saturating_sub(since_ns) <= self.quarantine_ns || mutation::is(Mutation::NoReadDeadline)
    }

    /// Rules T4 and T7: whether evidence of `since_ns` may still be acted upon with a word that has only a tag.
    #[inline]
    fn is_recent<I: Io>(&self, io: &I, since_ns: u64) -> bool {
        io.now().saturating_sub(since_ns) <= self.quarantine_ns * EVIDENCE_QUARANTINES
            || mutation::is(Mutation::OldEvidence)
    }

    /// Rule T7: whether `hint` may be used at all. Past that its record's place may lie inside a value of another
    /// size class, whose bytes may read as anything.
    #[inline]
    fn admits(&self, now_ns: u64, hint: &Hint) -> bool {
        now_ns.saturating_sub(hint.seen_ns) <= self.quarantine_ns * HINT_QUARANTINES
            || mutation::is(Mutation::OldEvidence)
    }
}

/// A block to write a record into, of any class that holds it: its size is in the locator, for those who read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    /// Its life.
    pub life: Life,
    /// Its class.
    pub class: Class,
}

/// On which key an operation works, and how long.
#[derive(Clone, Copy, Debug)]
pub struct Op<'a> {
    /// The key.
    pub key: Key<'a>,
    /// Its hash in this table.
    pub hash: KeyHash,
    /// When it began, before its first READ, nanoseconds of [`Io::now`].
    pub began_ns: u64,
    /// When the operation must have ended, nanoseconds of [`Io::now`].
    pub deadline_ns: u64,
}

impl<'a> Op<'a> {
    /// An operation on `key` from `began_ns` to `deadline_ns`.
    #[inline]
    pub fn new(table: &Table, key: Key<'a>, began_ns: u64, deadline_ns: u64) -> Self {
        Self { key, hash: KeyHash::of(key.as_bytes(), table.seed), began_ns, deadline_ns }
    }

    fn check_deadline<I: Io>(&self, io: &I) -> Result<(), Failure> {
        if io.now() < self.deadline_ns { Ok(()) } else { Err(Failure::Deadline) }
    }
}

/// Why an operation has no answer. Except after [`Failure::Indeterminate`] it had no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// The deadline passed.
    #[error("the deadline passed before the operation took effect")]
    Deadline,
    /// The connection was lost, and whether the operation took effect cannot be found out.
    #[error("the connection was lost and the operation may or may not have taken effect")]
    Indeterminate,
    /// All slots of the key's window are taken.
    #[error("all slots of the key's window are taken")]
    Full,
    /// The record does not verify, though its slot did not change while it was read again.
    #[error("the key's record is damaged")]
    Corrupt,
    /// Too many clients insert this key at once; the server, which works them off one by one, should be asked.
    #[error("too many clients insert this key at once")]
    Contended,
    /// fetch-add on a value that is no counter.
    #[error("the value is not a counter")]
    NotACounter,
    /// fetch-add past the range of an `i64`.
    #[error("the counter would leave the range of a signed 64-bit integer")]
    Overflow,
}
