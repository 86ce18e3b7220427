//! What can go wrong, and what to do about it.

use farside_protocol::ErrorKind;
use farside_protocol::record::SizeError;
use std::path::PathBuf;
use std::time::Duration;

/// Why an operation or a connection failed. [`Error::kind`] is what programs act on; the message tells people
/// what is wrong and what to do. That a key is absent, or has another version, is an answer and no error.
///
/// ```
/// # let farside = farside::embedded()?;
/// let error = farside.session()?.put("", "no key").unwrap_err();
/// assert_eq!(error.kind(), farside::ErrorKind::Invalid);
/// assert_eq!(error.to_string(), "the key is empty; a key has 1 to 4096 bytes");
/// # Ok::<(), farside::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Key or value outside the limits.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The deadline passed and the operation had no effect.
    #[error(
        "not done within {0:?}, and without effect: try again, or allow it more time; if it persists, the server is \
         overloaded or stopped"
    )]
    Deadline(Duration),
    /// The deadline passed or the connection broke while the operation was under way.
    #[error(
        "the operation may or may not have taken effect: {0}; read the key to find out, and repeat only what may \
         be done twice"
    )]
    Indeterminate(Box<str>),
    /// The index has no slot for another key here.
    #[error(
        "the index has no room for this key: delete keys near it, or start the server with a larger --max-keys; \
         existing keys are served"
    )]
    IndexFull,
    /// fetch-add on a value that is no counter.
    #[error(
        "the value is no counter, so nothing can be added to it: delete the key to start counting from 0"
    )]
    NotACounter,
    /// fetch-add past the range of an `i64`.
    #[error("the counter would leave the range of a signed 64-bit integer: nothing was added")]
    Overflow,
    /// A scan that began on another table.
    #[error("the server has another table than that on which this scan began: begin it anew")]
    ScanVoid,
    /// An update in a session that may only read.
    #[error("this session may only read: connect without read_only, and with a token that may write")]
    ReadOnly,
    /// No connection to the server.
    #[error("{reason}")]
    Unavailable {
        /// The address as it was given.
        address: Box<str>,
        /// What happened there and what to do.
        reason: Box<str>,
    },
    /// The server cannot be talked to, for a reason that trying again does not change.
    #[error("{reason}")]
    Rejected {
        /// What a caller can act on.
        kind: ErrorKind,
        /// The address as it was given.
        address: Box<str>,
        /// What happened and what to do.
        reason: Box<str>,
    },
    /// The server answered a request with an error.
    #[error("the server says: {message}")]
    Server {
        /// What a caller can act on.
        kind: ErrorKind,
        /// The server's words.
        message: Box<str>,
    },
    /// The token file is of no use.
    #[error("the token file {}: {reason}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it and what to do.
        reason: Box<str>,
    },
    /// The embedded server did not start.
    #[error("cannot start the server: {0}")]
    Start(Box<str>),
    /// The builder was given something it cannot use.
    #[error("{0}")]
    Configuration(Box<str>),
}

impl Error {
    /// The stable kind, the same in every language, transport and report.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Size(SizeError::EmptyKey) | Self::NotACounter | Self::Overflow => ErrorKind::Invalid,
            Self::Size(SizeError::KeyTooLong(_) | SizeError::ValueTooLong(_)) => ErrorKind::TooLarge,
            Self::Deadline(_) => ErrorKind::Deadline,
            Self::Indeterminate(_) => ErrorKind::Indeterminate,
            Self::IndexFull => ErrorKind::Full,
            Self::ReadOnly => ErrorKind::Refused,
            Self::ScanVoid => ErrorKind::Incompatible,
            Self::Unavailable { .. } | Self::Start(_) => ErrorKind::Unavailable,
            Self::Rejected { kind, .. } | Self::Server { kind, .. } => *kind,
            Self::TokenFile { .. } | Self::Configuration(_) => ErrorKind::Invalid,
        }
    }
}

/// The result of this crate's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    /// Errors travel on the path of nanoseconds: they stay small.
    #[test]
    fn errors_are_small() {
        assert!(size_of::<Error>() <= 48, "{}", size_of::<Error>());
    }
}
