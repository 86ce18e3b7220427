//! A connection to a world, as a fabric.

use super::{ClientId, World};
use crate::capabilities::{AtomicScope, Capabilities};
use crate::fabric::{Buffers, Fabric, Lane, Posted};
use farside_hashtable::{Chain, Lost};

/// One client's connection to all shards of a [`World`].
#[derive(Clone, Debug)]
pub struct Sim {
    world: World,
    client: ClientId,
}

impl Sim {
    pub(super) fn new(world: World, client: ClientId) -> Self {
        Self { world, client }
    }

    /// Which connection of the world it is.
    pub fn client(&self) -> ClientId {
        self.client
    }
}

/// The buffers of one operation. Their contents travel with the chain, so they are free again as soon as it is given
/// up.
#[derive(Default, Debug)]
pub struct SimLane {
    buffers: Buffers,
    flight: Option<u64>,
}

impl Lane for SimLane {
    #[inline]
    fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    #[inline]
    fn buffers_mut(&mut self) -> &mut Buffers {
        &mut self.buffers
    }

    #[inline]
    fn in_flight(&self) -> bool {
        self.flight.is_some()
    }
}

impl Fabric for Sim {
    type Lane = SimLane;

    fn capabilities(&self) -> Capabilities {
        let all = Capabilities { read: true, write: true, atomics: AtomicScope::Global, ordered: true };
        all.without(self.world.conduct().denied)
    }

    fn open_lane(&self) -> SimLane {
        SimLane::default()
    }

    fn post(&self, lane: &mut SimLane, shard: usize, chain: &mut Chain) -> Posted {
        match self.world.post(self.client, shard, chain, lane.buffers.incoming.len(), &lane.buffers.outgoing)
        {
            Ok(flight) => {
                lane.flight = Some(flight);
                Posted::Pending
            }
            Err(Lost) => Posted::Done(Err(Lost)),
        }
    }

    fn poll(&self, lane: &mut SimLane, chain: &mut Chain) -> Option<Result<(), Lost>> {
        let flight = lane.flight.expect("only a lane in flight is polled");
        let outcome = self.world.take_outcome(flight, chain, &mut lane.buffers.incoming);
        match outcome {
            Some(_) => lane.flight = None,
            None => self.world.step(),
        }
        outcome
    }

    fn abandon(&self, lane: &mut SimLane) {
        self.world.abandon(lane.flight.take().expect("only a lane in flight is given up"));
    }

    fn poll_fence(&self, shard: usize) -> Option<Result<(), Lost>> {
        self.world.poll_fence(self.client, shard)
    }

    fn now(&self) -> u64 {
        self.world.coarse_ns()
    }

    /// Also lets one thing happen, for whoever waits for this clock alone.
    fn fine_ns(&self) -> u64 {
        self.world.step();
        self.world.now_ns()
    }

    fn wall_ms(&self) -> u64 {
        self.world.wall_ms()
    }
}
