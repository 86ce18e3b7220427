//! Where leases arrive that a core asked for and did not wait for.
//!
//! The request is carried on by the connection, not by the operation that caused it: an operation that is dropped
//! while it waits loses nothing, for the blocks wait here for the next one.

use super::leases::Refusal;
use farside_protocol::{Class, Life};
use parking_lot::Mutex;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) shard: usize,
    pub(crate) class: Class,
    pub(crate) leased: Result<Leased, Refusal>,
}

/// Leased blocks.
#[derive(Default, Debug)]
pub(crate) struct Leased {
    pub(crate) lives: Vec<Life>,
    /// To WRITE to them with, one for each, where each has its own.
    pub(crate) keys: Vec<u32>,
}

#[derive(Default, Debug)]
pub(crate) struct Inbox {
    /// Whether there are arrivals: what an operation looks at first, without taking the lock.
    filled: AtomicBool,
    arrivals: Mutex<Arrivals>,
    came: Notify,
}

#[derive(Default, Debug)]
struct Arrivals {
    list: Vec<Arrival>,
    closed: bool,
}

impl Inbox {
    /// Puts in an arrival and wakes who waits; gives it back if nobody will ever look.
    pub(crate) fn put(&self, arrival: Arrival) -> Result<(), Arrival> {
        let mut arrivals = self.arrivals.lock();
        if arrivals.closed {
            return Err(arrival);
        }
        arrivals.list.push(arrival);
        self.filled.store(true, Ordering::Release);
        drop(arrivals);
        self.came.notify_waiters();
        Ok(())
    }

    /// What has arrived since the last call.
    #[inline]
    pub(crate) fn take(&self) -> Vec<Arrival> {
        if self.is_empty() { Vec::new() } else { self.take_filled() }
    }

    #[cold]
    fn take_filled(&self) -> Vec<Arrival> {
        let mut arrivals = self.arrivals.lock();
        self.filled.store(false, Ordering::Relaxed);
        mem::take(&mut arrivals.list)
    }

    /// Whether nothing has arrived.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.filled.load(Ordering::Acquire)
    }

    /// The last that arrived. Whoever still waits here is woken, to look elsewhere.
    pub(crate) fn close(&self) -> Vec<Arrival> {
        let mut arrivals = self.arrivals.lock();
        arrivals.closed = true;
        let last = mem::take(&mut arrivals.list);
        drop(arrivals);
        self.came.notify_waiters();
        last
    }

    /// Ends at the next [`Inbox::put`] after this call.
    pub(crate) fn next(&self) -> Notified<'_> {
        self.came.notified()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farside_transport::channel::block_on;

    fn arrival(shard: usize) -> Arrival {
        Arrival { shard, class: Class::holding(1).unwrap(), leased: Ok(Leased::default()) }
    }

    #[test]
    fn what_came_before_anybody_waited_is_there() {
        let inbox = Inbox::default();
        assert!(inbox.take().is_empty());
        for shard in 0..2 {
            inbox.put(arrival(shard)).unwrap();
        }
        assert_eq!(inbox.take().iter().map(|arrival| arrival.shard).collect::<Vec<_>>(), [0, 1]);
        assert!(inbox.take().is_empty());
    }

    #[test]
    fn whoever_waits_is_woken_also_if_it_came_before_the_first_poll() {
        let inbox = Inbox::default();
        let next = inbox.next();
        inbox.put(arrival(0)).unwrap();
        block_on(next);
    }

    #[test]
    fn a_closed_inbox_gives_back_what_comes_late() {
        let inbox = Inbox::default();
        let next = inbox.next();
        inbox.put(arrival(0)).unwrap();
        assert_eq!(inbox.close().len(), 1);
        assert_eq!(inbox.put(arrival(7)).unwrap_err().shard, 7);
        block_on(next);
    }
}
