//! The server inside another program.

use crate::client::{Client, config, get, start};
use farside_protocol::ErrorKind;
use farside_protocol::wire::PARTING;
use farside_server::{Config, Server, Socket};
use std::net::TcpStream;

#[test]
fn dropping_it_ends_it_and_frees_what_it_took() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("farside.sock");
    let running = start(Config { socket: Socket::At(path.clone()), ..config() });
    let (address, mut client) = (running.address(), Client::connect(&running));
    client.put("k", b"v");
    // Asked before the end, answered before it.
    let asked = client.send(&get("k"));
    drop(running);
    let answer = client.receive().unwrap();
    if answer.id == asked {
        assert_eq!(answer.value(), b"v");
        assert_eq!(client.receive().unwrap().error().0, ErrorKind::Unavailable);
    } else {
        assert_eq!((answer.id, answer.error().0), (PARTING, ErrorKind::Unavailable));
    }
    assert!(client.receive().is_none());
    assert!(TcpStream::connect(address).is_err());
    assert!(!path.exists());
    // The port can be had again at once.
    start(Config { listen: address, ..config() });
}

#[test]
fn an_async_program_can_hold_several() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (one, other) = (Server::start(config()).unwrap(), Server::start(config()).unwrap());
        Client::connect(&one).put("k", b"one");
        Client::connect(&other).put("k", b"other");
        assert_eq!(Client::connect(&one).get("k").value(), b"one");
        assert_eq!(Client::connect(&other).get("k").value(), b"other");
        one.shutdown();
        assert_eq!(Client::connect(&other).get("k").value(), b"other");
    });
}
