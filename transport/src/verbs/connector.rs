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
use std::thread;
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
    ahead: Mutex<Ahead>,
}

/// Queue pairs that are connected before they are asked for. The first is that by which the way was tried.
#[derive(Debug, Default)]
struct Ahead {
    ready: Option<Result<Verbs, SetupError>>,
    connecting: bool,
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
            ahead: Mutex::default(),
        };
        let first = connector.connect()?;
        connector.device = first.device();
        connector.ahead.get_mut().ready = Some(Ok(first));
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
        let ready = self.ahead.lock().ready.take();
        ready.unwrap_or_else(|| self.connect())
    }

    /// A queue pair for one thread, if one is ready; if none is, one is being connected, to be asked for again.
    pub fn open_soon(self: &Arc<Self>) -> Result<Option<Verbs>, SetupError> {
        let mut ahead = self.ahead.lock();
        if let Some(ready) = ahead.ready.take() {
            return ready.map(Some);
        }
        if !ahead.connecting {
            let connector = Arc::clone(self);
            thread::Builder::new().name("farside-rdma".into()).spawn(move || {
                let connected = connector.connect();
                *connector.ahead.lock() = Ahead { ready: Some(connected), connecting: false };
            })?;
            ahead.connecting = true;
        }
        Ok(None)
    }

    fn connect(&self) -> Result<Verbs, SetupError> {
        let queue = dial(self.verbs, self.peer, self.ticket, self.limit, &self.rdma)?;
        Verbs::new(queue, self.shards.clone(), self.capabilities, self.pulse.clone())
    }
}
