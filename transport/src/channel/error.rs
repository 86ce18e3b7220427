//! What can go wrong on a channel, told so that a person knows what to do and a program which kind it is.

use crate::address::Address;
use crate::verbs::SetupError;
use farside_protocol::ErrorKind;
use farside_protocol::record::SizeError;
use farside_protocol::wire::{DecodeError, VERSION};
use std::sync::Arc;
use std::time::Duration;

/// Why no session could be opened.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectError {
    /// The connection was refused, or the socket's file is not there.
    #[error("nothing listens at {address} ({cause}); start farside-server there, or correct the address")]
    NothingListens {
        /// Where.
        address: Address,
        /// The system's words.
        cause: String,
    },
    /// The host cannot be found or reached.
    #[error("cannot reach {address}: {cause}; check the host's name, the network and firewalls")]
    Unreachable {
        /// Where.
        address: Address,
        /// The system's words.
        cause: String,
    },
    /// A Unix socket of another user.
    #[error("may not open {address} ({cause}); connect as the user that the server runs as, or over TCP")]
    Forbidden {
        /// Where.
        address: Address,
        /// The system's words.
        cause: String,
    },
    /// Something listens and does not answer.
    #[error(
        "{address} accepted the connection and did not answer within {after:?}; the server is stopped or overloaded, or it is not Farside"
    )]
    Silent {
        /// Where.
        address: Address,
        /// How long it was waited for.
        after: Duration,
    },
    /// Something else listens there.
    #[error(
        "what listens at {address} is not Farside (it answered {first_bytes}); correct the address or the port"
    )]
    Foreign {
        /// Where.
        address: Address,
        /// What it sent first, escaped.
        first_bytes: String,
    },
    /// A server of another wire version.
    #[error(
        "the server at {address} speaks wire version {theirs}, this client {VERSION}; use builds of the same version"
    )]
    OtherVersion {
        /// Where.
        address: Address,
        /// The server's version.
        theirs: u8,
    },
    /// The server closed the connection in the middle of the handshake.
    #[error("{address} closed the connection during the handshake ({cause}); the server's log may say why")]
    Closed {
        /// Where.
        address: Address,
        /// What was seen.
        cause: String,
    },
    /// The server did not accept the session.
    #[error("the server at {address} refused the session: {message}")]
    Refused {
        /// Where.
        address: Address,
        /// The kind, most often [`ErrorKind::Refused`].
        kind: ErrorKind,
        /// The server's words, which say what to do about a token that is wrong or missing.
        message: String,
    },
    /// The server's answer makes no sense.
    #[error(
        "the server at {address} answered the handshake with nonsense: {cause}; use builds of the same version"
    )]
    Malformed {
        /// Where.
        address: Address,
        /// What was wrong.
        cause: String,
    },
    /// The memory asked for did not come.
    #[error("the server at {address} did not pass its memory: {cause}")]
    NoMemory {
        /// Where.
        address: Address,
        /// What was wrong.
        cause: String,
    },
    /// The options cannot be sent.
    #[error("the token has {0} bytes; a token has at most {max} bytes", max = farside_protocol::wire::TOKEN_LEN_MAX)]
    TokenTooLong(usize),
    /// Memory was asked for over TCP.
    #[error("{address} is no Unix socket, and only a Unix socket can pass memory")]
    MemoryOverTcp {
        /// Where.
        address: Address,
    },
    /// The queue pair for the session's messages did not come about.
    #[error(transparent)]
    QueuePair(Arc<SetupError>),
    /// The I/O thread has ended.
    #[error("cannot connect to {address}: the I/O thread has ended")]
    Stopped {
        /// Where.
        address: Address,
    },
}

impl ConnectError {
    /// The kind a caller can act on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused { kind, .. } => *kind,
            Self::Foreign { .. } | Self::OtherVersion { .. } | Self::Malformed { .. } => {
                ErrorKind::Incompatible
            }
            Self::Forbidden { .. } => ErrorKind::Refused,
            Self::QueuePair(error) => error.kind(),
            Self::TokenTooLong(_) | Self::MemoryOverTcp { .. } => ErrorKind::Invalid,
            Self::NothingListens { .. }
            | Self::Unreachable { .. }
            | Self::Silent { .. }
            | Self::Closed { .. }
            | Self::NoMemory { .. }
            | Self::Stopped { .. } => ErrorKind::Unavailable,
        }
    }
}

/// Why a call has no answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CallError {
    /// The server answered with an error.
    #[error("{message}")]
    Answered {
        /// The kind.
        kind: ErrorKind,
        /// The server's words.
        message: Box<str>,
    },
    /// The deadline passed, and the request had no effect.
    #[error("no answer from {0} by the deadline; the request had no effect")]
    Deadline(Arc<Address>),
    /// The deadline passed, or the connection broke, when a change may have reached the server.
    #[error("{cause}; the change may or may not have happened")]
    Indeterminate {
        /// What happened.
        cause: Arc<str>,
    },
    /// The server cannot be reached now; the request had no effect.
    #[error("{cause}; the request had no effect")]
    Unavailable {
        /// What happened.
        cause: Arc<str>,
    },
    /// The answer is no message.
    #[error("the server's answer makes no sense: {0}; use builds of the same version")]
    Malformed(#[from] DecodeError),
    /// The value is too long to be sent.
    #[error(transparent)]
    TooLarge(#[from] SizeError),
    /// A lease or report of too many blocks.
    #[error("a request names {0} blocks; it can name at most {max}", max = farside_protocol::wire::LIVES_MAX)]
    TooManyBlocks(usize),
}

impl CallError {
    /// The kind a caller can act on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Answered { kind, .. } => *kind,
            Self::Deadline(_) => ErrorKind::Deadline,
            Self::Indeterminate { .. } => ErrorKind::Indeterminate,
            Self::Unavailable { .. } => ErrorKind::Unavailable,
            Self::Malformed(_) => ErrorKind::Incompatible,
            Self::TooLarge(_) => ErrorKind::TooLarge,
            Self::TooManyBlocks(_) => ErrorKind::Invalid,
        }
    }
}
