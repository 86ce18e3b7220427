//! One request: checked against the session's rights, executed, answered.

use crate::engine::{Answer, fail};
use crate::leases::{self, Wanted};
use crate::session::Session;
use crate::stats::{Kind, Status};
use crate::worker::Worker;
use farside_hashtable::heap::Report;
use farside_protocol::limits::TAG_PERIOD;
use farside_protocol::wire::{Request, Response};
use farside_protocol::{ErrorKind, Record};
use std::time::Duration;

/// What became of a request.
pub(crate) enum Outcome {
    /// Its answer is in the outbox.
    Answered,
    /// To be executed again after this time: memory is on its way.
    Wait(Duration),
    /// Statistics are asked for, which take their time.
    Stats,
    /// The end of this session is to be waited for.
    Fence(u64),
    /// It may not come now: the connection is at its end.
    Garbage(String),
}

/// Executes a request and appends its answer to `out`, unless it has to wait, which it does only if it may.
pub(crate) fn execute(
    worker: &Worker,
    session: &Session,
    id: u64,
    request: &Request<'_>,
    may_wait: bool,
    out: &mut Vec<u8>,
) -> Outcome {
    let mut engine = worker.engine.borrow_mut();
    // What the requests before it in a batch left undone would lengthen this one's way.
    engine.settle_due();
    let kind = match request {
        Request::Get { .. } => Kind::Get,
        Request::Put { .. } => Kind::Put,
        Request::Delete { .. } => Kind::Delete,
        Request::FetchAdd { .. } => Kind::FetchAdd,
        Request::Scan { .. } => Kind::Scan,
        Request::Lease { .. } => Kind::Lease,
        Request::Report { .. } => Kind::Report,
        Request::Ping => Kind::Ping,
        Request::Stats => return Outcome::Stats,
        Request::Fence { session } => return Outcome::Fence(*session),
        Request::Hello(_) => return Outcome::Garbage("a second Hello on one connection".into()),
    };
    let answer = match request {
        Request::Get { key } => engine.get(*key, id, out),
        Request::Scan { from, keys_max, prefix } => engine.scan(*from, *keys_max, prefix, id, out),
        Request::Ping => {
            Response::Pong.encode(id, out);
            Answer::Done(Status::Ok)
        }
        _ if !session.may_write() => {
            fail(ErrorKind::Refused, "this session may only read: open one with the right to write", id, out)
        }
        Request::Put { key, value, expires_at_ms, condition } => {
            let record = Record { key: *key, value, expires_at_ms: *expires_at_ms, flags: 0 };
            engine.put(&record, *condition, id, out)
        }
        Request::Delete { key, condition } => engine.delete(*key, *condition, id, out),
        Request::FetchAdd { key, delta } => engine.fetch_add(*key, *delta, id, out),
        Request::Lease { .. } | Request::Report { .. } if !session.may_lease() => {
            fail(ErrorKind::Invalid, "blocks are leased to sessions that change the memory alone", id, out)
        }
        Request::Lease { shard, class, queue_pair, count } => {
            let wanted = Wanted { shard: *shard, class: *class, queue_pair: *queue_pair, count: *count };
            leases::lease(&mut engine, session, &wanted, id, out)
        }
        Request::Report { shard, published, retired, returned } => {
            leases::report(&engine, session, *shard, &Report { published, retired, returned }, id, out)
        }
        Request::Hello(_) | Request::Stats | Request::Fence { .. } => unreachable!("returned above"),
    };
    match answer {
        Answer::Done(status) => worker.count(session.via, kind, status),
        Answer::NoMemory { retry: Some(retry) } if may_wait => return Outcome::Wait(retry),
        Answer::NoMemory { .. } => {
            let quarantine_ms = worker.state.shards[0].superblock.quarantine_ms;
            let message = format!(
                "there is no memory for a record of this size: delete keys, or give the server more (--memory); what \
                 other sizes no longer need serves this one {} s later",
                (quarantine_ms * TAG_PERIOD).div_ceil(1000)
            );
            fail(ErrorKind::Full, &message, id, out);
            worker.count(session.via, kind, Status::Failed(ErrorKind::Full));
        }
    }
    Outcome::Answered
}
