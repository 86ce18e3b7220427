//! Reaches the server.

use super::error::ConnectError;
use super::{Options, handshake};
use crate::address::Address;
use bytes::BufMut;
use farside_protocol::wire::{TOKEN_LEN_MAX, Wants, Welcome};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// How long the kernel may try to get bytes to a host that does not acknowledge them. A server process that is
/// merely stopped does not matter here: its kernel acknowledges.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(30);

/// A connection of either kind.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Connects and opens the session, within the time that `options` give.
pub(super) async fn connect(options: &Options) -> Result<(Stream, Welcome), ConnectError> {
    if options.token.len() > TOKEN_LEN_MAX {
        return Err(ConnectError::TokenTooLong(options.token.len()));
    }
    if options.wants == Wants::Memory && matches!(options.address, Address::Tcp { .. }) {
        return Err(ConnectError::MemoryOverTcp { address: options.address.clone() });
    }
    let stream = match timeout(options.connect_timeout, reach(&options.address)).await {
        Ok(outcome) => outcome.map_err(|error| explain(options, &error))?,
        Err(_) => {
            let cause = format!("no answer within {:?}", options.connect_timeout);
            return Err(ConnectError::Unreachable { address: options.address.clone(), cause });
        }
    };
    match timeout(options.connect_timeout, handshake::greet(&stream, options)).await {
        Ok(outcome) => Ok((stream, outcome?)),
        Err(_) => {
            Err(ConnectError::Silent { address: options.address.clone(), after: options.connect_timeout })
        }
    }
}

async fn reach(address: &Address) -> io::Result<Stream> {
    match address {
        Address::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path).await?)),
        Address::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            let patience = UNACKNOWLEDGED_MAX.as_millis() as u32;
            rustix::net::sockopt::set_tcp_user_timeout(stream.as_fd(), patience)?;
            Ok(Stream::Tcp(stream))
        }
    }
}

fn explain(options: &Options, error: &io::Error) -> ConnectError {
    let (address, cause) = (options.address.clone(), error.to_string());
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::NotFound => ConnectError::NothingListens { address, cause },
        ErrorKind::PermissionDenied => ConnectError::Forbidden { address, cause },
        _ => ConnectError::Unreachable { address, cause },
    }
}

/// Both kinds work through a shared reference, so that reading and writing go on at the same time and a caller's
/// thread may write too. Neither direction is ever shut down alone: the end of a connection is a statement about
/// memory (see `Lifeline`).
impl Stream {
    async fn ready(&self, interest: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.ready(interest).await.map(drop),
            Self::Unix(stream) => stream.ready(interest).await.map(drop),
        }
    }

    /// Reads what is there into the room that `buffer` has; 0: the other end has closed.
    pub(super) async fn read(&self, buffer: &mut impl BufMut) -> io::Result<usize> {
        loop {
            self.ready(Interest::READABLE).await?;
            let outcome = match self {
                Self::Tcp(stream) => stream.try_read_buf(buffer),
                Self::Unix(stream) => stream.try_read_buf(buffer),
            };
            match outcome {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                outcome => return outcome,
            }
        }
    }

    /// Fills `bytes`.
    pub(super) async fn read_exact(&self, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.read(&mut bytes).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    /// Hands the kernel what it takes of `bytes` now.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// Hands the kernel some of `bytes`, when it takes any.
    pub(super) async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.try_write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                outcome => return outcome,
            }
            self.ready(Interest::WRITABLE).await?;
        }
    }

    /// Hands the kernel all of `bytes`.
    pub(super) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let len = self.write(bytes).await?;
            bytes = &bytes[len..];
        }
        Ok(())
    }
}
