//! The threads of a server, and what becomes of it when one of them panics.
//!
//! A panic is a defect. One in the task of a connection ends that connection alone, and is logged: its worker goes
//! on. One anywhere else ends the whole server, in order: doors closed, clients told, the socket removed. A server
//! that limps on would accept connections for a thread that is gone, or never free memory again, and nobody would
//! know. Who waits for [`Running::failed`](crate::Running::failed) learns of it; `farside-server` exits with 1.

use crate::state::State;
use crate::stats::Role;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Starts a thread that does `work` in this `role`.
pub(crate) fn spawn(
    state: Arc<State>,
    name: String,
    role: Role,
    work: impl FnOnce(Arc<State>) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name).spawn(move || {
        let _watch = Watch(state.clone());
        state.threads.register(role);
        work(state);
    })
}

/// Lives as long as its thread, and ends the server if that panics.
struct Watch(Arc<State>);

impl Drop for Watch {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop.begin();
            let thread = thread::current();
            let name = thread.name().unwrap_or_default();
            tracing::error!(thread = name, "a thread panicked, which is a defect of the server: it ends");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Socket};
    use crate::server::Server;
    use std::net::TcpStream;
    use std::time::{Duration, Instant};

    #[tokio::test]
    async fn a_thread_that_panics_ends_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let config = Config {
            listen: "127.0.0.1:0".parse().unwrap(),
            socket: Socket::At(socket.clone()),
            memory: Some(1 << 20),
            ..Config::default()
        };
        let running = Server::start(config).unwrap();
        let failed = tokio::time::timeout(Duration::from_millis(20), running.failed());
        assert!(failed.await.is_err(), "it runs");
        let broken = spawn(running.state(), "test".into(), Role::Upkeep, |_| panic!("on purpose"));
        assert!(broken.unwrap().join().is_err());
        tokio::time::timeout(Duration::from_secs(20), running.failed()).await.expect("it has ended");
        let began = Instant::now();
        while socket.exists() || TcpStream::connect(running.address()).is_ok() {
            assert!(began.elapsed() < Duration::from_secs(20), "its doors are open");
            thread::sleep(Duration::from_millis(2));
        }
    }
}
