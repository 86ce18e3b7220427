//! What a plan gets to work with: one operation's way to the shard of its key.

use crate::task::{Attempt, Outcome};
use farside_hashtable::duties::Duties;
use farside_hashtable::hints::{Hint, Hints};
use farside_hashtable::plan::{Op, Table};
use farside_protocol::{Class, Life};
use farside_transport::{Fabric, LaneIo};

use super::leases::{Leases, Refusal};
use super::one_sided::Shard;
use std::time::Duration;

/// How long the other cores of a session that has too many blocks are given to give some back.
const TOO_MANY_PAUSE: Duration = Duration::from_millis(2);

pub(crate) struct Way<'a, F: Fabric> {
    pub(crate) io: LaneIo<'a, F>,
    pub(crate) op: Op<'a>,
    pub(crate) table: &'a Table,
    pub(crate) duties: &'a mut Duties,
    leases: &'a mut Leases,
    hints: &'a mut Hints,
    reads: bool,
    updates: bool,
    /// What is remembered of the key.
    pub(crate) hint: Option<Hint>,
    /// How often the core has taken in leases.
    taken_in: u64,
    /// Blocks to ask the server for, of which class.
    pub(super) wanted: Option<(Class, u16)>,
}

/// What a plan gets of it.
pub(crate) struct Steps<'p, I> {
    pub(crate) io: &'p mut I,
    pub(crate) table: &'p Table,
    pub(crate) op: &'p Op<'p>,
    pub(crate) hint: Option<Hint>,
    pub(crate) duties: &'p mut Duties,
    /// Whether changes of this shard are one-sided.
    pub(crate) updates: bool,
}

impl<'a, F: Fabric> Way<'a, F> {
    /// The way of `op` in `shard`, of whose key `hint` is remembered.
    #[inline(always)]
    pub(super) fn new(
        io: LaneIo<'a, F>,
        op: Op<'a>,
        hint: Option<Hint>,
        shard: &'a mut Shard,
        hints: &'a mut Hints,
        reads: bool,
        taken_in: u64,
    ) -> Self {
        let Shard { table, updates, duties, leases } = shard;
        Self { io, op, table, duties, leases, hints, reads, updates: *updates, hint, taken_in, wanted: None }
    }

    /// What a plan gets.
    #[inline]
    pub(crate) fn steps(&mut self) -> Steps<'_, LaneIo<'a, F>> {
        let Self { io, table, op, hint, duties, updates, .. } = self;
        Steps { io, table, op, hint: *hint, duties, updates: *updates }
    }

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
