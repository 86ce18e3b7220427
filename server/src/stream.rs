//! What a connection's bytes go over: a socket, of either kind, and after it perhaps a queue pair.

use farside_transport::verbs::{self, Pipe};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A socket before it belongs to a thread's event loop.
#[derive(Debug)]
pub(crate) enum Accepted {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

/// A connection in a thread's event loop.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: Socket,
    /// Carries all bytes once it is there. The socket carries nothing then, but ends when the client's process does, of
    /// which a device tells nothing.
    messages: Option<verbs::Stream>,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub(crate) fn new(socket: Accepted) -> io::Result<Self> {
        let socket = match socket {
            Accepted::Tcp(socket) => {
                socket.set_nodelay(true)?;
                TcpStream::from_std(socket).map(Socket::Tcp)
            }
            Accepted::Unix(socket) => UnixStream::from_std(socket).map(Socket::Unix),
        };
        Ok(Self { socket: socket?, messages: None })
    }

    /// Goes on over `pipe`.
    pub(crate) fn go_over_to(&mut self, pipe: Arc<Pipe>) -> io::Result<()> {
        self.messages = Some(verbs::Stream::new(pipe)?);
        Ok(())
    }

    /// Whether descriptors can be passed over it.
    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.socket, Socket::Unix(_))
    }

    /// Where it comes from, for the log.
    pub(crate) fn peer(&self) -> String {
        match &self.socket {
            Socket::Tcp(stream) => stream.peer_addr().map_or_else(|_| "tcp".into(), |peer| peer.to_string()),
            Socket::Unix(stream) => {
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
        match &self.socket {
            Socket::Tcp(stream) => stream.async_io(Interest::WRITABLE, || write(stream.as_fd())).await,
            Socket::Unix(stream) => stream.async_io(Interest::WRITABLE, || write(stream.as_fd())).await,
        }
    }
}

impl Socket {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }

    /// Reads the end of a socket over which nothing is to come.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut byte = [0; 1];
        let mut buf = ReadBuf::new(&mut byte);
        ready!(self.poll_read(cx, &mut buf))?;
        Poll::Ready(if buf.filled().is_empty() {
            Ok(())
        } else {
            Err(io::Error::new(ErrorKind::InvalidData, "a request came beside the queue pair"))
        })
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { socket, messages } = self.get_mut();
        match messages {
            None => socket.poll_read(cx, buf),
            Some(messages) => match Pin::new(messages).poll_read(cx, buf) {
                Poll::Pending => socket.poll_end(cx),
                ready => ready,
            },
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Self { socket, messages } = self.get_mut();
        match (messages, socket) {
            (Some(messages), _) => Pin::new(messages).poll_write(cx, bytes),
            (None, Socket::Tcp(stream)) => Pin::new(stream).poll_write(cx, bytes),
            (None, Socket::Unix(stream)) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().messages {
            Some(messages) => Pin::new(messages).poll_flush(cx),
            // A socket holds nothing back, and its kernel sees to what is under way when it is closed.
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { socket, messages } = self.get_mut();
        match (messages, socket) {
            (Some(messages), _) => Pin::new(messages).poll_shutdown(cx),
            (None, Socket::Tcp(stream)) => Pin::new(stream).poll_shutdown(cx),
            (None, Socket::Unix(stream)) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
