//! A client's side: from a Welcome to queue pairs.

use super::dial::dial;
use super::error::SetupError;
use super::fabric::Verbs;
use super::remote::RemoteShard;
use super::settings::Rdma;
use crate::capabilities::{AtomicScope, Capabilities, Denied};
use crate::channel::{Channel, Pulse};
use farside_protocol::wire::Rights;
use farside_verbs_sys as sys;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// A session that may connect queue pairs, one for each thread.
#[derive(Debug)]
pub struct Connector {
    verbs: &'static sys::Verbs,
    peer: SocketAddr,
    ticket: u128,
    limit: Duration,
    rdma: Rdma,
    shards: Arc<[RemoteShard]>,
    capabilities: Capabilities,
    pulse: Pulse,
    device: String,
    /// The queue pair by which the way was tried.
    first: Mutex<Option<Verbs>>,
}

impl Connector {
    /// For the session of `channel`, which asked for queue pairs. Connects the first one, to see that it can be done:
    /// within `limit`, as each further one, and as `rdma` says. Blocks.
    pub fn new(
        channel: &Channel,
        denied: Denied,
        limit: Duration,
        mut rdma: Rdma,
    ) -> Result<Self, SetupError> {
        let verbs = sys::Verbs::load()?;
        let welcome = channel.welcome();
        let address = || SetupError::Address(welcome.rdma.clone());
        let peer = welcome.rdma.parse().map_err(|_| address())?;
        let offer = welcome.queue_pairs.as_ref().ok_or_else(address)?;
        let shards = offer.memory.iter().zip(&welcome.shards);
        let shards = shards.map(|(memory, shard)| RemoteShard::new(*memory, &shard.geometry)).collect();
        let writes = welcome.memory_rights == Rights::ReadWrite && offer.atomics != AtomicScope::None;
        let capabilities = Capabilities {
            read: true,
            write: writes,
            atomics: if writes { offer.atomics } else { AtomicScope::None },
            ordered: true,
        };
        if let Some(device) = &mut rdma.device {
            // Once, for all its queue pairs.
            *device = device.address()?.into();
        }
        let mut connector = Self {
            verbs,
            peer,
            ticket: offer.ticket,
            limit,
            rdma,
            shards,
            capabilities: capabilities.without(denied),
            pulse: channel.pulse(),
            device: String::new(),
            first: Mutex::new(None),
        };
        let first = connector.connect()?;
        connector.device = first.device();
        *connector.first.get_mut() = Some(first);
        Ok(connector)
    }

    /// The device and port that its queue pairs go over.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// What its queue pairs can do.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Whether the session stands, as far as is known.
    #[inline]
    pub fn is_intact(&self) -> bool {
        self.pulse.is_felt()
    }

    /// A queue pair for one thread. Blocks.
    pub fn open(&self) -> Result<Verbs, SetupError> {
        let first = self.first.lock().take();
        first.map_or_else(|| self.connect(), Ok)
    }

    fn connect(&self) -> Result<Verbs, SetupError> {
        let queue = dial(self.verbs, self.peer, self.ticket, self.limit, &self.rdma)?;
        Ok(Verbs::new(queue, self.shards.clone(), self.capabilities, self.pulse.clone()))
    }
}
