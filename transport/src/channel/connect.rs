//! Reaches the server.

use super::error::ConnectError;
use super::{Options, handshake};
use crate::address::Address;
use crate::verbs;
use bytes::BufMut;
use farside_protocol::wire::{TOKEN_LEN_MAX, Wants, Welcome};
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// How long the kernel may try to get bytes to a host that does not acknowledge them. A server process that is
/// merely stopped does not matter here: its kernel acknowledges.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(30);

/// A connection.
#[derive(Debug)]
pub(super) struct Stream {
    socket: Socket,
    /// The queue pair that carries the requests and answers of a session over RDMA. The socket carries nothing then,
    /// but ends when the peer's process does, of which a device tells nothing.
    messages: Option<verbs::Stream>,
}

#[derive(Debug)]
enum Socket {
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
    let socket = match timeout(options.connect_timeout, reach(&options.address)).await {
        Ok(outcome) => outcome.map_err(|error| explain(options, &error))?,
        Err(_) => {
            let cause = format!("no answer within {:?}", options.connect_timeout);
            return Err(ConnectError::Unreachable { address: options.address.clone(), cause });
        }
    };
    let mut stream = Stream { socket, messages: None };
    let silent =
        |_| ConnectError::Silent { address: options.address.clone(), after: options.connect_timeout };
    let greeting = timeout(options.connect_timeout, handshake::greet(&stream, options));
    let welcome = greeting.await.map_err(silent)??;
    stream.messages = connect_messages(options, &welcome).await?;
    Ok((stream, welcome))
}

/// Connects the queue pair for the messages of the session that `welcome` opened, if it has queue pairs.
async fn connect_messages(
    options: &Options,
    welcome: &Welcome,
) -> Result<Option<verbs::Stream>, ConnectError> {
    if options.wants != Wants::QueuePairs {
        return Ok(None);
    }
    let (welcome, limit, rdma) = (welcome.clone(), options.connect_timeout, options.rdma.clone());
    let dialing = tokio::task::spawn_blocking(move || verbs::Dial::to(&welcome, limit, rdma)?.pipe());
    let pipe = dialing.await.unwrap_or_else(|ended| Err(io::Error::other(ended).into()));
    let stream = pipe.and_then(|pipe| Ok(verbs::Stream::new(pipe)?));
    stream.map(Some).map_err(|error| ConnectError::QueuePair(Arc::new(error)))
}

async fn reach(address: &Address) -> io::Result<Socket> {
    match address {
        Address::Unix(path) => Ok(Socket::Unix(UnixStream::connect(path).await?)),
        Address::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            let patience = UNACKNOWLEDGED_MAX.as_millis() as u32;
            rustix::net::sockopt::set_tcp_user_timeout(stream.as_fd(), patience)?;
            Ok(Socket::Tcp(stream))
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

impl Socket {
    async fn ready(&self, interest: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.ready(interest).await.map(drop),
            Self::Unix(stream) => stream.ready(interest).await.map(drop),
        }
    }

    fn try_read(&self, buffer: &mut impl BufMut) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read_buf(buffer),
            Self::Unix(stream) => stream.try_read_buf(buffer),
        }
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    /// What has become of a socket over which nothing is to come.
    fn try_end(&self) -> io::Result<usize> {
        match self.try_read(&mut &mut [0; 1][..])? {
            0 => Ok(0),
            _ => Err(io::Error::new(ErrorKind::InvalidData, "a message came beside the queue pair")),
        }
    }
}

/// Works through a shared reference, so that reading and writing go on at the same time and a caller's thread may write
/// too. Neither direction is ever shut down alone: the end of a connection is a statement about memory (see
/// `Lifeline`).
impl Stream {
    /// The socket, if it is a Unix socket.
    pub(super) fn unix(&self) -> Option<&UnixStream> {
        match &self.socket {
            Socket::Unix(socket) => Some(socket),
            Socket::Tcp(_) => None,
        }
    }

    async fn readable(&self) -> io::Result<()> {
        let Some(messages) = &self.messages else { return self.socket.ready(Interest::READABLE).await };
        tokio::select! {
            biased;
            ready = poll_fn(|context| messages.poll_readable(context)) => ready,
            ended = self.socket.ready(Interest::READABLE) => ended,
        }
    }

    async fn writable(&self) -> io::Result<()> {
        match &self.messages {
            Some(messages) => poll_fn(|context| messages.poll_writable(context)).await,
            None => self.socket.ready(Interest::WRITABLE).await,
        }
    }

    fn try_read(&self, buffer: &mut impl BufMut) -> io::Result<usize> {
        let Some(messages) = &self.messages else { return self.socket.try_read(buffer) };
        match messages.try_read(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.socket.try_end(),
            outcome => outcome,
        }
    }

    /// Reads what is there into the room that `buffer` has; 0: the other end has closed.
    pub(super) async fn read(&self, buffer: &mut impl BufMut) -> io::Result<usize> {
        loop {
            self.readable().await?;
            match self.try_read(buffer) {
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

    /// Hands the kernel, or the device, what it takes of `bytes` now.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.messages {
            Some(messages) => messages.try_write(bytes),
            None => self.socket.try_write(bytes),
        }
    }

    /// Hands it some of `bytes`, when it takes any.
    pub(super) async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.try_write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                outcome => return outcome,
            }
            self.writable().await?;
        }
    }

    /// Hands it all of `bytes`.
    pub(super) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let len = self.write(bytes).await?;
            bytes = &bytes[len..];
        }
        Ok(())
    }
}
