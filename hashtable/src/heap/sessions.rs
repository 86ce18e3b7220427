//! The sessions that hold leases.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use farside_protocol::Life;

/// Most sessions of a heap at once, those included that ended and whose blocks are not resolved yet.
pub const SESSIONS_MAX: usize = 1 << 16;

/// A session's place in the heap, small enough to stand in each block's entry. Given anew when no block names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct SessionSlot(u16);

/// Why a session cannot be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SessionError {
    /// The number is in use, perhaps by a session that ended and holds blocks that are not resolved yet.
    #[error("session {0} is open or not resolved yet; give each session a number of its own")]
    InUse(u64),
    /// There is no room for another one.
    #[error("there are {SESSIONS_MAX} sessions already; end some, or resolve the blocks of those that ended")]
    TooMany,
}

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    id: u64,
    /// It ended: it gets no more leases, its reports on them are ignored, and its blocks wait to be resolved.
    pub(super) ended: bool,
    /// Blocks leased to it.
    pub(super) blocks: usize,
    /// Their bytes.
    pub(super) bytes: u64,
    /// The lives leased to it, each once, among some that it holds no more. Compacted when those are the most
    /// part, so keeping it costs O(1) for each lease.
    pub(super) log: Vec<Life>,
}

/// All sessions.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    slots: Vec<Option<Session>>,
    vacant: Vec<SessionSlot>,
    by_id: BTreeMap<u64, SessionSlot>,
}

impl Sessions {
    pub(super) fn open(&mut self, id: u64) -> Result<(), SessionError> {
        if self.by_id.contains_key(&id) {
            return Err(SessionError::InUse(id));
        }
        let slot = match self.vacant.pop() {
            Some(slot) => slot,
            None => SessionSlot(u16::try_from(self.slots.len()).map_err(|_| SessionError::TooMany)?),
        };
        if usize::from(slot.0) == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[usize::from(slot.0)] =
            Some(Session { id, ended: false, blocks: 0, bytes: 0, log: Vec::new() });
        self.by_id.insert(id, slot);
        Ok(())
    }

    /// The session numbered `id`.
    pub(super) fn find(&self, id: u64) -> Option<SessionSlot> {
        self.by_id.get(&id).copied()
    }

    /// The session numbered `id`, if it has not ended.
    pub(super) fn find_live(&self, id: u64) -> Option<SessionSlot> {
        self.find(id).filter(|&slot| !self.get(slot).ended)
    }

    pub(super) fn get(&self, slot: SessionSlot) -> &Session {
        self.slots[usize::from(slot.0)].as_ref().expect("a slot that is found or named by a block is taken")
    }

    pub(super) fn get_mut(&mut self, slot: SessionSlot) -> &mut Session {
        self.slots[usize::from(slot.0)].as_mut().expect("a slot that is found or named by a block is taken")
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (SessionSlot, &Session)> {
        self.by_id.values().map(|&slot| (slot, self.get(slot)))
    }

    /// Ends a session. One that holds nothing is gone at once.
    pub(super) fn end(&mut self, slot: SessionSlot) {
        self.get_mut(slot).ended = true;
        self.forget_if_resolved(slot);
    }

    /// Notes that a block of `bytes` is no longer leased to a session.
    pub(super) fn give_up(&mut self, slot: SessionSlot, bytes: u64) {
        let session = self.get_mut(slot);
        session.blocks -= 1;
        session.bytes -= bytes;
        self.forget_if_resolved(slot);
    }

    fn forget_if_resolved(&mut self, slot: SessionSlot) {
        let &Session { id, ended, blocks, .. } = self.get(slot);
        if ended && blocks == 0 {
            self.by_id.remove(&id);
            self.slots[usize::from(slot.0)] = None;
            self.vacant.push(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_given_anew_only_when_nothing_names_it() {
        let mut sessions = Sessions::default();
        sessions.open(7).unwrap();
        assert_eq!(sessions.open(7), Err(SessionError::InUse(7)));
        let slot = sessions.find_live(7).unwrap();
        let session = sessions.get_mut(slot);
        (session.blocks, session.bytes) = (1, 64);
        sessions.end(slot);
        assert_eq!((sessions.find_live(7), sessions.find(7)), (None, Some(slot)));
        assert_eq!(sessions.open(7), Err(SessionError::InUse(7)), "its block is not resolved");
        sessions.open(8).unwrap();
        assert_ne!(sessions.find(8), Some(slot));
        sessions.give_up(slot, 64);
        sessions.open(7).unwrap();
        assert_eq!(sessions.find_live(7), Some(slot));
    }

    #[test]
    fn there_is_a_limit() {
        let mut sessions = Sessions::default();
        for id in 0..SESSIONS_MAX as u64 {
            sessions.open(id).unwrap();
        }
        assert_eq!(sessions.open(u64::MAX), Err(SessionError::TooMany));
        sessions.end(sessions.find(3).unwrap());
        sessions.open(u64::MAX).unwrap();
    }
}
