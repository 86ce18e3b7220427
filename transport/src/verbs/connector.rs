//! A client's side: from a Welcome to queue pairs.

use super::dial::Dial;
use super::error::SetupError;
use super::fabric::Verbs;
use super::remote::RemoteShard;
use crate::capabilities::{AtomicScope, Capabilities, Denied};
use crate::channel::{Channel, Pulse};
use farside_protocol::wire::Rights;
use parking_lot::Mutex;
use std::sync::Arc;
use std::thread;

/// A session that may connect queue pairs, one for each thread.
#[derive(Debug)]
pub struct Connector {
    dial: Dial,
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
    /// as the channel's options say, like each further one. Blocks.
    pub fn new(channel: &Channel, denied: Denied) -> Result<Self, SetupError> {
        let welcome = channel.welcome();
        let dial = channel.dial()?;
        let offer = welcome.queue_pairs.as_ref().expect("who can dial has an offer");
        let shards = offer.memory.iter().zip(&welcome.shards);
        let shards = shards.map(|(memory, shard)| RemoteShard::new(*memory, &shard.geometry)).collect();
        let writes = welcome.memory_rights == Rights::ReadWrite && offer.atomics != AtomicScope::None;
        let capabilities = Capabilities {
            read: true,
            write: writes,
            atomics: if writes { offer.atomics } else { AtomicScope::None },
            ordered: true,
        };
        let mut connector = Self {
            dial,
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
        Verbs::new(self.dial.queue()?, self.shards.clone(), self.capabilities, self.pulse.clone())
    }
}
