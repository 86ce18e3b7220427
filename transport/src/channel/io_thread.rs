//! The thread on which channels do their I/O, so that their users need no runtime of their own.

use std::future::Future;
use std::io;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// One thread with a runtime, shared by any number of channels. Dropping the last handle ends it and closes what
/// is left on it.
#[derive(Debug)]
pub struct IoThread {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl IoThread {
    /// Starts it.
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("farside-io".into()).spawn(move || {
            // Ends when told to or when the handle is gone; either way it is over.
            let _ = runtime.block_on(stopped);
        })?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Runs `task` on the thread for as long as there is one.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.handle.spawn(task));
    }

    /// A timer for tasks on any executor.
    pub fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send + use<> {
        let _runtime = self.handle.enter();
        tokio::time::sleep(time)
    }

    /// Runs `task`, which blocks, on another thread; `None` if the I/O thread ends first.
    pub async fn run_blocking<T: Send + 'static>(
        &self,
        task: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        self.handle.spawn_blocking(task).await.ok()
    }

    /// Runs `task` on the thread; `None` if the thread ends first.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        self.handle.spawn(task).await.ok()
    }
}

impl Drop for IoThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // It panics only if a task's waker did; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}
