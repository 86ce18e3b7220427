//! The fabric that a session, or a server, turned out to have.

use crate::capabilities::Capabilities;
use crate::fabric::{Fabric, Lane, Posted};
use crate::shm::{Shm, ShmLane};
use crate::verbs::{Loopback, Verbs, VerbsLane};
use farside_hashtable::{Chain, Lost};

/// One of the fabrics of this build.
#[derive(Debug)]
pub enum AnyFabric {
    /// The shards in this process's memory, changed by its CPU.
    Shm(Shm),
    /// The server's own shards, whose words an RDMA device alone may change.
    Loopback(Loopback),
    /// The shards of another host, over a queue pair.
    Verbs(Verbs),
}

/// The lane of an [`AnyFabric`].
#[derive(Debug)]
pub enum AnyLane {
    /// Ordinary memory.
    Local(ShmLane),
    /// Registered memory.
    Verbs(VerbsLane),
}

/// Does the same with what is in the fabric, whichever it is.
macro_rules! each {
    ($any:expr, $fabric:ident => $does:expr) => {
        match $any {
            AnyFabric::Shm($fabric) => $does,
            AnyFabric::Loopback($fabric) => $does,
            AnyFabric::Verbs($fabric) => $does,
        }
    };
}

/// Does the same with a fabric and its lane.
macro_rules! with_lane {
    ($any:expr, $lane:expr, $fabric:ident, $its:ident => $does:expr) => {
        match ($any, $lane) {
            (AnyFabric::Shm($fabric), AnyLane::Local($its)) => $does,
            (AnyFabric::Loopback($fabric), AnyLane::Local($its)) => $does,
            (AnyFabric::Verbs($fabric), AnyLane::Verbs($its)) => $does,
            _ => unreachable!("a lane is used with the fabric that opened it"),
        }
    };
}

impl AnyFabric {
    /// Whether what it goes over stands, as far as is known.
    #[inline]
    pub fn is_intact(&self) -> bool {
        match self {
            Self::Shm(shm) => shm.is_intact(),
            Self::Loopback(_) => true,
            Self::Verbs(verbs) => verbs.is_intact(),
        }
    }

    /// Fetches memory of this process that is read soon, see [`Shm::touch`]; memory of another host cannot be.
    #[inline]
    pub fn touch(&self, shard: usize, at: u64, len: usize) {
        if let Self::Shm(shm) = self {
            shm.touch(shard, at, len);
        }
    }
}

impl Fabric for AnyFabric {
    type Lane = AnyLane;

    #[inline]
    fn capabilities(&self) -> Capabilities {
        each!(self, fabric => fabric.capabilities())
    }

    fn open_lane(&self) -> AnyLane {
        match self {
            Self::Shm(shm) => AnyLane::Local(shm.open_lane()),
            Self::Loopback(loopback) => AnyLane::Local(loopback.open_lane()),
            Self::Verbs(verbs) => AnyLane::Verbs(verbs.open_lane()),
        }
    }

    #[inline]
    fn post(&self, lane: &mut AnyLane, shard: usize, chain: &mut Chain) -> Posted {
        with_lane!(self, lane, fabric, lane => fabric.post(lane, shard, chain))
    }

    fn poll(&self, lane: &mut AnyLane, chain: &mut Chain) -> Option<Result<(), Lost>> {
        with_lane!(self, lane, fabric, lane => fabric.poll(lane, chain))
    }

    fn abandon(&self, lane: &mut AnyLane) {
        with_lane!(self, lane, fabric, lane => fabric.abandon(lane));
    }

    fn poll_fence(&self, shard: usize) -> Option<Result<(), Lost>> {
        each!(self, fabric => fabric.poll_fence(shard))
    }

    #[inline]
    fn now(&self) -> u64 {
        each!(self, fabric => fabric.now())
    }

    fn fine_ns(&self) -> u64 {
        each!(self, fabric => fabric.fine_ns())
    }

    #[inline]
    fn wall_ms(&self) -> u64 {
        each!(self, fabric => fabric.wall_ms())
    }
}

impl Lane for AnyLane {
    #[inline]
    fn reserve_incoming(&mut self, len: usize) {
        match self {
            Self::Local(lane) => lane.reserve_incoming(len),
            Self::Verbs(lane) => lane.reserve_incoming(len),
        }
    }

    #[inline]
    fn incoming(&self) -> &[u8] {
        match self {
            Self::Local(lane) => lane.incoming(),
            Self::Verbs(lane) => lane.incoming(),
        }
    }

    #[inline]
    fn outgoing(&mut self, len: usize) -> &mut [u8] {
        match self {
            Self::Local(lane) => lane.outgoing(len),
            Self::Verbs(lane) => lane.outgoing(len),
        }
    }

    #[inline]
    fn in_flight(&self) -> bool {
        match self {
            Self::Local(lane) => lane.in_flight(),
            Self::Verbs(lane) => lane.in_flight(),
        }
    }
}
