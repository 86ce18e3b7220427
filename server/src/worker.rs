//! A thread that serves connections: its event loop, and what its connections share.

use crate::engine::Engine;
use crate::serve::serve;
use crate::session::Via;
use crate::state::{Place, State};
use crate::stats::{Kind, Role, Status};
use crate::stream::{Accepted, Stream};
use crate::thread;
use std::cell::{Cell, RefCell};
use std::io;
use std::panic;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime;
use tokio::sync::{Notify, mpsc};
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};

/// How long duties wait for more of their kind before they are worked off.
const SETTLE_AFTER: Duration = Duration::from_millis(2);

/// How long connections may take to finish what they are at when the server ends: who does not take its answers by
/// then is cut off. The memory is still to be unmapped, and all of it takes less than five seconds.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

/// What the connections of one thread share. They take turns, so nothing in here needs a lock.
pub(crate) struct Worker {
    pub(crate) state: Arc<State>,
    pub(crate) engine: RefCell<Engine>,
    index: usize,
    /// Whether duties wait for `settle`.
    unsettled: Cell<bool>,
    settle: Notify,
}

/// A connection on its way to a worker.
pub(crate) type Arrival = (Accepted, Place);

impl Worker {
    /// Starts worker number `index`.
    pub(crate) fn spawn(
        state: Arc<State>,
        index: usize,
        arrivals: mpsc::UnboundedReceiver<Arrival>,
    ) -> io::Result<JoinHandle<()>> {
        let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        thread::spawn(state, format!("farside-{index}"), Role::Serving, move |state| {
            let worker = Rc::new(Self {
                engine: RefCell::new(Engine::new(state.clone())),
                state,
                index,
                unsettled: Cell::new(false),
                settle: Notify::new(),
            });
            LocalSet::new().block_on(&runtime, worker.run(arrivals));
            // A walk of the index for statistics may be under way; nobody waits for it any more.
            runtime.shutdown_background();
        })
    }

    async fn run(self: Rc<Self>, mut arrivals: mpsc::UnboundedReceiver<Arrival>) {
        let mut connections = tokio::task::JoinSet::new();
        let mut settling = tokio::task::spawn_local(self.clone().settle_later());
        // Ends when the accepting thread has ended.
        loop {
            tokio::select! {
                arrival = arrivals.recv() => match arrival {
                    Some((socket, place)) => match Stream::new(socket) {
                        Ok(stream) => drop(connections.spawn_local(serve(self.clone(), stream, place))),
                        Err(error) => tracing::debug!(%error, "connection lost before it was served"),
                    },
                    None => break,
                },
                Some(served) = connections.join_next() => {
                    if let Err(error) = served {
                        // Its blocks stay leased: its process may live, and nobody saw its connection end.
                        tracing::error!(%error, "serving a connection failed, which is a defect of the server");
                    }
                }
                // It goes on for ever unless it panics: memory would never be freed again.
                Err(error) = &mut settling => panic::resume_unwind(error.into_panic()),
            }
        }
        let ended = timeout(STOP_PATIENCE, async { while connections.join_next().await.is_some() {} }).await;
        if ended.is_err() {
            tracing::warn!(
                connections = connections.len(),
                "connections did not end in time, and are cut off"
            );
        }
        settling.abort();
        self.engine.borrow_mut().settle_all();
    }

    /// Counts a request.
    pub(crate) fn count(&self, via: Via, kind: Kind, status: Status) {
        self.state.counters[self.index].count(via, kind, status);
    }

    /// To be called when answers have been written: works off duties, if there are enough of them, or sees to it
    /// that they are soon.
    pub(crate) fn worked(&self) {
        let mut engine = self.engine.borrow_mut();
        engine.settle_due();
        if !self.unsettled.get() && engine.has_duties() {
            self.unsettled.set(true);
            self.settle.notify_one();
        }
    }

    /// Works off duties that have waited for more of their kind. No timer runs while there are none.
    async fn settle_later(self: Rc<Self>) {
        loop {
            self.settle.notified().await;
            sleep(SETTLE_AFTER).await;
            self.unsettled.set(false);
            self.engine.borrow_mut().settle_all();
        }
    }
}
