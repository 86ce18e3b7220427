//! Accepts connections and hands each to the thread with the fewest.

use crate::connection::Connection;
use crate::fault::log_fault;
use crate::handshake::HELLO_LEN_MAX;
use crate::inbox::Inbox;
use crate::listen::SocketFile;
use crate::state::State;
use crate::stats::Role;
use crate::stream::{Accepted, Stream};
use crate::thread;
use crate::worker::Arrival;
use farside_protocol::ErrorKind;
use farside_protocol::wire::{PARTING, PREFACE};
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::sleep;

/// How long to wait when the system cannot give a connection: it is out of descriptors or memory.
const EXHAUSTED: Duration = Duration::from_millis(100);

/// Connections that are being told at one time that there is no place for them; further ones are just closed.
const REFUSALS_MAX: usize = 64;

/// The doors of a server.
pub(crate) struct Doors {
    pub(crate) tcp: TcpListener,
    pub(crate) unix: Option<(UnixListener, SocketFile)>,
}

/// Starts the thread that accepts. It ends when the server does, and closes the doors.
pub(crate) fn spawn(
    state: Arc<State>,
    doors: Doors,
    workers: Vec<mpsc::UnboundedSender<Arrival>>,
) -> io::Result<JoinHandle<()>> {
    let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let entered = runtime.enter();
    let tcp = tokio::net::TcpListener::from_std(doors.tcp)?;
    let (unix, file) = doors.unix.unzip();
    let unix = unix.map(tokio::net::UnixListener::from_std).transpose()?;
    drop(entered);
    thread::spawn(state, "farside-accept".into(), Role::Serving, move |state| {
        runtime.block_on(async {
            let stopped = state.stop.notify.notified();
            if !state.stop.has_begun() {
                tokio::select! {
                    () = stopped => {}
                    () = accept(&state, &tcp, unix.as_ref(), &workers) => {}
                }
            }
        });
        // The path must not lead new clients to a server that is ending.
        drop(file);
    })
}

/// Accepts for ever.
async fn accept(
    state: &Arc<State>,
    tcp: &tokio::net::TcpListener,
    unix: Option<&tokio::net::UnixListener>,
    workers: &[mpsc::UnboundedSender<Arrival>],
) {
    let farewells = Arc::new(Semaphore::new(REFUSALS_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = tcp.accept() => accepted.and_then(|(socket, _)| socket.into_std()).map(Accepted::Tcp),
            accepted = accept_unix(unix) => accepted.map(Accepted::Unix),
        };
        let socket = match accepted {
            Ok(socket) => socket,
            Err(error) => {
                log_fault!(state.faults.accept, %error, "cannot accept a connection; raise `ulimit -n` if it is that");
                sleep(EXHAUSTED).await;
                continue;
            }
        };
        match state.connections.take_place(state) {
            Some(place) => {
                let worker = &workers[place.worker()];
                // Fails only if that thread has panicked, which ends the server.
                let _ = worker.send((socket, place));
            }
            None => {
                let max = state.connections.max();
                log_fault!(state.faults.too_many, max, "connection refused: there are as many as may be");
                if let Ok(permit) = farewells.clone().try_acquire_owned() {
                    tokio::spawn(refuse(state.clone(), socket, permit));
                }
            }
        }
    }
}

async fn accept_unix(unix: Option<&tokio::net::UnixListener>) -> io::Result<std::os::unix::net::UnixStream> {
    match unix {
        Some(unix) => unix.accept().await?.0.into_std(),
        None => std::future::pending().await,
    }
}

/// Tells a client that there is no place for it.
async fn refuse(state: Arc<State>, socket: Accepted, _permit: OwnedSemaphorePermit) {
    let Ok(stream) = Stream::new(socket) else { return };
    let inbox = Inbox::new(HELLO_LEN_MAX);
    let mut connection = Connection::new(stream, inbox, state.lease, state.stop.notify.clone());
    connection.outbox.extend_from_slice(&PREFACE);
    let message = format!(
        "the server has {} connections already, its most (--max-connections)",
        state.connections.max()
    );
    connection.close(PARTING, ErrorKind::Refused, &message, false).await;
}
