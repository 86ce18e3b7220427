//! The client's side of the first exchange.

use super::Options;
use super::connect::Stream;
use super::error::ConnectError;
use super::shared::Lifeline;
use crate::fd_passing;
use farside_protocol::wire::{
    DecodeError, FrameHeader, HEADER_LEN, Hello, PREFACE, Peer, Request, Response, Welcome, judge_preface,
};
use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use tokio::io::Interest;
use tokio::sync::oneshot;

/// Longest answer to a Hello that is believed, bytes: a Welcome of 64 shards has not a tenth of it.
const ANSWER_LEN_MAX: u32 = 1 << 18;

/// The shards' memory, as passed.
#[derive(Debug)]
pub struct Memory {
    /// A descriptor for each shard, in their order, not yet checked or mapped.
    pub files: Vec<OwnedFd>,
    /// To be held until all mappings of the memory are gone.
    pub lifeline: Lifeline,
    /// Ends when the session has ended, and the memory is to be let go.
    pub ended: oneshot::Receiver<Infallible>,
}

/// Opens the session. Reads not a byte past the Welcome, since descriptors may come with the next.
pub(super) async fn greet(stream: &Stream, options: &Options) -> Result<Welcome, ConnectError> {
    let address = || options.address.clone();
    let closed = |error: &io::Error| ConnectError::Closed { address: address(), cause: error.to_string() };
    let malformed =
        |cause: DecodeError| ConnectError::Malformed { address: address(), cause: cause.to_string() };

    let mut hello = PREFACE.to_vec();
    let request = Request::Hello(Hello {
        token: &options.token,
        rights: options.rights,
        wants: options.wants,
        name: &options.name,
    });
    request.encode(0, &mut hello);
    stream.write_all(&hello).await.map_err(|error| closed(&error))?;
    read_preface(stream, options).await?;

    let mut header = [0; HEADER_LEN];
    stream.read_exact(&mut header).await.map_err(|error| closed(&error))?;
    let header = FrameHeader::decode(&header).map_err(malformed)?;
    if header.body_len > ANSWER_LEN_MAX {
        return Err(malformed(DecodeError::BodyTooLong(header.body_len)));
    }
    let mut body = vec![0; header.body_len as usize];
    stream.read_exact(&mut body).await.map_err(|error| closed(&error))?;
    match Response::decode(header.kind, &body).map_err(malformed)? {
        Response::Welcome(welcome) => Ok(welcome),
        Response::Error { kind, message } => {
            Err(ConnectError::Refused { address: address(), kind, message: message.into() })
        }
        _ => Err(ConnectError::Malformed {
            address: address(),
            cause: format!("a message of kind {:#04x} instead of a welcome", header.kind),
        }),
    }
}

/// Who is there, by its first eight bytes, however they arrive.
async fn read_preface(stream: &Stream, options: &Options) -> Result<(), ConnectError> {
    let address = || options.address.clone();
    let mut preface = [0; PREFACE.len()];
    let mut len = 0;
    while len < preface.len() {
        match stream.read(&mut &mut preface[len..]).await {
            Ok(read) if read > 0 => len += read,
            // A foreign service may say little before it hangs up.
            _ if len > 0 => return Err(foreign(options, &preface[..len])),
            Ok(_) => {
                let cause = "without a word, as a service that is not Farside may".into();
                return Err(ConnectError::Closed { address: address(), cause });
            }
            Err(error) => return Err(ConnectError::Closed { address: address(), cause: error.to_string() }),
        }
        if preface[..len] != PREFACE[..len] && len < preface.len() {
            return Err(foreign(options, &preface[..len]));
        }
    }
    match judge_preface(&preface) {
        Peer::Same => Ok(()),
        Peer::OtherVersion(theirs) => Err(ConnectError::OtherVersion { address: address(), theirs }),
        Peer::Foreign => Err(foreign(options, &preface)),
    }
}

fn foreign(options: &Options, first: &[u8]) -> ConnectError {
    let first_bytes = format!("`{}`", first.escape_ascii());
    ConnectError::Foreign { address: options.address.clone(), first_bytes }
}

/// Receives the descriptors of `count` shards behind the Welcome.
pub(super) async fn receive_memory(
    stream: &Stream,
    options: &Options,
    count: usize,
) -> Result<(Vec<OwnedFd>, OwnedFd), ConnectError> {
    let Some(socket) = stream.unix() else {
        return Err(ConnectError::MemoryOverTcp { address: options.address.clone() });
    };
    let failed = |error: io::Error| ConnectError::NoMemory {
        address: options.address.clone(),
        cause: error.to_string(),
    };
    let receive = || fd_passing::receive(socket, count);
    let files = socket.async_io(Interest::READABLE, receive).await.map_err(failed)?;
    let lifeline = socket.as_fd().try_clone_to_owned().map_err(failed)?;
    Ok((files, lifeline))
}
