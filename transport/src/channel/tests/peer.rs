//! The other end of a channel, played by a test step by step.

use crate::Address;
use farside_protocol::superblock::Authority;
use farside_protocol::wire::{FrameHeader, HEADER_LEN, PREFACE, Request, Response, Rights, Welcome};
use farside_protocol::{Geometry, Superblock, TableSeed};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

pub(crate) fn superblock() -> Superblock {
    Superblock {
        geometry: Geometry::new(16384, 1).unwrap(),
        seed: TableSeed(7),
        quarantine_ms: 100,
        authority: Authority::Coherent,
        generation: 1,
        shard: 0,
        shards: 1,
        table_id: 5,
    }
}

pub(crate) fn welcome() -> Welcome {
    Welcome {
        server_version: "test".into(),
        instance: 77,
        session: 1,
        rights: Rights::ReadWrite,
        memory_rights: Rights::ReadWrite,
        lease_ms: 60_000,
        host: crate::host::boot_id().unwrap(),
        socket: String::new(),
        rdma: String::new(),
        shards: vec![superblock()],
        queue_pairs: None,
    }
}

/// One connection, seen from the server.
pub(crate) struct Peer<S> {
    pub(crate) stream: S,
}

impl<S: Read + Write> Peer<S> {
    /// Reads the client's preface and Hello; returns the Hello's frame.
    pub(crate) fn hear_hello(&mut self) -> Vec<u8> {
        let mut preface = [0; PREFACE.len()];
        self.stream.read_exact(&mut preface).unwrap();
        assert_eq!(preface, PREFACE);
        let (_, kind, body) = self.hear().expect("a hello");
        assert!(matches!(Request::decode(kind, &body), Ok(Request::Hello(_))));
        body
    }

    /// Opens the session as `welcome` says.
    pub(crate) fn open(&mut self, welcome: Welcome) {
        self.hear_hello();
        self.stream.write_all(&PREFACE).unwrap();
        self.say(0, &Response::Welcome(welcome));
    }

    /// The next request's id, kind and body; `None` at the end of the connection.
    pub(crate) fn hear(&mut self) -> Option<(u64, u8, Vec<u8>)> {
        let mut header = [0; HEADER_LEN];
        self.stream.read_exact(&mut header).ok()?;
        let header = FrameHeader::decode(&header).unwrap();
        let mut body = vec![0; header.body_len as usize];
        self.stream.read_exact(&mut body).ok()?;
        Some((header.id, header.kind, body))
    }

    pub(crate) fn say(&mut self, id: u64, response: &Response<'_>) {
        let mut frame = Vec::new();
        response.encode(id, &mut frame);
        self.stream.write_all(&frame).unwrap();
    }
}

/// Plays `server` on the connections of a new TCP address.
pub(crate) fn listen<T: Send + 'static>(
    server: impl FnOnce(&TcpListener) -> T + Send + 'static,
) -> (Address, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string().parse().unwrap();
    (address, std::thread::spawn(move || server(&listener)))
}

pub(crate) fn accept(listener: &TcpListener) -> Peer<TcpStream> {
    Peer { stream: listener.accept().unwrap().0 }
}
