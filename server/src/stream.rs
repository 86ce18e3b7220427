//! A connection's socket, of either kind.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A socket before it belongs to a thread's event loop.
#[derive(Debug)]
pub(crate) enum Accepted {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

/// A socket in a thread's event loop.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub(crate) fn new(socket: Accepted) -> io::Result<Self> {
        match socket {
            Accepted::Tcp(socket) => {
                socket.set_nodelay(true)?;
                TcpStream::from_std(socket).map(Self::Tcp)
            }
            Accepted::Unix(socket) => UnixStream::from_std(socket).map(Self::Unix),
        }
    }

    /// Whether descriptors can be passed over it.
    pub(crate) fn is_unix(&self) -> bool {
        matches!(self, Self::Unix(_))
    }

    /// Where it comes from, for the log.
    pub(crate) fn peer(&self) -> String {
        match self {
            Self::Tcp(stream) => stream.peer_addr().map_or_else(|_| "tcp".into(), |peer| peer.to_string()),
            Self::Unix(stream) => {
                let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
                pid.map_or_else(|| "unix".into(), |pid| format!("unix pid {pid}"))
            }
        }
    }

    /// Calls `write` on the socket, again whenever it is ready, until it does not say `WouldBlock`.
    pub(crate) async fn write_with<T>(
        &self,
        mut write: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        match self {
            Self::Tcp(stream) => stream.async_io(Interest::WRITABLE, || write(stream.as_fd())).await,
            Self::Unix(stream) => stream.async_io(Interest::WRITABLE, || write(stream.as_fd())).await,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A socket holds nothing back.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
