//! Reaches the server.

use super::error::ConnectError;
use super::{Options, handshake};
use crate::address::Address;
use farside_protocol::wire::{TOKEN_LEN_MAX, Welcome};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
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
    if options.wants_memory && matches!(options.address, Address::Tcp { .. }) {
        return Err(ConnectError::MemoryOverTcp { address: options.address.clone() });
    }
    let mut stream = match timeout(options.connect_timeout, reach(&options.address)).await {
        Ok(outcome) => outcome.map_err(|error| explain(options, &error))?,
        Err(_) => {
            let cause = format!("no answer within {:?}", options.connect_timeout);
            return Err(ConnectError::Unreachable { address: options.address.clone(), cause });
        }
    };
    match timeout(options.connect_timeout, handshake::greet(&mut stream, options)).await {
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

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Sockets keep nothing back.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Nothing here ends a connection in one direction: its end is a statement about memory (see `Lifeline`).
        Poll::Ready(Ok(()))
    }
}
