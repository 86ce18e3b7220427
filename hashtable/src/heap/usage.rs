//! Where a heap's memory is.

use super::chunk::State;

/// Blocks of one class, by what they are doing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Blocks {
    /// In chunks of the class, ready to be leased.
    pub free: u64,
    /// With a session.
    pub leased: u64,
    /// Holding a record.
    pub published: u64,
    /// Retired, and not ready again yet.
    pub quarantined: u64,
    /// Out of use for good: their lease counts are used up.
    pub worn: u64,
}

impl Blocks {
    pub(super) fn of(&mut self, state: State) -> &mut u64 {
        match state {
            State::Free { .. } => &mut self.free,
            State::Leased { .. } => &mut self.leased,
            State::Published { .. } => &mut self.published,
            State::Quarantined | State::Draining => &mut self.quarantined,
            State::Worn => &mut self.worn,
        }
    }
}

/// Bytes of a heap. All but `capacity` add up to it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    /// The whole heap.
    pub capacity: u64,
    /// With sessions.
    pub leased: u64,
    /// Holding records.
    pub published: u64,
    /// Retired, and not ready again yet.
    pub quarantined: u64,
    /// In no chunk, or in free blocks of some class.
    pub free: u64,
    /// Worn blocks, and the ends of chunks that do not fill their last unit.
    pub unusable: u64,
}

impl Usage {
    /// Bytes in use: leased or published.
    pub fn used(&self) -> u64 {
        self.leased + self.published
    }
}
