//! Blocks for the sessions that write into the memory: leased in batches, and what they report of them.

use crate::engine::{Answer, Engine, Shortage, fail};
use crate::session::{Session, Via};
use crate::stats::Status;
use farside_hashtable::heap::Report;
use farside_protocol::wire::Response;
use farside_protocol::{Class, ErrorKind};
use farside_transport::clock::fine_ns;

/// What part of a shard's heap one session may hold in leases that it has not spent: one over this.
const SESSION_SHARE: u64 = 4;

/// Blocks that a session asks for.
pub(crate) struct Wanted {
    pub(crate) shard: u32,
    pub(crate) class: Class,
    /// Which writes into them.
    pub(crate) queue_pair: u32,
    /// How many at most.
    pub(crate) count: u16,
}

/// Leases blocks.
pub(crate) fn lease(
    engine: &mut Engine,
    session: &Session,
    wanted: &Wanted,
    id: u64,
    out: &mut Vec<u8>,
) -> Answer {
    let &Wanted { shard, class, queue_pair, count } = wanted;
    let Some(owner) = engine.state().shards.get(shard as usize) else { return no_shard(shard, id, out) };
    let size = class.size() as u64;
    let (share, held) = {
        let heap = owner.heap.lock();
        (heap.usage().capacity / SESSION_SHARE, heap.leased_bytes(session.id))
    };
    // Who holds less than its share gets one block however large it is: also beside small ones, a large one that
    // the shard has must be to be had.
    let most = (share.saturating_sub(held) / size).max(u64::from(held < share));
    if most == 0 {
        let message =
            "the session holds too much memory in leases it has not spent: report what it published";
        return fail(ErrorKind::Refused, message, id, out);
    }
    let mut lives = Vec::new();
    let count = u64::from(count).min(most) as usize;
    let retry_ms = match engine.lease(shard as usize, session.id, class, count, &mut lives) {
        Ok(()) | Err(Shortage::Full) => 0,
        Err(Shortage::Until(wait)) => wait.as_millis().max(1) as u32,
    };
    engine.state().sweeper.changed();
    let keys = match (&engine.state().rdma, session.via) {
        (Some(rdma), Via::Verbs) => rdma.grant(session.ticket, queue_pair, shard as usize, class, &lives),
        _ => Ok(Vec::new()),
    };
    match keys {
        Ok(keys) => {
            Response::Leased { lives, keys, retry_ms }.encode(id, out);
            Answer::Done(Status::Ok)
        }
        Err(error) => {
            settle(engine, session, shard as usize, &Report { returned: &lives, ..Report::default() });
            fail(error.kind(), &error.to_string(), id, out)
        }
    }
}

/// Takes a report.
pub(crate) fn report(
    engine: &Engine,
    session: &Session,
    shard: u32,
    report: &Report<'_>,
    id: u64,
    out: &mut Vec<u8>,
) -> Answer {
    if engine.state().shards.get(shard as usize).is_none() {
        return no_shard(shard, id, out);
    }
    settle(engine, session, shard as usize, report);
    Response::Done.encode(id, out);
    Answer::Done(Status::Ok)
}

/// What is no longer the session's to write it cannot write any more when the heap hears of it.
fn settle(engine: &Engine, session: &Session, shard: usize, report: &Report<'_>) {
    let state = engine.state();
    if let (Some(rdma), Via::Verbs) = (&state.rdma, session.via) {
        let ended = report.published.iter().chain(report.returned);
        rdma.revoke(session.ticket, shard, ended.copied());
    }
    state.shards[shard].heap.lock().report(session.id, report, fine_ns());
    state.sweeper.changed();
}

fn no_shard(shard: u32, id: u64, out: &mut Vec<u8>) -> Answer {
    fail(ErrorKind::Invalid, &format!("this server has no shard {shard}"), id, out)
}
