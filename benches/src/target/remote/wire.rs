//! Bytes to and from a server over TCP or a Unix socket: blocking, in buffers that are used again.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use super::Fault;

/// The longest line that these protocols have, bytes, with room to spare.
const LINE_MAX: usize = 8 << 10;

/// What is read ahead at least, bytes.
const BUFFER: usize = 64 << 10;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A host and a port.
    Tcp(String),
    /// A Unix socket.
    Unix(PathBuf),
}

impl Address {
    /// `HOST`, `HOST:PORT` or `unix:/PATH`.
    #[must_use]
    pub fn parse(text: &str, default_port: u16) -> Self {
        match text.strip_prefix("unix:") {
            Some(path) => Self::Unix(path.into()),
            None if text.starts_with('[') && text.ends_with(']') || !text.contains(':') => {
                Self::Tcp(format!("{text}:{default_port}"))
            }
            None => Self::Tcp(text.to_owned()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn connect(address: &Address, deadline: Duration) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                for address in address.to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, deadline) {
                        Ok(stream) => {
                            stream.set_nodelay(true)?;
                            stream.set_read_timeout(Some(deadline))?;
                            stream.set_write_timeout(Some(deadline))?;
                            return Ok(Self::Tcp(stream));
                        }
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(deadline))?;
                stream.set_write_timeout(Some(deadline))?;
                Ok(Self::Unix(stream))
            }
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(bytes),
            Self::Unix(stream) => stream.write_all(bytes),
        }
    }
}

/// A connection.
#[derive(Debug)]
pub struct Wire {
    stream: Stream,
    /// What is to be sent.
    pub out: Vec<u8>,
    buffer: Vec<u8>,
    /// What of the buffer was received and not yet taken.
    start: usize,
    end: usize,
}

impl Wire {
    /// Connects.
    ///
    /// # Errors
    /// If nothing listens there, or it does not accept in time.
    pub fn connect(address: &Address, deadline: Duration) -> Result<Self, Fault> {
        let stream = Stream::connect(address, deadline).map_err(Fault::Io)?;
        Ok(Self { stream, out: Vec::with_capacity(BUFFER), buffer: vec![0; BUFFER], start: 0, end: 0 })
    }

    /// Sends what is in `out`.
    ///
    /// # Errors
    /// If the connection is broken, or takes nothing in time.
    pub fn send(&mut self) -> Result<(), Fault> {
        let sent = self.stream.write_all(&self.out);
        self.out.clear();
        sent.map_err(Fault::Io)
    }

    /// The next line, without its end.
    ///
    /// # Errors
    /// If none comes in time, or what comes is none.
    pub fn line(&mut self) -> Result<&[u8], Fault> {
        let mut looked_at = 0;
        loop {
            let received = &self.buffer[self.start..self.end];
            if let Some(end) = received[looked_at..].iter().position(|&byte| byte == b'\n') {
                let (from, len) = (self.start, looked_at + end);
                self.start += len + 1;
                let line = &self.buffer[from..from + len];
                return line.strip_suffix(b"\r").ok_or_else(|| Fault::nonsense(line));
            }
            looked_at = received.len();
            if looked_at > LINE_MAX {
                return Err(Fault::nonsense(&received[..LINE_MAX]));
            }
            self.fill()?;
        }
    }

    /// The next `len` bytes, behind which a line's end comes.
    ///
    /// # Errors
    /// If they do not come in time, or something else comes behind them.
    pub fn block(&mut self, len: usize) -> Result<&[u8], Fault> {
        while self.end - self.start < len + 2 {
            if self.buffer.len() < len + 2 {
                self.buffer.resize(len + 2, 0);
            }
            self.fill()?;
        }
        let from = self.start;
        self.start += len + 2;
        let (block, end) = self.buffer[from..from + len + 2].split_at(len);
        if end == b"\r\n" { Ok(block) } else { Err(Fault::nonsense(end)) }
    }

    fn fill(&mut self) -> Result<(), Fault> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        match self.stream.read(&mut self.buffer[self.end..]) {
            Ok(0) => Err(Fault::Io(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it closed the connection without an answer: check the address and --db",
            ))),
            Ok(received) => {
                self.end += received;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(Fault::Io(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_default_port() {
        for (text, address) in [
            ("localhost", "localhost:1"),
            ("localhost:2", "localhost:2"),
            ("[::1]", "[::1]:1"),
            ("[::1]:2", "[::1]:2"),
            ("unix:/a/b", "unix:/a/b"),
        ] {
            assert_eq!(Address::parse(text, 1).to_string(), address);
        }
    }

    #[test]
    fn lines_and_blocks_are_put_together_from_any_pieces() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let mut wire =
            Wire { stream: Stream::Unix(ours), out: Vec::new(), buffer: vec![0; 8], start: 0, end: 0 };
        let block = vec![7; 100_000];
        let sent = [&b"one\r\n\r\n"[..], &block, b"\r\ntwo\r\nxyz!!three\n"].concat();
        let writer = std::thread::spawn(move || {
            sent.chunks(3).for_each(|piece| theirs.write_all(piece).expect("a reader"));
        });
        assert_eq!(wire.line().expect("a line"), b"one");
        assert_eq!(wire.line().expect("an empty one"), b"");
        assert_eq!(wire.block(100_000).expect("a block"), block);
        assert_eq!(wire.line().expect("a line"), b"two");
        assert!(matches!(wire.block(3), Err(Fault::Nonsense(_))));
        assert!(matches!(wire.line(), Err(Fault::Nonsense(_))), "no line ends without a carriage return");
        writer.join().expect("it ends");
        assert!(matches!(wire.line(), Err(Fault::Io(_))));
    }
}
