//! Which records a thread inserts, and which exist.

use crate::generator::acknowledged::AcknowledgedCounter;

/// How a run numbers the records that it appends.
///
/// Inside a process, records are counted without gaps: `0..loaded` were loaded, the rest were appended in order. In
/// a run that several processes share, process `client` of `clients` appends every `clients`-th record number, so
/// that no two insert the same one; each reads the loaded records and its own, whose inserts it knows to be
/// acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbering {
    /// Records that the load put there.
    pub loaded: u64,
    /// This process.
    pub client: u64,
    /// All processes of the run.
    pub clients: u64,
}

impl Numbering {
    /// The record number of the record counted `index` in this process.
    #[must_use]
    pub fn record(&self, index: u64) -> u64 {
        match index.checked_sub(self.loaded) {
            None => index,
            Some(appended) => {
                self.loaded.saturating_add(self.client).saturating_add(appended.saturating_mul(self.clients))
            }
        }
    }
}

/// Where a thread's inserts come from.
#[derive(Debug)]
pub enum Inserts<'a> {
    /// A load: every `step`-th of the records in `next..end`.
    Load {
        /// The next record.
        next: u64,
        /// Where the load ends.
        end: u64,
        /// Threads that share it.
        step: u64,
    },
    /// A run that appends records.
    Append(&'a AcknowledgedCounter),
    /// A run that inserts nothing.
    Never,
}

impl Inserts<'_> {
    /// The next record, as counted in this process; `None` at the end of a load, or while a run has too many
    /// inserts unanswered.
    pub fn take(&mut self) -> Option<u64> {
        match self {
            Self::Load { next, end, step } => {
                let record = Some(*next).filter(|next| next < end)?;
                *next = next.saturating_add(*step);
                Some(record)
            }
            Self::Append(counter) => counter.take(),
            Self::Never => None,
        }
    }

    /// Says that the record counted `index` was inserted.
    pub fn acknowledge(&self, index: u64) {
        if let Self::Append(counter) = self {
            counter.acknowledge(index);
        }
    }

    /// The highest record, as counted in this process, that is known to exist when `loaded` were loaded.
    #[must_use]
    pub fn newest(&self, loaded: u64) -> u64 {
        match self {
            Self::Append(counter) => counter.existing() - 1,
            _ => loaded - 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_append_different_records() {
        let records = |client| {
            let numbering = Numbering { loaded: 10, client, clients: 2 };
            [9, 10, 11, 12].map(|index| numbering.record(index))
        };
        assert_eq!(records(0), [9, 10, 12, 14]);
        assert_eq!(records(1), [9, 11, 13, 15]);
    }

    #[test]
    fn threads_of_a_load_cover_its_range_once() {
        let mut all: Vec<u64> = (0..3)
            .flat_map(|thread| {
                let mut inserts = Inserts::Load { next: 10 + thread, end: 20, step: 3 };
                std::iter::from_fn(move || inserts.take())
            })
            .collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(10..20));
    }

    #[test]
    fn only_acknowledged_records_are_read() {
        let counter = AcknowledgedCounter::new(5);
        let mut inserts = Inserts::Append(&counter);
        let index = inserts.take().expect("an empty window");
        assert_eq!((index, inserts.newest(5)), (5, 4));
        inserts.acknowledge(index);
        assert_eq!(inserts.newest(5), 5);
    }
}
