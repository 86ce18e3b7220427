//! A connection from its handshake to its end: requests in, answers out, in order and in batches.

use crate::connection::{Connection, End, OUTBOX_MAX};
use crate::fault::log_fault;
use crate::handshake::{self, HELLO_LEN_MAX};
use crate::inbox::Inbox;
use crate::requests::{self, Outcome};
use crate::session::{Session, Via};
use crate::state::Place;
use crate::stats::{self, Kind, Status};
use crate::stream::Stream;
use crate::worker::Worker;
use farside_protocol::ErrorKind;
use farside_protocol::wire::{PARTING, Request, Response};
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a change waits for memory whose quarantine is not over, at most. It is longer than the longest
/// quarantine anybody would choose for a table that is nearly full.
const MEMORY_PATIENCE: Duration = Duration::from_secs(2);

/// Requests after which a connection lets the others of its thread go first, though there may be more.
const FAIR_SHARE: u32 = 64;

/// How long a fence waits for the end of the session it is for.
const FENCE_PATIENCE: Duration = Duration::from_secs(1);

/// Serves one connection to its end.
pub(crate) async fn serve(worker: Rc<Worker>, stream: Stream, _place: Place) {
    let state = &worker.state;
    let inbox = Inbox::new(HELLO_LEN_MAX);
    let mut connection = Connection::new(stream, inbox, state.lease, state.stop.notify.clone());
    if state.stop.has_begun() {
        return;
    }
    let Some(session) = handshake::open(state, &mut connection).await else { return };
    let Err(end) = converse(&worker, &session, &mut connection).await;
    part(&worker, &session, &mut connection, end).await;
    if !state.stop.has_begun() {
        state.end_session(session);
    }
}

/// Answers requests until the connection ends.
async fn converse(
    worker: &Rc<Worker>,
    session: &Session,
    connection: &mut Connection,
) -> Result<Infallible, End> {
    let mut waiting_since = None;
    let mut answered = 0;
    loop {
        let Some(frame) = connection.inbox.frame()? else {
            connection.flush().await?;
            worker.worked();
            if answered >= FAIR_SHARE {
                answered = 0;
                tokio::task::yield_now().await;
            }
            connection.take_room(&worker.state.budget).await?;
            next_bytes(worker, session, connection).await?;
            continue;
        };
        let (id, len) = (frame.header.id, frame.len());
        let request = Request::decode(frame.header.kind, frame.body)
            .map_err(|error| End::Garbage(id, error.to_string()))?;
        let waited = waiting_since.map(|since: Instant| since.elapsed());
        let may_wait = waited.is_none_or(|waited| waited < MEMORY_PATIENCE);
        match requests::execute(worker, session, id, &request, may_wait, &mut connection.outbox) {
            Outcome::Answered => waiting_since = None,
            Outcome::Wait(time) => {
                waiting_since.get_or_insert_with(Instant::now);
                connection.flush().await?;
                worker.worked();
                tokio::time::sleep(time).await;
                continue;
            }
            Outcome::Stats => {
                let state = worker.state.clone();
                // It walks the index, for longer than other connections of this thread should wait.
                let statistics = tokio::task::spawn_blocking(move || stats::collect(&state)).await;
                let statistics = statistics.expect("collecting does not panic");
                Response::Stats(statistics).encode(id, &mut connection.outbox);
                worker.count(session.via, Kind::Stats, Status::Ok);
            }
            Outcome::Fence(earlier) => fence(worker, session, id, earlier, connection).await,
            Outcome::Garbage(message) => return Err(End::Garbage(id, message)),
        }
        connection.inbox.advance(len);
        answered += 1;
        if connection.outbox.len() >= OUTBOX_MAX {
            connection.flush().await?;
        }
    }
}

/// Waits for more, and ends a silent session, unless it cannot be ended.
async fn next_bytes(worker: &Worker, session: &Session, connection: &mut Connection) -> Result<(), End> {
    loop {
        match connection.read().await {
            Ok(()) => {
                if session.set_silent(false) {
                    tracing::info!(session = session.id, "session is heard of again");
                }
                return Ok(());
            }
            Err(End::Silent) if session.via == Via::Shm => {
                if session.set_silent(true) {
                    log_fault!(
                        worker.state.faults.silent,
                        session = session.id,
                        "session is silent for longer than its lease; it stays, for its process shares memory"
                    );
                }
                connection.forgive();
            }
            Err(end) => return Err(end),
        }
    }
}

async fn fence(worker: &Worker, session: &Session, id: u64, earlier: u64, connection: &mut Connection) {
    let status = if worker.state.sessions.forgotten(earlier, FENCE_PATIENCE).await {
        Response::Done.encode(id, &mut connection.outbox);
        Status::Ok
    } else {
        let message = format!(
            "session {earlier} is still connected: one that shares memory is fenced by the end of its connection"
        );
        let kind = ErrorKind::Unavailable;
        Response::Error { kind, message: &message }.encode(id, &mut connection.outbox);
        Status::Failed(kind)
    };
    worker.count(session.via, Kind::Fence, status);
}

/// Closes a connection as its end demands. On return nothing of a session that shared memory can still happen,
/// unless the server is ending.
async fn part(worker: &Worker, session: &Session, connection: &mut Connection, end: End) {
    let faults = &worker.state.faults;
    let (id, shares_memory) = (session.id, session.via == Via::Shm);
    match end {
        End::Closed => {}
        End::Io(error) => {
            tracing::debug!(session = id, %error, "connection lost");
            if shares_memory {
                connection.drain().await;
            }
        }
        End::Stopping => {
            // What was asked is answered before it.
            let message = "the server is shutting down";
            Response::Error { kind: ErrorKind::Unavailable, message }.encode(PARTING, &mut connection.outbox);
            let _ = connection.deliver().await;
        }
        End::Silent => {
            log_fault!(
                faults.silent,
                session = id,
                "session is silent for longer than its lease, and is ended"
            );
            let message = "the session was silent for longer than its lease: connect again";
            connection.close(PARTING, ErrorKind::Unavailable, message, shares_memory).await;
        }
        End::Garbage(request, message) => {
            log_fault!(
                faults.garbage,
                session = id,
                reason = message,
                "a client sent what is no request, and is cut off"
            );
            connection.close(request, ErrorKind::Invalid, &message, shares_memory).await;
        }
        End::NoRoom(request) => {
            log_fault!(faults.no_room, session = id, "too many large requests at a time: one is refused");
            let message =
                "the server is taking in as many large requests as it has room for: ask again later";
            connection.close(request, ErrorKind::Full, message, shares_memory).await;
        }
        End::SlowReader => {
            log_fault!(
                faults.slow_reader,
                session = id,
                "a client does not take its answers, and is cut off"
            );
            if shares_memory {
                connection.drain().await;
            }
        }
    }
}
