//! Opens a connection over the transport that was asked for, or the best that works.

use crate::connection::{Connection, Reach};
use crate::error::{Error, Result};
use crate::settings::Settings;
use farside_protocol::ErrorKind;
use farside_protocol::wire::{Rights, Welcome};
use farside_transport::capabilities::Path;
use farside_transport::channel::{Channel, ConnectError, IoThread, Options};
use farside_transport::region::Populate;
use farside_transport::selection::{Active, Transport, TransportChoice};
use farside_transport::shm::{AttachError, Attached, attach};
use farside_transport::{Address, AtomicScope, Capabilities, Fabric as _, host};
use std::sync::Arc;

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
    /// Shared memory was asked for by name and cannot be had.
    NotHere(String),
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        Self::Connect(error)
    }
}

impl Failure {
    fn explain(self, address: &str) -> Error {
        let (kind, reason) = match self {
            Self::Connect(error) => (error.kind(), error.to_string()),
            Self::Attach(error) => (error.kind(), error.to_string()),
            Self::NotHere(reason) => (ErrorKind::Refused, reason),
        };
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
        connect_timeout: settings.deadline,
        ..Options::new(settings.address.clone())
    };
    let wants_shm = settings.transport != TransportChoice::Tcp;
    let strict = settings.transport == TransportChoice::Shm;
    if let (Address::Unix(_), true) = (&settings.address, wants_shm) {
        // The socket's own server, and nothing to compare it with.
        return share(settings, thread, options, None).await.map_err(Failure::Attach);
    }
    let (channel, _) = Channel::connect(thread, options.clone()).await?;
    let why_not = if !wants_shm {
        None
    } else {
        match same_host(&channel.welcome()) {
            Ok(socket) => {
                let instance = Some(channel.welcome().instance);
                let options = Options { address: socket, ..options };
                match share(settings, thread, options, instance).await {
                    Ok(reach) => return Ok(reach),
                    Err(error) if strict => return Err(Failure::Attach(error)),
                    Err(error) => Some(error.to_string()),
                }
            }
            Err(reason) if strict => {
                return Err(Failure::NotHere(format!("shm cannot be used: {reason}; use --transport tcp")));
            }
            Err(reason) => Some(reason),
        }
    };
    Ok(Reach { fabric: None, channel, why_not: why_not.map(|reason| format!("shm: {reason}")) })
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
    let Attached { fabric, channel } =
        attach(thread, options, instance, settings.denied, Populate::Lazily).await?;
    Ok(Reach { fabric: Some(fabric), channel, why_not: None })
}

fn active(settings: &Settings, reach: &Reach) -> Active {
    let welcome = reach.channel.welcome();
    let (transport, capabilities) = match &reach.fabric {
        Some(fabric) => (Transport::Shm, fabric.capabilities()),
        None => (Transport::Tcp, Capabilities::NONE),
    };
    let one_sided_everywhere = welcome
        .shards
        .iter()
        .all(|shard| capabilities.updates(shard.authority, welcome.rights) == Path::OneSided);
    let updates = if one_sided_everywhere { Path::OneSided } else { Path::TwoSided };
    let mut reasons: Vec<String> = reach.why_not.iter().cloned().collect();
    if transport == Transport::Shm {
        if capabilities.reads() == Path::TwoSided {
            reasons.push("reads: one-sided reads are denied (FARSIDE_DENY)".into());
        }
        if updates == Path::TwoSided {
            reasons.push(why_two_sided(welcome.rights, capabilities).into());
        }
    }
    Active {
        transport,
        peer: settings.address.to_string(),
        device: None,
        atomics: capabilities.atomics,
        reads: capabilities.reads(),
        updates,
        reasons,
    }
}

fn why_two_sided(rights: Rights, capabilities: Capabilities) -> &'static str {
    match rights {
        Rights::Read => "updates: this session may only read",
        Rights::ReadWrite if capabilities.atomics == AtomicScope::None || !capabilities.write => {
            "updates: one-sided updates are denied (FARSIDE_DENY)"
        }
        Rights::ReadWrite if !capabilities.read => "updates: they need one-sided reads",
        Rights::ReadWrite => "updates: the shard's words are the server's to change",
    }
}
