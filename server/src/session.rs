//! The sessions: a connection each, from its handshake to the moment when nothing of it is left in the table.

use farside_protocol::wire::Rights;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// How a session reaches the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Via {
    /// Requests over TCP.
    Tcp,
    /// Requests over a Unix socket.
    Unix,
    /// Its own loads, stores and CAS on the shared memory, beside requests over a Unix socket.
    Shm,
    /// READs, WRITEs and CAS by its RDMA device, beside requests by SEND on it.
    Verbs,
}

impl Via {
    pub(crate) const ALL: [Self; 4] = [Self::Tcp, Self::Unix, Self::Shm, Self::Verbs];

    /// Its name in reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Unix => "unix",
            Self::Shm => "shm",
            Self::Verbs => "verbs",
        }
    }
}

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) via: Via,
    pub(crate) rights: Rights,
    /// What its client may do to the memory itself.
    pub(crate) memory_rights: Rights,
    /// Names its queue pairs to whoever listens for them; nobody else knows it.
    pub(crate) ticket: u128,
    /// Nothing was heard of it for longer than its lease. One that shares memory cannot be ended for that: its
    /// process lives, and might go on in the middle of an operation.
    silent: AtomicBool,
}

impl Session {
    /// Whether its client reaches the memory itself.
    pub(crate) fn is_one_sided(&self) -> bool {
        matches!(self.via, Via::Shm | Via::Verbs)
    }

    pub(crate) fn may_write(&self) -> bool {
        self.rights == Rights::ReadWrite
    }

    /// Whether its client changes the table itself, with blocks leased to it.
    pub(crate) fn may_lease(&self) -> bool {
        self.is_one_sided() && self.memory_rights == Rights::ReadWrite
    }

    /// Notes whether it is silent; returns whether that is news.
    pub(crate) fn set_silent(&self, silent: bool) -> bool {
        self.silent.load(Ordering::Relaxed) != silent && self.silent.swap(silent, Ordering::Relaxed) != silent
    }
}

struct Entry {
    session: Arc<Session>,
    /// Dropped with the entry: that wakes who waits for the fence.
    ended: watch::Sender<()>,
}

/// All sessions that have not ended, and those whose remains are not cleared away yet.
#[derive(Default)]
pub(crate) struct Sessions {
    last_id: AtomicU64,
    entries: Mutex<HashMap<u64, Entry>>,
}

impl Sessions {
    /// Opens a session under a number that none had before.
    pub(crate) fn open(&self, via: Via, rights: Rights, memory_rights: Rights) -> Arc<Session> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let (ticket, silent) = (rand::random(), AtomicBool::new(false));
        let session = Arc::new(Session { id, via, rights, memory_rights, ticket, silent });
        let entry = Entry { session: session.clone(), ended: watch::Sender::new(()) };
        self.entries.lock().insert(id, entry);
        session
    }

    /// Forgets a session: nothing it began can still happen, and what it held is cleared away.
    pub(crate) fn forget(&self, id: u64) {
        self.entries.lock().remove(&id);
    }

    /// Waits until session `id` is forgotten, for `patience` at most; tells whether it is. So is one that never was.
    pub(crate) async fn forgotten(&self, id: u64, patience: Duration) -> bool {
        let Some(mut ended) = self.entries.lock().get(&id).map(|entry| entry.ended.subscribe()) else {
            return true;
        };
        // The sender never sends: the wait ends when it is dropped.
        timeout(patience, ended.changed()).await.is_ok()
    }

    /// How many there are of each kind, and how many of them are silent.
    pub(crate) fn count(&self) -> ([usize; Via::ALL.len()], usize) {
        let entries = self.entries.lock();
        let of = |via| entries.values().filter(|entry| entry.session.via == via).count();
        let silent = entries.values().filter(|entry| entry.session.silent.load(Ordering::Relaxed)).count();
        (Via::ALL.map(of), silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_counted_until_they_are_forgotten() {
        let sessions = Sessions::default();
        let tcp = sessions.open(Via::Tcp, Rights::Read, Rights::Read);
        let shm = sessions.open(Via::Shm, Rights::ReadWrite, Rights::ReadWrite);
        assert_ne!(tcp.id, shm.id);
        assert!(shm.set_silent(true) && !shm.set_silent(true));
        assert_eq!(sessions.count(), ([1, 0, 1, 0], 1));
        sessions.forget(shm.id);
        assert_eq!(sessions.count(), ([1, 0, 0, 0], 0));
    }

    #[tokio::test]
    async fn who_waits_for_the_end_of_a_session_is_told() {
        let sessions = Arc::new(Sessions::default());
        let id = sessions.open(Via::Shm, Rights::ReadWrite, Rights::ReadWrite).id;
        assert!(!sessions.forgotten(id, Duration::from_millis(1)).await);
        let waiting = tokio::spawn({
            let sessions = sessions.clone();
            async move { sessions.forgotten(id, Duration::from_secs(60)).await }
        });
        tokio::task::yield_now().await;
        sessions.forget(id);
        assert!(waiting.await.unwrap());
        assert!(sessions.forgotten(id, Duration::ZERO).await);
    }
}
