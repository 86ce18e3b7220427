//! Why there is no RDMA, or no queue pair.

use super::choice::ChoiceError;
use super::windows::WindowError;
use farside_protocol::ErrorKind;
use farside_verbs_sys::{ConnectionError, EventKind, LoadError, RegisterError, VerbsError};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Why RDMA cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The libraries are not there.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// No device has the address that was asked for.
    #[error(
        "no RDMA device has the address {address} ({source}); `farside doctor` lists the devices and their addresses"
    )]
    NoDevice {
        /// The address.
        address: IpAddr,
        /// What librdmacm said.
        source: VerbsError,
    },
    /// The device cannot be used as it was named.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// This side's address and the server's do not go together.
    #[error(
        "the RDMA addresses {local}, of this host, and {peer}, of the server, are of different families: use another \
         address of the device (--rdma, or -d with -x)"
    )]
    Families {
        /// This host's.
        local: IpAddr,
        /// The server's.
        peer: IpAddr,
    },
    /// A shard is longer than the device can register.
    #[error(
        "a shard of {len} bytes is longer than the {max} bytes that {device} registers at once: use more shards \
         (--shards) or less memory (--memory)"
    )]
    ShardTooLong {
        /// Which device.
        device: String,
        /// Bytes.
        len: u64,
        /// At most.
        max: u64,
    },
    /// The device cannot bound what its peers WRITE.
    #[error(
        "{device} has no memory windows of type 2, or no atomics, without which nobody WRITEs: leave --memory-windows \
         away; with --untrusted-writers the server makes all changes"
    )]
    NoWindows {
        /// Which device.
        device: String,
    },
    /// Memory cannot be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// Memory windows cannot be bound.
    #[error(transparent)]
    Windows(#[from] WindowError),
    /// A step of connecting failed.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// A call failed.
    #[error(transparent)]
    Call(#[from] VerbsError),
    /// Nothing leads from this host's RDMA devices to the server's.
    #[error(
        "no RDMA device of this host reaches {peer} ({kind:?}, status {status}); are both on one fabric?"
    )]
    Unreachable {
        /// The server's RDMA address.
        peer: SocketAddr,
        /// At which step.
        kind: EventKind,
        /// librdmacm's number.
        status: i32,
    },
    /// The server does not know the session, or not any more.
    #[error("{peer} refused the queue pair: the session has ended, or another server is there now")]
    Rejected {
        /// The server's RDMA address.
        peer: SocketAddr,
    },
    /// Nothing came of it in time.
    #[error(
        "no queue pair to {peer} within {limit:?}; does a firewall keep RDMA (UDP port 4791 for RoCE) away?"
    )]
    Silent {
        /// The server's RDMA address.
        peer: SocketAddr,
        /// How long was waited.
        limit: Duration,
    },
    /// The server's Welcome makes no sense.
    #[error("the server's RDMA address `{0}` is none")]
    Address(String),
    /// The system refused a thread or a descriptor.
    #[error("cannot start listening for queue pairs: {0}")]
    System(#[from] std::io::Error),
}

impl SetupError {
    /// The kind a caller can act on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Load(_)
            | Self::NoDevice { .. }
            | Self::Choice(_)
            | Self::Families { .. }
            | Self::ShardTooLong { .. }
            | Self::NoWindows { .. }
            | Self::Register(_)
            | Self::Address(_) => ErrorKind::Refused,
            _ => ErrorKind::Unavailable,
        }
    }
}
