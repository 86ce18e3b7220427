//! The messages that travel beside the one-sided traffic, over TCP and Unix sockets.
//!
//! A connection begins with [`PREFACE`] in both directions, so that a wrong port or another version is recognised
//! before anything else is read. Then frames follow:
//!
//! ```text
//! 0          4      5       8          16
//! +----------+------+-------+----------+------+
//! | body_len | kind | zero  | id       | body |
//! | u32      | u8   | 3 B   | u64      |      |
//! +----------+------+-------+----------+------+
//! ```
//! The client numbers its requests; the answer carries the request's id. Answers come in the order of the
//! requests of one connection. The first request is [`Request::Hello`], answered by [`Response::Welcome`].
//! All integers are little-endian.

mod codec;
mod handshake;
mod request;
mod response;

pub use codec::{DecodeError, FrameHeader};
pub use handshake::{AtomicScope, Hello, QueuePairs, RemoteMemory, Rights, Wants, Welcome};
pub use request::{Condition, Request, ScanPosition};
pub use response::{Hint, Response, ScanEntry, Statistic};

use crate::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};

/// The version of this wire format, the last byte of the preface.
pub const VERSION: u8 = 1;

/// What both ends send first.
pub const PREFACE: [u8; 8] = *b"FARSIDE\x01";

/// Bytes of a frame's header.
pub const HEADER_LEN: usize = 16;

/// Longest body of a frame: the largest value with the longest key, and the fields beside them.
pub const BODY_LEN_MAX: usize = VALUE_LEN_MAX + KEY_LEN_MAX + 256;

/// The id of an error that answers no request: it says why the server ends the connection, and is its last frame.
pub const PARTING: u64 = u64::MAX;

/// Longest token, bytes.
pub const TOKEN_LEN_MAX: usize = 256;

/// Most blocks in one lease or report.
pub const LIVES_MAX: usize = 4096;

/// What the first eight bytes of the other end say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// It speaks this version.
    Same,
    /// It is Farside of another wire version.
    OtherVersion(u8),
    /// It is something else.
    Foreign,
}

/// Judges a peer by its first eight bytes.
pub fn judge_preface(bytes: &[u8; 8]) -> Peer {
    match bytes {
        _ if *bytes == PREFACE => Peer::Same,
        [rest @ .., version] if rest == &PREFACE[..7] => Peer::OtherVersion(*version),
        _ => Peer::Foreign,
    }
}

const _: () = assert!(PREFACE[7] == VERSION);

#[cfg(test)]
mod tests;
