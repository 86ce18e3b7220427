//! What a dead client leaves behind: tentative words, and blocks leased to it that may or may not be published.

use crate::pass::Tools;
use crate::session::{Session, Via};
use farside_hashtable::heap::{Finding, Orphan};
use farside_hashtable::plan::upkeep::{Reach, reclaim};
use farside_transport::clock::fine_ns;
use farside_transport::{Fabric, LaneIo, drive};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long finding out about one block may take. It takes microseconds, unless its key is fought over.
const ORPHAN: Duration = Duration::from_millis(500);

/// How often what could not be found out is tried again, and how long after.
const TRIES: u32 = 8;
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A session that ended. Of one that shared memory the fence is behind it: its process is gone, or has unmapped the
/// memory. Of one with queue pairs the fence is their end, which comes first of all.
pub(crate) struct Remains {
    session: Arc<Session>,
    tries: u32,
    /// When to clear them away.
    pub(crate) due: Instant,
}

impl Remains {
    pub(crate) fn of(session: Arc<Session>) -> Self {
        Self { session, tries: 0, due: Instant::now() }
    }

    /// Clears them away. `Some`: not all could be, and that is to be tried again.
    pub(crate) fn clear_away(self, tools: &mut Tools) -> Option<Self> {
        let id = self.session.id;
        if let (Some(rdma), Via::Verbs) = (&tools.state.rdma, self.session.via) {
            rdma.fence(self.session.ticket);
        }
        let (mut freed, mut published, mut unknown) = (0u64, 0u64, 0u64);
        for shard in 0..tools.state.shards.len() {
            let orphans = tools.state.shards[shard].heap.lock().end_session(id);
            for orphan in orphans {
                match resolve(tools, shard, orphan) {
                    Some(Reach::Reachable) => published += 1,
                    Some(Reach::Unreachable) => freed += 1,
                    None => unknown += 1,
                }
            }
        }
        if freed + published > 0 {
            tracing::info!(session = id, freed, published, "blocks of an ended session were cleared away");
        }
        tools.state.sweeps.add_orphans(freed + published);
        // What the client had won and not reported is found by a pass.
        tools.state.sweeper.changed();
        if unknown > 0 && self.tries < TRIES {
            return Some(Self { tries: self.tries + 1, due: Instant::now() + RETRY_AFTER, ..self });
        }
        if unknown > 0 {
            tracing::error!(
                session = id,
                blocks = unknown,
                "blocks of an ended session stay lost: keys fought over"
            );
        }
        tools.state.sessions.forget(id);
        None
    }
}

/// Finds out about one block, and sees to it that it is used again or counts as published.
fn resolve(tools: &mut Tools, shard: usize, orphan: Orphan) -> Option<Reach> {
    let owner = tools.state.shards[shard].clone();
    let _pinned = tools.epoch.pin();
    let deadline_ns = tools.fabric.now() + ORPHAN.as_nanos() as u64;
    let mut io = LaneIo::new(&tools.fabric, &mut tools.lane, &mut tools.counts, shard, deadline_ns);
    let reach = drive(reclaim(&mut io, &owner.table, orphan.life, orphan.class, deadline_ns)).ok()?;
    let finding = match reach {
        Reach::Reachable => Finding::Reachable,
        Reach::Unreachable => Finding::Unreachable,
    };
    // If another client retired it meanwhile there is nothing left to do.
    owner.heap.lock().resolve(orphan.life, finding, fine_ns());
    Some(reach)
}

#[cfg(test)]
mod tests;
