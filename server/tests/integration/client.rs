//! A client that speaks the protocol frame by frame over blocking sockets, and can be wrong on purpose.

use farside_protocol::wire::{
    Condition, FrameHeader, HEADER_LEN, Hello, PREFACE, Request, Response, Rights, Wants, Welcome,
};
use farside_protocol::{ErrorKind, Key};
use farside_server::{Config, Running, Server, Socket};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Nothing in these tests takes longer, on a machine however slow.
const PATIENCE: Duration = Duration::from_secs(20);

/// A small server without a Unix socket.
pub(crate) fn config() -> Config {
    Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        socket: Socket::Off,
        memory: Some(8 << 20),
        shards: Some(2),
        max_keys: Some(10_000),
        threads: Some(2),
        quarantine: Duration::from_millis(20),
        ..Config::default()
    }
}

pub(crate) fn start(config: Config) -> Running {
    Server::start(config).unwrap()
}

/// A figure of the server, or 0 if it is not listed.
pub(crate) fn figure(running: &Running, name: &str) -> u64 {
    let statistics = running.stats();
    statistics
        .iter()
        .find(|statistic| statistic.name == name)
        .map_or(0, |figure| figure.value.parse().unwrap())
}

trait Socketlike: Read + Write + Send {}
impl<T: Read + Write + Send> Socketlike for T {}

pub(crate) struct Client {
    socket: Box<dyn Socketlike>,
    next_id: u64,
}

/// An answer.
pub(crate) struct Reply {
    pub(crate) id: u64,
    kind: u8,
    body: Vec<u8>,
}

impl Reply {
    pub(crate) fn response(&self) -> Response<'_> {
        Response::decode(self.kind, &self.body).unwrap()
    }

    pub(crate) fn welcome(&self) -> Welcome {
        match self.response() {
            Response::Welcome(welcome) => welcome,
            other => panic!("{other:?} is no welcome"),
        }
    }

    pub(crate) fn error(&self) -> (ErrorKind, String) {
        match self.response() {
            Response::Error { kind, message } => (kind, message.to_owned()),
            other => panic!("{other:?} is no error"),
        }
    }

    pub(crate) fn value(&self) -> Vec<u8> {
        match self.response() {
            Response::Value { value, .. } => value.to_vec(),
            other => panic!("{other:?} is no value"),
        }
    }
}

impl Client {
    /// Connects over TCP and says nothing.
    pub(crate) fn mute(running: &Running) -> Self {
        let socket = TcpStream::connect(running.address()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { socket: Box::new(socket), next_id: 1 }
    }

    /// Connects to the Unix socket and says nothing.
    pub(crate) fn mute_unix(running: &Running) -> (Self, UnixStream) {
        let socket = UnixStream::connect(running.socket().unwrap()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let twin = socket.try_clone().unwrap();
        (Self { socket: Box::new(socket), next_id: 1 }, twin)
    }

    /// Connects over TCP with the right to write.
    pub(crate) fn connect(running: &Running) -> Self {
        let mut client = Self::mute(running);
        client.greet(&hello(b"", Rights::ReadWrite, Wants::Messages)).welcome();
        client
    }

    /// Sends preface and Hello, and reads the server's.
    pub(crate) fn greet(&mut self, hello: &Hello<'_>) -> Reply {
        self.write(&PREFACE);
        self.send(&Request::Hello(*hello));
        self.expect_preface();
        self.receive().expect("an answer to the Hello")
    }

    pub(crate) fn expect_preface(&mut self) {
        let mut preface = [0; PREFACE.len()];
        self.socket.read_exact(&mut preface).unwrap();
        assert_eq!(preface, PREFACE);
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// As [`Client::write`], but the other side may have hung up already.
    pub(crate) fn try_write(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes);
    }

    pub(crate) fn send(&mut self, request: &Request<'_>) -> u64 {
        let (id, mut bytes) = (self.next_id, Vec::new());
        self.next_id += 1;
        request.encode(id, &mut bytes);
        self.write(&bytes);
        id
    }

    /// The next answer; `None`: the server has closed the connection.
    pub(crate) fn receive(&mut self) -> Option<Reply> {
        let mut header = [0; HEADER_LEN];
        match self.socket.read_exact(&mut header) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("no answer in {PATIENCE:?}")
            }
            Err(_) => return None,
        }
        let header = FrameHeader::decode(&header).unwrap();
        let mut body = vec![0; header.body_len as usize];
        self.socket.read_exact(&mut body).unwrap();
        Some(Reply { id: header.id, kind: header.kind, body })
    }

    pub(crate) fn call(&mut self, request: &Request<'_>) -> Reply {
        let id = self.send(request);
        let reply = self.receive().expect("an answer");
        assert_eq!(reply.id, id);
        reply
    }

    pub(crate) fn put(&mut self, key: &str, value: &[u8]) -> Reply {
        self.call(&put(key, value))
    }

    pub(crate) fn get(&mut self, key: &str) -> Reply {
        self.call(&get(key))
    }

    pub(crate) fn delete(&mut self, key: &str) -> Reply {
        self.call(&Request::Delete { key: key_of(key), condition: Condition::Always })
    }
}

pub(crate) fn hello(token: &[u8], rights: Rights, wants: Wants) -> Hello<'_> {
    Hello { token, rights, wants, name: "test" }
}

pub(crate) fn key_of(key: &str) -> Key<'_> {
    Key::new(key.as_bytes()).unwrap()
}

pub(crate) fn get(key: &str) -> Request<'_> {
    Request::Get { key: key_of(key) }
}

pub(crate) fn put<'a>(key: &'a str, value: &'a [u8]) -> Request<'a> {
    Request::Put { key: key_of(key), value, expires_at_ms: 0, condition: Condition::Always }
}

/// Waits until `condition` holds.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !condition() {
        assert!(std::time::Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
