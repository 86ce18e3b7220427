//! Waits for a future on this thread, without an executor.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    // One for each thread, so that a blocking call does not allocate a waker.
    static WAKER: Waker = Waker::from(Arc::new(Unpark(std::thread::current())));
}

/// Polls `future` to its end, parking this thread between polls. Works in the threads of executors too, which it
/// blocks.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = WAKER.with(Waker::clone);
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(outcome) => return outcome,
            // An unpark that came in between makes this return at once.
            Poll::Pending => std::thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_for_another_thread() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let other = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            sender.send(5).unwrap();
        });
        assert_eq!(block_on(receiver), Ok(5));
        other.join().unwrap();
    }
}
