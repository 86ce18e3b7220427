//! The fabric of a client with a queue pair.

use super::lane::VerbsLane;
use super::queue::Queue;
use super::remote::RemoteShard;
use crate::capabilities::Capabilities;
use crate::channel::Pulse;
use crate::clock;
use crate::fabric::{Fabric, Posted};
use farside_hashtable::{Chain, Lost, Step};
use std::sync::Arc;

/// One thread's queue pair to the shards of one server.
#[derive(Debug)]
pub struct Verbs {
    queue: Queue,
    shards: Arc<[RemoteShard]>,
    capabilities: Capabilities,
    pulse: Pulse,
}

impl Verbs {
    pub(super) fn new(
        queue: Queue,
        shards: Arc<[RemoteShard]>,
        capabilities: Capabilities,
        pulse: Pulse,
    ) -> Self {
        Self { queue, shards, capabilities, pulse }
    }

    /// The device and its port.
    pub(super) fn device(&self) -> String {
        self.queue.device()
    }

    /// Whether queue pair and session stand, as far as is known. Once they do not they never will again. READs need no
    /// more: a server that is stopped leaves them to its device, and when it goes on it ends the queue pair before it
    /// uses the memory for anything else.
    #[inline]
    pub fn is_intact(&self) -> bool {
        self.pulse.is_up() && self.queue.is_intact()
    }

    /// Whether the session cannot have run out.
    #[inline]
    pub fn may_change(&self) -> bool {
        self.pulse.is_felt()
    }
}

impl Fabric for Verbs {
    type Lane = VerbsLane;

    #[inline]
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn open_lane(&self) -> VerbsLane {
        VerbsLane::default()
    }

    fn post(&self, lane: &mut VerbsLane, shard: usize, chain: &mut Chain) -> Posted {
        let Some(shard) = self.shards.get(shard) else { return Posted::Done(Err(Lost)) };
        // A session that has run out changes nothing any more, though its queue pair may still be there.
        let changes = chain.iter().any(|step| !matches!(step, Step::Read { .. }));
        if !self.pulse.is_up() || changes && !self.may_change() {
            return Posted::Done(Err(Lost));
        }
        match self.queue.post(lane, shard, chain) {
            Ok(()) => Posted::Pending,
            Err(Lost) => Posted::Done(Err(Lost)),
        }
    }

    fn poll(&self, lane: &mut VerbsLane, chain: &mut Chain) -> Option<Result<(), Lost>> {
        self.queue.poll(lane, chain)
    }

    fn hold(&self) {
        self.queue.hold();
    }

    fn release(&self) {
        self.queue.release();
    }

    fn rest(&self) {
        self.queue.rest();
    }

    fn abandon(&self, lane: &mut VerbsLane) {
        self.queue.abandon(lane);
    }

    fn poll_fence(&self, _shard: usize) -> Option<Result<(), Lost>> {
        self.queue.poll_fence()
    }

    /// Exact, as the clock of who does not share the server's ticks has to be (see [`clock`]).
    #[inline]
    fn now(&self) -> u64 {
        clock::fine_ns()
    }

    fn fine_ns(&self) -> u64 {
        clock::fine_ns()
    }

    #[inline]
    fn wall_ms(&self) -> u64 {
        clock::wall_ms()
    }
}
