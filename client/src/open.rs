//! Opens a connection over the transport that was asked for, or the best that works.

use crate::connection::{Attached, Connection, Reach};
use crate::error::{Error, Result};
use crate::settings::Settings;
use farside_protocol::ErrorKind;
use farside_protocol::wire::{Rights, Wants, Welcome};
use farside_transport::capabilities::Path;
use farside_transport::channel::{Channel, ConnectError, IoThread, Options};
use farside_transport::region::Populate;
use farside_transport::selection::{Active, Transport, TransportChoice};
use farside_transport::shm::{self, AttachError, attach};
use farside_transport::verbs::{Connector, SetupError};
use farside_transport::{Address, AtomicScope, Capabilities, host};
use std::sync::Arc;
use std::time::Duration;

/// The longest that one attempt to connect may take: a try that a bad network has swallowed keeps nobody from the next.
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(10);

impl Connection {
    /// Connects as `settings` say.
    pub(crate) async fn open(settings: &Settings, thread: &Arc<IoThread>) -> Result<Self> {
        let address: Box<str> = settings.address.to_string().into();
        settings.transport.check_built().map_err(|error| Error::Configuration(error.to_string().into()))?;
        let reach = reach(settings, thread).await.map_err(|failure| failure.explain(&address))?;
        let active = active(settings, &reach);
        for requirement in &settings.requirements {
            requirement.check(&active).map_err(|unmet| Error::Rejected {
                kind: ErrorKind::Unavailable,
                address: address.clone(),
                reason: unmet.to_string().into(),
            })?;
        }
        Ok(Self::new(reach, active, address, Arc::clone(thread)))
    }
}

/// Why there is no connection.
enum Failure {
    Connect(ConnectError),
    Attach(AttachError),
    /// No queue pair.
    Verbs(SetupError),
    /// A transport was asked for by name and cannot be had.
    NotHere(String),
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        Self::Connect(error)
    }
}

impl Failure {
    fn reason(&self) -> String {
        match self {
            Self::Connect(error) => error.to_string(),
            Self::Attach(error) => error.to_string(),
            Self::Verbs(error) => error.to_string(),
            Self::NotHere(reason) => reason.clone(),
        }
    }

    fn explain(self, address: &str) -> Error {
        let kind = match &self {
            Self::Connect(error) => error.kind(),
            Self::Attach(error) => error.kind(),
            Self::Verbs(error) => error.kind(),
            Self::NotHere(_) => ErrorKind::Refused,
        };
        let mut reason = self.reason();
        if let Self::NotHere(_) = self {
            reason += "; use --transport tcp, or auto";
        }
        let (address, reason) = (address.into(), reason.into());
        match kind {
            ErrorKind::Unavailable => Error::Unavailable { address, reason },
            kind => Error::Rejected { kind, address, reason },
        }
    }
}

async fn reach(settings: &Settings, thread: &Arc<IoThread>) -> Result<Reach, Failure> {
    let options = Options {
        token: settings.token.clone(),
        rights: if settings.read_only { Rights::Read } else { Rights::ReadWrite },
        name: settings.name.clone(),
        connect_timeout: settings.deadline.min(CONNECT_TIMEOUT_MAX),
        ..Options::new(settings.address.clone())
    };
    let wanted = settings.transport;
    let may = |transport| wanted == transport || wanted == TransportChoice::Auto;
    if let (Address::Unix(_), true) = (&settings.address, may(TransportChoice::Shm)) {
        // The socket's own server, and nothing to compare it with.
        return share(settings, thread, options, None).await.map_err(Failure::Attach);
    }
    let (channel, _) = Channel::connect(thread, options.clone()).await?;
    let welcome = channel.welcome();
    let mut why_not = Vec::new();
    if may(TransportChoice::Shm) {
        let outcome = match same_host(&welcome) {
            Ok(socket) => {
                let options = Options { address: socket, ..options.clone() };
                share(settings, thread, options, Some(welcome.instance)).await.map_err(Failure::Attach)
            }
            Err(reason) => Err(Failure::NotHere(reason)),
        };
        match outcome {
            Err(failure) if wanted == TransportChoice::Auto => {
                why_not.push(format!("shm: {}", failure.reason()));
            }
            outcome => return outcome,
        }
    }
    if may(TransportChoice::Verbs) {
        let outcome = if welcome.rdma.is_empty() {
            Err(Failure::NotHere("the server uses no RDMA device (its --rdma)".into()))
        } else {
            connect_queue_pairs(settings, thread, options).await
        };
        match outcome {
            Err(failure) if wanted == TransportChoice::Auto => {
                why_not.push(format!("verbs: {}", failure.reason()));
            }
            outcome => return outcome,
        }
    }
    Ok(Reach { memory: None, channel, why_not })
}

/// Opens a session of its own with queue pairs: one for its messages, and the first for one-sided operations.
async fn connect_queue_pairs(
    settings: &Settings,
    thread: &Arc<IoThread>,
    options: Options,
) -> Result<Reach, Failure> {
    let options = Options { wants: Wants::QueuePairs, rdma: settings.rdma.clone(), ..options };
    let (channel, _) = Channel::connect(thread, options).await?;
    let (of, denied) = (channel.clone(), settings.denied);
    let connector = thread.run_blocking(move || Connector::new(&of, denied)).await;
    let connector = connector
        .unwrap_or_else(|| Err(SetupError::System(std::io::Error::other("the client is ending"))))
        .map_err(Failure::Verbs)?;
    Ok(Reach { memory: Some(Attached::Verbs(Arc::new(connector))), channel, why_not: Vec::new() })
}

/// The socket by which the server's memory can be had, if it is on this host.
fn same_host(welcome: &Welcome) -> Result<Address, String> {
    let here = host::boot_id().map_err(|error| format!("this host's boot id cannot be read: {error}"))?;
    if welcome.host != here {
        return Err("the server runs on another host".into());
    }
    if welcome.socket.is_empty() {
        return Err("the server has no Unix socket".into());
    }
    format!("unix:{}", welcome.socket).parse().map_err(|error| format!("the server's socket: {error}"))
}

async fn share(
    settings: &Settings,
    thread: &Arc<IoThread>,
    options: Options,
    instance: Option<u128>,
) -> Result<Reach, AttachError> {
    let shm::Attached { fabric, channel } =
        attach(thread, options, instance, settings.denied, Populate::Lazily).await?;
    Ok(Reach { memory: Some(Attached::Shm(fabric)), channel, why_not: Vec::new() })
}

fn active(settings: &Settings, reach: &Reach) -> Active {
    let welcome = reach.channel.welcome();
    let transport = match &reach.memory {
        Some(Attached::Shm(_)) => Transport::Shm,
        Some(Attached::Verbs(_)) => Transport::Verbs,
        None => Transport::Tcp,
    };
    let capabilities = reach.memory.as_ref().map_or(Capabilities::NONE, Attached::capabilities);
    let one_sided_everywhere = welcome
        .shards
        .iter()
        .all(|shard| capabilities.updates(shard.authority, welcome.memory_rights) == Path::OneSided);
    let updates = if one_sided_everywhere { Path::OneSided } else { Path::TwoSided };
    let mut reasons = reach.why_not.clone();
    if transport != Transport::Tcp {
        if capabilities.reads() == Path::TwoSided {
            reasons.push("reads: one-sided reads are denied (FARSIDE_DENY)".into());
        }
        if updates == Path::TwoSided {
            reasons.push(why_two_sided(&welcome, capabilities).into());
        }
    }
    Active {
        transport,
        peer: settings.address.to_string(),
        device: match &reach.memory {
            Some(Attached::Verbs(connector)) => Some(connector.device().to_owned()),
            _ => None,
        },
        atomics: capabilities.atomics,
        reads: capabilities.reads(),
        updates,
        reasons,
    }
}

fn why_two_sided(welcome: &Welcome, capabilities: Capabilities) -> &'static str {
    let device_atomics = welcome.queue_pairs.as_ref().map(|queue_pairs| queue_pairs.atomics);
    match welcome.rights {
        Rights::Read => "updates: this session may only read",
        Rights::ReadWrite if welcome.memory_rights == Rights::Read => {
            "updates: the server makes its clients' changes itself (its --untrusted-writers)"
        }
        Rights::ReadWrite if device_atomics == Some(AtomicScope::None) => {
            "updates: the server's RDMA device has no atomics"
        }
        Rights::ReadWrite if capabilities.atomics == AtomicScope::None || !capabilities.write => {
            "updates: one-sided updates are denied (FARSIDE_DENY)"
        }
        Rights::ReadWrite if !capabilities.read => "updates: they need one-sided reads",
        Rights::ReadWrite => "updates: the shard's words are the server's to change",
    }
}
