//! The fabric of a client with a queue pair.

use super::error::SetupError;
use super::lane::VerbsLane;
use super::queue::Queue;
use super::remote::RemoteShard;
use crate::capabilities::Capabilities;
use crate::channel::Pulse;
use crate::clock;
use crate::fabric::{Fabric, Posted};
use farside_hashtable::{Chain, Lost, Step};
use farside_protocol::Life;
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// One thread's queue pair to the shards of one server.
#[derive(Debug)]
pub struct Verbs {
    queue: Queue,
    shards: Arc<[RemoteShard]>,
    /// The number of the server's end of the queue pair.
    peer: u32,
    /// The keys of leased blocks, by shard and place, where the server bounds WRITEs by memory windows.
    windows: RefCell<HashMap<(usize, u64), (Life, u32)>>,
    capabilities: Capabilities,
    pulse: Pulse,
}

impl Verbs {
    pub(super) fn new(
        queue: Queue,
        shards: Arc<[RemoteShard]>,
        capabilities: Capabilities,
        pulse: Pulse,
    ) -> Result<Self, SetupError> {
        let (peer, windows) = (queue.peer()?, RefCell::default());
        Ok(Self { queue, shards, peer, windows, capabilities, pulse })
    }

    /// Names the queue pair to the server.
    pub fn peer(&self) -> u32 {
        self.peer
    }

    /// Takes in the keys of blocks that were leased to be written by this queue pair, as they came with the lease.
    pub fn open_windows(&self, shard: usize, lives: &[Life], keys: &[u32]) {
        let opened = lives.iter().zip(keys).map(|(life, key)| ((shard, life.block.offset()), (*life, *key)));
        self.windows.borrow_mut().extend(opened);
    }

    /// Forgets those of leases that end.
    pub fn close_windows(&self, shard: usize, lives: &[Life]) {
        let mut windows = self.windows.borrow_mut();
        if windows.is_empty() {
            return;
        }
        for life in lives {
            // The block may be leased again already.
            if let Entry::Occupied(window) = windows.entry((shard, life.block.offset()))
                && window.get().0 == *life
            {
                window.remove();
            }
        }
    }

    /// The key of the window through which `chain` WRITEs, if there is one. It WRITEs to one block at most.
    fn window(&self, shard: usize, chain: &Chain) -> Option<u32> {
        let windows = self.windows.borrow();
        if windows.is_empty() {
            return None;
        }
        let written =
            |step: &Step| if let Step::Write { at, .. } = step { windows.get(&(shard, *at)) } else { None };
        chain.iter().find_map(written).map(|(_, key)| *key)
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
        let Some(memory) = self.shards.get(shard) else { return Posted::Done(Err(Lost)) };
        // A session that has run out changes nothing any more, though its queue pair may still be there.
        let changes = chain.iter().any(|step| !matches!(step, Step::Read { .. }));
        if !self.pulse.is_up() || changes && !self.may_change() {
            return Posted::Done(Err(Lost));
        }
        let posted = match self.window(shard, chain) {
            Some(key) => self.queue.post(lane, &memory.through(key), chain),
            None => self.queue.post(lane, memory, chain),
        };
        match posted {
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
