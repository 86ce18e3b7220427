//! The first exchange of a connection: who it is, and what it may do.

use crate::connection::{Connection, End};
use crate::fault::log_fault;
use crate::session::{Session, Via};
use crate::state::State;
use farside_hashtable::heap::SessionError;
use farside_protocol::ErrorKind;
use farside_protocol::limits::KEY_LEN_MAX;
use farside_protocol::wire::{
    BODY_LEN_MAX, Hello, PARTING, PREFACE, Peer, Request, Response, Rights, VERSION, Wants, Welcome,
    judge_preface,
};
use farside_transport::fd_passing;
use farside_transport::region::Access;
use farside_transport::verbs::Pipe;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long a connection may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest body of a Hello: nobody needs more memory before it is known who it is.
pub(crate) const HELLO_LEN_MAX: usize = 1024;

/// Longest body of a request from who may only read: a key, and the fields beside it.
const READ_LEN_MAX: usize = KEY_LEN_MAX + 256;

/// Why no session came of a connection.
enum Refusal {
    /// The connection ended by itself.
    Ended(End),
    /// It is told why, if it understands.
    Told(u64, ErrorKind, String),
    /// It speaks something else, and is told nothing but this server's preface.
    Foreign,
}

impl From<End> for Refusal {
    fn from(end: End) -> Self {
        match end {
            End::Garbage(id, message) => Self::Told(id, ErrorKind::Invalid, message),
            other => Self::Ended(other),
        }
    }
}

/// Who asks to be let in, in a Hello numbered `id`.
struct Guest {
    id: u64,
    via: Via,
    rights: Rights,
}

/// Opens the session of a new connection. `None`: there is none, and the connection has been dealt with.
pub(crate) async fn open(state: &Arc<State>, connection: &mut Connection) -> Option<Arc<Session>> {
    let introduced = timeout(PATIENCE, introduce(state, connection)).await.unwrap_or_else(|_| {
        Err(Refusal::Told(PARTING, ErrorKind::Deadline, format!("no Hello came within {PATIENCE:?}")))
    });
    let admitted = match introduced {
        Ok(guest) => admit(state, connection, &guest).await,
        Err(refusal) => Err(refusal),
    };
    match admitted {
        Ok(session) => Some(session),
        Err(refusal) => {
            refuse(state, connection, refusal).await;
            None
        }
    }
}

async fn refuse(state: &State, connection: &mut Connection, refusal: Refusal) {
    let (peer, fault) = (connection.stream().peer(), &state.faults.handshake);
    match refusal {
        // Health checks connect and say nothing: that is no fault.
        Refusal::Ended(End::Closed | End::Stopping) => {}
        // Those of another server of this user, which looks whether this socket is a dead one's, may hang up so fast
        // that the preface does not reach them.
        Refusal::Ended(End::Io(error)) if has_hung_up(&error) => {
            tracing::debug!(peer, %error, "connection closed before its Hello");
        }
        Refusal::Ended(end) => {
            log_fault!(fault, peer, ?end, "connection lost in its handshake");
        }
        Refusal::Foreign => {
            log_fault!(fault, peer, "something connected that does not speak Farside's protocol");
        }
        Refusal::Told(id, kind, message) => {
            let fault = if kind == ErrorKind::Refused { &state.faults.token } else { fault };
            log_fault!(fault, peer, kind = kind.name(), reason = message, "handshake refused");
            connection.close(id, kind, &message, false).await;
        }
    }
}

/// Longest body of a request that these rights allow: nobody needs more memory than that.
fn body_len_max(rights: Rights) -> usize {
    match rights {
        Rights::Read => READ_LEN_MAX,
        Rights::ReadWrite => BODY_LEN_MAX,
    }
}

fn has_hung_up(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Exchanges prefaces, and reads and judges the Hello.
async fn introduce(state: &State, connection: &mut Connection) -> Result<Guest, Refusal> {
    connection.outbox.extend_from_slice(&PREFACE);
    connection.flush().await?;
    let preface = loop {
        match connection.inbox.pending().first_chunk() {
            Some(preface) => break *preface,
            // What does not begin like the preface may be shorter than it, and would be waited for in vain.
            None if !could_be_preface(connection.inbox.pending()) => return Err(Refusal::Foreign),
            None => connection.read().await?,
        }
    };
    match judge_preface(&preface) {
        Peer::Same => connection.inbox.advance(PREFACE.len()),
        Peer::OtherVersion(theirs) => {
            let message = format!(
                "the client speaks version {theirs} of the protocol, this server version {VERSION}: use builds of one \
                 version"
            );
            return Err(Refusal::Told(PARTING, ErrorKind::Incompatible, message));
        }
        Peer::Foreign => return Err(Refusal::Foreign),
    }
    let (id, len) = loop {
        match connection.inbox.frame().map_err(End::from)? {
            Some(frame) => break (frame.header.id, frame.len()),
            None => connection.read().await?,
        }
    };
    let frame = connection.inbox.frame().map_err(End::from)?.expect("it was there just now");
    let Request::Hello(hello) = Request::decode(frame.header.kind, frame.body)
        .map_err(|error| End::Garbage(id, error.to_string()))?
    else {
        return Err(Refusal::Told(id, ErrorKind::Invalid, "the first request must be a Hello".into()));
    };
    let is_unix = connection.stream().is_unix();
    let via = match (hello.wants, is_unix) {
        (Wants::Messages, false) => Via::Tcp,
        (Wants::Messages, true) => Via::Unix,
        (Wants::Memory, true) => Via::Shm,
        (Wants::Memory, false) => {
            let message = "memory can be shared over the Unix socket alone: connect there".into();
            return Err(Refusal::Told(id, ErrorKind::Invalid, message));
        }
        (Wants::QueuePairs, _) if state.rdma.is_some() => Via::Verbs,
        (Wants::QueuePairs, _) => {
            let message =
                "this server uses no RDMA device: start it with --rdma, or use another transport".into();
            return Err(Refusal::Told(id, ErrorKind::Refused, message));
        }
    };
    let rights =
        authorize(state, &hello).map_err(|message| Refusal::Told(id, ErrorKind::Refused, message))?;
    tracing::debug!(transport = via.name(), ?rights, name = hello.name, "hello");
    connection.inbox.advance(len);
    connection.inbox.allow(body_len_max(rights));
    Ok(Guest { id, via, rights })
}

/// Opens the session and welcomes the client to it.
async fn admit(
    state: &Arc<State>,
    connection: &mut Connection,
    guest: &Guest,
) -> Result<Arc<Session>, Refusal> {
    let memory_rights = guest.rights.min(state.memory_rights);
    let memory = match guest.via {
        Via::Shm => descriptors(state, memory_rights).map_err(End::from)?,
        Via::Tcp | Via::Unix | Via::Verbs => Vec::new(),
    };
    let session = state.sessions.open(guest.via, guest.rights, memory_rights);
    let opened = if session.is_one_sided() { open_heaps(state, &session) } else { Ok(()) };
    let admitted = match opened {
        Ok(()) => {
            Response::Welcome(welcome(state, &session)).encode(guest.id, &mut connection.outbox);
            let pipe = state.rdma.as_ref().filter(|_| guest.via == Via::Verbs);
            let pipe = pipe.map(|rdma| rdma.expect_pipe(session.ticket));
            hand_over(connection, &memory, pipe).await.map_err(Refusal::from)
        }
        Err(error) => Err(Refusal::Told(guest.id, ErrorKind::Unavailable, error.to_string())),
    };
    if let Err(refusal) = admitted {
        // Memory was not shared yet; queue pairs may be connected, and are fenced.
        state.end_session(session);
        return Err(refusal);
    }
    tracing::debug!(session = session.id, peer = connection.stream().peer(), "session opened");
    Ok(session)
}

fn open_heaps(state: &State, session: &Session) -> Result<(), SessionError> {
    state.shards.iter().try_for_each(|shard| shard.heap.lock().open_session(session.id))
}

fn could_be_preface(bytes: &[u8]) -> bool {
    PREFACE[..7].starts_with(&bytes[..bytes.len().min(7)])
}

/// What the client may do; at most what it asks for.
fn authorize(state: &State, hello: &Hello<'_>) -> Result<Rights, String> {
    let Some(tokens) = &state.tokens else { return Ok(hello.rights) };
    match tokens.rights(hello.token) {
        Some(granted) => Ok(granted.min(hello.rights)),
        None if hello.token.is_empty() => {
            Err("this server wants a token: give the client one from the server's token file".into())
        }
        None => Err("the token is not in the server's token file".into()),
    }
}

fn welcome(state: &State, session: &Session) -> Welcome {
    Welcome {
        server_version: env!("CARGO_PKG_VERSION").into(),
        instance: state.instance,
        session: session.id,
        rights: session.rights,
        memory_rights: session.memory_rights,
        lease_ms: state.lease.as_millis() as u32,
        host: state.host.clone(),
        socket: state.socket.as_deref().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default(),
        rdma: state.rdma.as_ref().map(|rdma| rdma.address().to_string()).unwrap_or_default(),
        shards: state.shards.iter().map(|shard| shard.superblock).collect(),
        queue_pairs: match (&state.rdma, session.via) {
            (Some(rdma), Via::Verbs) => Some(rdma.invite(session.ticket, session.memory_rights)),
            _ => None,
        },
    }
}

/// Descriptors of all shards' memory: writable ones for who may write to it, others for who may not.
fn descriptors(state: &State, rights: Rights) -> io::Result<Vec<OwnedFd>> {
    let access = match rights {
        Rights::Read => Access::Read,
        Rights::ReadWrite => Access::ReadWrite,
    };
    state.shards.iter().map(|shard| shard.region.share(access)).collect()
}

/// Sends the Welcome and what comes with it, and goes over to the session's own queue pair if it is to have one.
async fn hand_over(
    connection: &mut Connection,
    memory: &[OwnedFd],
    pipe: Option<impl Future<Output = Option<Arc<Pipe>>>>,
) -> Result<(), End> {
    connection.flush().await?;
    if !memory.is_empty() {
        let borrowed: Vec<_> = memory.iter().map(AsFd::as_fd).collect();
        let sent = connection.stream().write_with(|socket| fd_passing::send(socket, &borrowed));
        timeout(PATIENCE, sent).await.map_err(|_| End::SlowReader)??;
    }
    match pipe {
        Some(pipe) => connection.go_over(pipe).await,
        None => Ok(()),
    }
}
