//! The server's own way to its table, whose words perhaps its RDMA device alone may change.
//!
//! The device's compare-and-swaps are atomic to each other and not to the processor's. So the server reads and writes
//! its memory as ever, and then has the device make its compare-and-swaps, over a queue pair from itself to itself. In a
//! chain each step is done before the next begins: a CAS has changed the memory when its completion is there, and
//! what the processor wrote before it was posted the device sees.

use super::lane::VerbsLane;
use super::listener::Listener;
use super::queue::Queue;
use crate::capabilities::{AtomicScope, Capabilities};
use crate::fabric::{Fabric, Posted};
use crate::shm::{Shm, ShmLane};
use farside_hashtable::{Chain, Lost, Step};
use std::cell::RefCell;

/// The longest that a compare-and-swap of this host's own device may take.
const PATIENCE_NS: u64 = 2_000_000_000;

/// Belongs to one thread.
#[derive(Debug)]
pub struct Own {
    shm: Shm,
    /// What registered the memory, if its device makes the compare-and-swaps.
    swaps: Option<Listener>,
    link: RefCell<Option<Link>>,
}

#[derive(Debug)]
struct Link {
    queue: Queue,
    lane: VerbsLane,
    /// Names this end to the listener, to be fenced by.
    ticket: u128,
}

impl Own {
    /// Over the server's own memory, with compare-and-swaps by the processor, or by the device of `swaps`, which has
    /// registered the memory. Connects when that is first needed.
    pub fn new(shm: Shm, swaps: Option<Listener>) -> Self {
        Self { shm, swaps, link: RefCell::new(None) }
    }

    fn step(
        &self,
        listener: &Listener,
        lane: &mut ShmLane,
        shard: usize,
        step: &mut Step,
    ) -> Result<(), Lost> {
        let mut chain = Chain::from_iter([*step]);
        if let Step::CompareSwap { .. } = step {
            let outcome = self.compare_swap(listener, shard, &mut chain);
            *step = chain[0];
            return outcome;
        }
        match self.shm.post(lane, shard, &mut chain) {
            Posted::Done(outcome) => outcome,
            Posted::Pending => unreachable!("a chain on shared memory is never pending"),
        }
    }

    /// Both ends are this process's, so after this nothing posted before executes any more.
    fn end_link(&self, listener: &Listener) {
        if let Some(Link { queue, ticket, .. }) = self.link.borrow_mut().take() {
            drop(queue);
            listener.fence(ticket);
        }
    }

    fn compare_swap(&self, listener: &Listener, shard: usize, chain: &mut Chain) -> Result<(), Lost> {
        if self.link.borrow().as_ref().is_some_and(|link| !link.queue.is_intact()) {
            self.end_link(listener);
        }
        let mut link = self.link.borrow_mut();
        if link.is_none() {
            let (ticket, queue) = listener.connect_to_itself().map_err(|error| {
                tracing::error!("the server cannot reach its own memory over its RDMA device: {error}");
                Lost
            })?;
            *link = Some(Link { queue, lane: VerbsLane::default(), ticket });
        }
        let Link { queue, lane, .. } = link.as_mut().expect("made above if it was missing");
        queue.post(lane, listener.remote_shard(shard).ok_or(Lost)?, chain)?;
        let until_ns = self.shm.now() + PATIENCE_NS;
        loop {
            if let Some(outcome) = queue.poll(lane, chain) {
                return outcome;
            }
            if self.shm.now() > until_ns {
                queue.abandon(lane);
                return Err(Lost);
            }
            std::hint::spin_loop();
        }
    }
}

impl Fabric for Own {
    type Lane = ShmLane;

    fn capabilities(&self) -> Capabilities {
        let atomics = if self.swaps.is_some() { AtomicScope::Device } else { AtomicScope::Global };
        Capabilities { atomics, ..self.shm.capabilities() }
    }

    fn open_lane(&self) -> ShmLane {
        self.shm.open_lane()
    }

    #[inline]
    fn post(&self, lane: &mut ShmLane, shard: usize, chain: &mut Chain) -> Posted {
        let Some(listener) = &self.swaps else { return self.shm.post(lane, shard, chain) };
        let mut steps = chain.iter_mut();
        Posted::Done(steps.try_for_each(|step| self.step(listener, lane, shard, step)))
    }

    fn poll(&self, lane: &mut ShmLane, chain: &mut Chain) -> Option<Result<(), Lost>> {
        self.shm.poll(lane, chain)
    }

    fn abandon(&self, lane: &mut ShmLane) {
        self.shm.abandon(lane);
    }

    /// Can always be had: the queue pair is ended, and another made when needed.
    fn poll_fence(&self, _shard: usize) -> Option<Result<(), Lost>> {
        if let Some(listener) = &self.swaps {
            self.end_link(listener);
        }
        Some(Ok(()))
    }

    fn now(&self) -> u64 {
        self.shm.now()
    }

    fn fine_ns(&self) -> u64 {
        self.shm.fine_ns()
    }

    fn wall_ms(&self) -> u64 {
        self.shm.wall_ms()
    }
}
