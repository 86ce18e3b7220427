//! What a plan gets to work with: one operation's way to the shard of its key.

use crate::task::{Attempt, Outcome};
use farside_hashtable::duties::Duties;
use farside_hashtable::hints::{Hint, Hints};
use farside_hashtable::plan::{Op, Table};
use farside_protocol::{Class, Life};
use farside_transport::{Fabric, LaneIo};

use super::leases::{Leases, Refusal};
use std::time::Duration;

/// How long the other cores of a session that has too many blocks are given to give some back.
const TOO_MANY_PAUSE: Duration = Duration::from_millis(2);

pub(crate) struct Way<'a, F: Fabric> {
    pub(crate) io: LaneIo<'a, F>,
    pub(crate) op: Op<'a>,
    pub(crate) table: &'a Table,
    pub(crate) duties: &'a mut Duties,
    pub(super) leases: &'a mut Leases,
    pub(super) hints: &'a mut Hints,
    pub(super) reads: bool,
    pub(super) updates: bool,
    /// What is remembered of the key.
    pub(crate) hint: Option<Hint>,
    /// How often the core has taken in leases.
    pub(super) taken_in: u64,
    /// Blocks to ask the server for, of which class.
    pub(super) wanted: Option<(Class, u16)>,
}

impl<F: Fabric> Way<'_, F> {
    /// Remembers where the key's record is.
    #[inline]
    pub(crate) fn remember(&mut self, hint: Hint) {
        self.hints.put(self.op.hash, hint);
    }

    /// Forgets the key.
    #[inline]
    pub(crate) fn forget(&mut self) {
        self.hints.remove(self.op.hash);
    }

    /// A block for a record of `class`, or what has to happen before there is one.
    #[inline]
    pub(crate) fn lease<T>(&mut self, class: Class, outcome: &mut Outcome<T>) -> Result<Life, Attempt> {
        if !self.updates {
            return Err(Attempt::TwoSided);
        }
        let lease = self.leases.take(class);
        if !matches!(lease, Err(Some(_))) {
            self.wanted = self.leases.wanted(class).map(|count| (class, count));
        }
        lease.map_err(|refusal| match refusal {
            None => Attempt::Lease(self.taken_in),
            Some(Refusal::Later(time)) => Attempt::Later(time),
            Some(Refusal::TooMany) => Attempt::Later(TOO_MANY_PAUSE),
            Some(Refusal::Full) => Attempt::TwoSided,
            Some(Refusal::Failed(error)) => outcome.fail(error),
        })
    }

    /// Puts back a block that was not spent.
    #[inline]
    pub(crate) fn put_back(&mut self, class: Class, lease: Life) {
        self.leases.put_back(class, lease);
    }

    /// Whether lookups are one-sided.
    #[inline]
    pub(crate) fn reads(&self) -> bool {
        self.reads
    }

    /// Whether changes of this shard are one-sided.
    #[inline]
    pub(crate) fn updates(&self) -> bool {
        self.updates
    }
}
