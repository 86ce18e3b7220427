//! What a client, its clones and its sessions share: the connection, and how to have another one.

use crate::connection::Connection;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::pool::Pool;
use crate::reconnection::Reconnection;
use crate::settings::Settings;
use crate::stats::Stats;
use crate::task::Deadline;
use crate::value::Statistic;
use farside_protocol::wire::{Request, Response};
use farside_transport::channel::{CallError, IoThread};
use parking_lot::{Mutex, RwLock};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// How often idle cores are looked after.
const UPKEEP_INTERVAL: Duration = Duration::from_millis(250);
/// The pause before a server that was out of reach is asked again.
const UNREACHABLE_PAUSE: Duration = Duration::from_millis(20);
/// Cores for each hardware thread: with a few more than threads, most find their key's core free.
const CORES_PER_THREAD: usize = 2;

pub(crate) struct Shared {
    settings: Arc<Settings>,
    pool: Arc<Pool>,
    /// Of the sessions that have ended.
    ended: Mutex<Stats>,
    /// Of the connections that took another's place, and by the channels of those that are gone.
    reconnects: AtomicU64,
    reconnection: Reconnection,
    connection: RwLock<Arc<Connection>>,
    thread: Arc<IoThread>,
}

impl Shared {
    pub(crate) fn new(settings: Settings, connection: Connection, thread: Arc<IoThread>) -> Arc<Self> {
        let threads = available_parallelism().map_or(1, usize::from);
        let pool = Arc::new(Pool::new(threads * CORES_PER_THREAD));
        look_after(&thread, &pool);
        Arc::new(Self {
            settings: Arc::new(settings),
            pool,
            ended: Mutex::default(),
            reconnects: AtomicU64::new(0),
            reconnection: Reconnection::default(),
            connection: RwLock::new(Arc::new(connection)),
            thread,
        })
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) fn connection(&self) -> Arc<Connection> {
        Arc::clone(&self.connection.read())
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.settings.deadline
    }

    /// A core of a session's.
    pub(crate) fn session_core(&self) -> Core {
        Core::new(self.connection(), self.settings.hint_memory, true)
    }

    /// A core for the pool.
    pub(crate) fn pool_core(&self) -> Core {
        Core::new(self.connection(), self.settings.hint_memory / self.pool.len(), false)
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut stats = *self.ended.lock();
        self.pool.for_each(|core| stats += core.stats);
        stats.reconnects = self.reconnects.load(Ordering::Relaxed) + self.connection().reconnects();
        stats
    }

    pub(crate) fn session_ended(&self, stats: &Stats) {
        *self.ended.lock() += *stats;
    }

    pub(crate) async fn sleep(&self, time: Duration) {
        self.thread.sleep(time).await;
    }

    /// The outcome of `future`, if it comes by the deadline.
    pub(crate) async fn within<T>(&self, deadline: &Deadline, future: impl Future<Output = T>) -> Result<T> {
        let (mut future, mut late) = (pin!(future), pin!(self.thread.sleep(deadline.left())));
        std::future::poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(outcome) => Poll::Ready(Ok(outcome)),
            Poll::Pending => late.as_mut().poll(context).map(|()| Err(deadline.error())),
        })
        .await
    }

    /// A connection that takes the place of `broken`, which is made on the I/O thread, for all operations that want
    /// it: none that is dropped, or not polled, keeps the others from it.
    pub(crate) async fn reconnected(
        self: &Arc<Self>,
        broken: &Arc<Connection>,
        deadline: &Deadline,
    ) -> Result<Arc<Connection>> {
        let mut last = broken.gone();
        loop {
            let attempted = self.reconnection.attempted();
            let current = self.connection();
            if !Arc::ptr_eq(&current, broken) {
                return Ok(current);
            }
            self.reconnect();
            if self.within(deadline, attempted).await.is_err() {
                return Err(last);
            }
            match self.reconnection.failure() {
                // Trying again changes nothing.
                Some(error @ (Error::Rejected { .. } | Error::Configuration(_))) => return Err(error),
                Some(error) => last = error,
                None => {}
            }
        }
    }

    /// Attempts to connect again, unless that is under way.
    fn reconnect(self: &Arc<Self>) {
        let Some(wait) = self.reconnection.begin() else { return };
        // The attempt does not keep the client alive: if it goes meanwhile, the new connection goes with it.
        let (settings, thread, shared) =
            (Arc::clone(&self.settings), Arc::clone(&self.thread), Arc::downgrade(self));
        self.thread.spawn(async move {
            tokio::time::sleep(wait).await;
            let outcome = Connection::open(&settings, &thread).await;
            if let Some(shared) = shared.upgrade() {
                let failure = outcome.map(|connection| shared.adopt(connection)).err();
                shared.reconnection.end(failure);
            }
        });
    }

    fn adopt(&self, connection: Connection) {
        let connection = Arc::new(connection);
        let broken = std::mem::replace(&mut *self.connection.write(), Arc::clone(&connection));
        self.reconnects.fetch_add(1 + broken.reconnects(), Ordering::Relaxed);
        // The old memory is let go now, not when each core is next used. Sessions do it themselves.
        self.pool.for_each(|core| core.rebind(&connection));
    }

    pub(crate) async fn ping(self: &Arc<Self>, limit: Duration) -> Result<Duration> {
        self.ask(&Request::Ping, limit, |response, time| matches!(response, Response::Pong).then_some(time))
            .await
    }

    pub(crate) async fn server_stats(self: &Arc<Self>, limit: Duration) -> Result<Vec<Statistic>> {
        self.ask(&Request::Stats, limit, |response, _| match response {
            Response::Stats(statistics) => Some(statistics),
            _ => None,
        })
        .await
    }

    /// What `pick` makes of the answer to a request that changes nothing, and of the time it took.
    async fn ask<T>(
        self: &Arc<Self>,
        request: &Request<'_>,
        limit: Duration,
        pick: impl Fn(Response<'_>, Duration) -> Option<T>,
    ) -> Result<T> {
        let deadline = Deadline::after(limit);
        let mut connection = self.connection();
        loop {
            let began = Instant::now();
            match connection.call(request, &deadline).await {
                Ok(answer) => {
                    let time = began.elapsed();
                    let response =
                        answer.response().map_err(|error| connection.call_error(error.into(), &deadline))?;
                    return pick(response, time).ok_or_else(|| connection.nonsense());
                }
                Err(CallError::Unavailable { .. }) if connection.is_broken() => {
                    connection = self.reconnected(&connection, &deadline).await?;
                }
                Err(error) => self.bear(connection.call_error(error, &deadline), &deadline).await?,
            }
        }
    }

    /// Passes `error` on, unless it tells that the server was out of reach, and may be within it again before the
    /// deadline: then this waits a little.
    pub(crate) async fn bear(&self, error: Error, deadline: &Deadline) -> Result<()> {
        if matches!(error, Error::Unavailable { .. }) && deadline.left() > UNREACHABLE_PAUSE {
            self.sleep(UNREACHABLE_PAUSE).await;
            Ok(())
        } else {
            Err(error)
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        drop(self.pool.close());
    }
}

/// Settles what idle cores owe, for as long as there are any.
fn look_after(thread: &IoThread, pool: &Arc<Pool>) {
    let pool = Arc::downgrade(pool);
    thread.spawn(async move {
        loop {
            tokio::time::sleep(UPKEEP_INTERVAL).await;
            let Some(pool) = pool.upgrade() else { return };
            pool.for_each_idle(Core::flush_if_idle);
        }
    });
}
