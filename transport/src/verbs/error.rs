//! Why there is no RDMA, or no queue pair.

use super::choice::ChoiceError;
use farside_protocol::ErrorKind;
use farside_verbs_sys::{ConnectionError, EventKind, LoadError, RegisterError, VerbsError};
use std::net::SocketAddr;
use std::time::Duration;

/// Why RDMA cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The libraries are not there.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// No device has the address that the server was told to use.
    #[error(
        "no RDMA device has the address {address} ({source}); `farside doctor` lists the devices and their addresses"
    )]
    NoDevice {
        /// The address.
        address: SocketAddr,
        /// What librdmacm said.
        source: VerbsError,
    },
    /// The device cannot be used as it was named.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// Memory cannot be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
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
            | Self::Register(_)
            | Self::Address(_) => ErrorKind::Refused,
            _ => ErrorKind::Unavailable,
        }
    }
}
