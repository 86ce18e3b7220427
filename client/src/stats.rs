//! What operations did on the fabric, counted: the figures that hold on any machine, where times do not.

use std::ops::{AddAssign, Index, IndexMut, Sub};

pub use farside_transport::Counts as FabricCounts;

/// The operations that are counted apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Operation {
    /// GET.
    Get,
    /// Unconditional PUT.
    Put,
    /// put-if-absent.
    PutIfAbsent,
    /// compare-exchange: PUT of a key with a certain version.
    CompareExchange,
    /// DELETE, with and without condition.
    Delete,
    /// fetch-add.
    FetchAdd,
    /// A page of a SCAN.
    Scan,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Get,
        Self::Put,
        Self::PutIfAbsent,
        Self::CompareExchange,
        Self::Delete,
        Self::FetchAdd,
        Self::Scan,
    ];

    /// Whether it changes the table.
    pub(crate) const fn is_update(self) -> bool {
        !matches!(self, Self::Get | Self::Scan)
    }

    /// The stable name in reports and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::PutIfAbsent => "put_if_absent",
            Self::CompareExchange => "compare_exchange",
            Self::Delete => "delete",
            Self::FetchAdd => "fetch_add",
            Self::Scan => "scan",
        }
    }
}

/// What one operation, or many, did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// One-sided steps on the fabric.
    pub fabric: FabricCounts,
    /// Requests to the server's CPU in place of one-sided steps.
    pub two_sided: u64,
    /// Operations that a hint served in one round trip.
    pub hint_hits: u64,
    /// One-sided operations that had no hint, or a stale one.
    pub hint_misses: u64,
}

impl Counts {
    /// Judges the hint of an attempt that took `round_trips`. If there was one, it is counted as a hit already: so
    /// early that these counts are at rest when the next operation copies them.
    #[inline]
    pub(crate) fn judge_hint(&mut self, hinted: bool, round_trips: u64) {
        if !hinted || round_trips != 1 {
            self.hint_hits -= u64::from(hinted);
            self.hint_misses += u64::from(round_trips != 0);
        }
    }
}

impl Sub for Counts {
    type Output = Self;

    /// What was counted since `earlier`.
    fn sub(self, earlier: Self) -> Self {
        let (now, then) = (self.fabric, earlier.fabric);
        Self {
            fabric: FabricCounts {
                round_trips: now.round_trips - then.round_trips,
                reads: now.reads - then.reads,
                writes: now.writes - then.writes,
                cas: now.cas - then.cas,
                bytes_read: now.bytes_read - then.bytes_read,
                bytes_written: now.bytes_written - then.bytes_written,
                retries: now.retries - then.retries,
                lost: now.lost - then.lost,
            },
            two_sided: self.two_sided - earlier.two_sided,
            hint_hits: self.hint_hits - earlier.hint_hits,
            hint_misses: self.hint_misses - earlier.hint_misses,
        }
    }
}

impl AddAssign for Counts {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        self.fabric += other.fabric;
        self.two_sided += other.two_sided;
        self.hint_hits += other.hint_hits;
        self.hint_misses += other.hint_misses;
    }
}

/// All operations of one type.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OperationStats {
    /// Operations that ended, well or with an error.
    pub count: u64,
    /// Those of them that ended with an error.
    pub errors: u64,
    /// What they did on the fabric.
    pub counts: Counts,
}

impl AddAssign for OperationStats {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.errors += other.errors;
        self.counts += other.counts;
    }
}

/// The figures of a [`Client`](crate::Client) or [`Session`](crate::Session) since it was made, indexed by
/// [`Operation`].
///
/// ```
/// use farside::Operation;
/// # let farside = farside::embedded()?;
/// let mut session = farside.session()?;
/// session.put("key", "value")?;
/// session.get("key")?;
/// let stats = session.stats();
/// assert_eq!(stats[Operation::Get].count, 1);
/// assert_eq!(stats[Operation::Get].counts.fabric.round_trips, 1, "the PUT left a hint");
/// # Ok::<(), farside::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    operations: [OperationStats; Operation::ALL.len()],
    /// Slots brought forward to the end of their chains, off the path of operations.
    pub forwards: u64,
    /// What that did on the fabric: none of it is in the operations' figures.
    pub upkeep: FabricCounts,
    /// Leases asked of servers.
    pub lease_requests: u64,
    /// Reports sent to servers.
    pub reports: u64,
    /// Connections made again after one broke.
    pub reconnects: u64,
}

impl Stats {
    /// Each operation type with its figures.
    pub fn operations(&self) -> impl Iterator<Item = (Operation, &OperationStats)> {
        Operation::ALL.into_iter().zip(&self.operations)
    }
}

impl Index<Operation> for Stats {
    type Output = OperationStats;

    fn index(&self, operation: Operation) -> &OperationStats {
        &self.operations[operation as usize]
    }
}

impl IndexMut<Operation> for Stats {
    fn index_mut(&mut self, operation: Operation) -> &mut OperationStats {
        &mut self.operations[operation as usize]
    }
}

impl AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        for (mine, theirs) in self.operations.iter_mut().zip(other.operations) {
            *mine += theirs;
        }
        self.forwards += other.forwards;
        self.upkeep += other.upkeep;
        self.lease_requests += other.lease_requests;
        self.reports += other.reports;
        self.reconnects += other.reconnects;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_has_figures_of_its_own() {
        let mut stats = Stats::default();
        for (i, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, i);
            stats[operation].count = i as u64;
        }
        let mut twice = stats;
        twice += stats;
        for (operation, figures) in twice.operations() {
            assert_eq!(figures.count, 2 * operation as u64);
        }
    }
}
