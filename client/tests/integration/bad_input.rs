//! What a user can get wrong when connecting: each ends in an error of its kind that says what to do.

use crate::ways::{Way, config};
use farside::server::{Config, Socket};
use farside::{Client, Embedded, ErrorKind, Require, TransportChoice};
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};

/// A listener that sends `greeting` to whoever connects, and then nothing. Ends with the test.
fn something_else(greeting: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.write_all(greeting).unwrap();
            thread::spawn(move || {
                // Until the client gives up.
                let _ = stream.read_to_end(&mut Vec::new());
                let _ = stream.shutdown(Shutdown::Both);
            });
        }
    });
    address
}

/// Connects, which must fail with an error of `kind` that says all of `says`.
fn fails(builder: farside::Builder, kind: ErrorKind, says: &[&str]) {
    let error = builder.connect_blocking().expect_err("it cannot connect");
    assert_eq!(error.kind(), kind, "{error}");
    for part in says {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
}

#[test]
fn no_server() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    for transport in [TransportChoice::Auto, TransportChoice::Shm, TransportChoice::Tcp] {
        let builder = Client::builder().address(&address).transport(transport);
        fails(builder, ErrorKind::Unavailable, &[&address, "nothing listens", "start farside-server"]);
    }
    let socket = Client::builder().address("unix:/nonexistent/farside.sock");
    fails(socket, ErrorKind::Unavailable, &["/nonexistent/farside.sock", "nothing listens"]);
}

#[test]
fn something_else_listens_there() {
    for greeting in [
        &b"220 mail.example.org ESMTP\r\n"[..],
        b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
        &[0; 64],
        b"\x9e\x37\x79\xb9\x7f\x4a\x7c\x15\xf3\x9c\xc0\x60",
    ] {
        let address = something_else(greeting);
        fails(Client::builder().address(&address), ErrorKind::Incompatible, &["not Farside", "the port"]);
    }
    let address = something_else(b"FARSIDE\x63");
    fails(Client::builder().address(&address), ErrorKind::Incompatible, &["wire version 99", "same version"]);
}

#[test]
fn what_listens_there_never_answers() {
    let address = something_else(b"");
    let began = Instant::now();
    let builder = Client::builder().address(&address).deadline(Duration::from_millis(200));
    fails(builder, ErrorKind::Unavailable, &["did not answer within 200ms"]);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[test]
fn a_wrong_or_missing_token() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    fs::write(&file, "read spy\nsecret\n").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let guarded = Config { token_file: Some(file.clone()), ..config() };
    let farside = Embedded::start(guarded, Client::builder().token("secret")).unwrap();
    let builder = || Client::builder().address(&farside.address());
    for transport in [TransportChoice::Auto, TransportChoice::Tcp] {
        let builder = || builder().transport(transport);
        fails(builder(), ErrorKind::Refused, &["token"]);
        fails(builder().token("Secret"), ErrorKind::Refused, &["token"]);
        fails(builder().token(vec![b'x'; 257]), ErrorKind::Invalid, &["at most 256"]);
        // A token that may only read makes a session that can only read. In the server's file it is the first.
        for reader in [builder().token("spy"), builder().token_file(&file)] {
            let reader = reader.connect_blocking().unwrap();
            let mut session = reader.session().unwrap();
            assert_eq!(session.get("k").unwrap(), None);
            assert_eq!(session.put("k", "v").unwrap_err().kind(), ErrorKind::Refused);
        }
    }
}

#[test]
fn a_transport_by_name_that_cannot_be_had() {
    let farside = Embedded::start(Config { socket: Socket::Off, ..config() }, Client::builder()).unwrap();
    let active = farside.active();
    assert_eq!((active.transport.name(), active.reasons.len()), ("tcp", 2), "{active}");
    let told = active.to_string();
    assert!(told.contains("shm: the server has no Unix socket; verbs: the server uses no RDMA"), "{told}");
    let builder = || Client::builder().address(&farside.address());
    fails(builder().transport(TransportChoice::Shm), ErrorKind::Refused, &["no Unix socket", "tcp"]);
    fails(builder().transport(TransportChoice::Verbs), ErrorKind::Refused, &["no RDMA device", "--rdma"]);
    let fabric = builder().transport(TransportChoice::Fabric);
    fails(fabric, ErrorKind::Invalid, &["`fabric`", "auto, shm, verbs or tcp"]);
    let one_sided = builder().require(Require::OneSidedReads);
    fails(one_sided, ErrorKind::Unavailable, &["one-sided-reads is required", "reads two-sided"]);
}

#[test]
fn a_requirement_holds_for_the_path_and_not_only_for_the_transport() {
    let farside = Way::ShmWithoutAtomics.start();
    let without = || Way::ShmWithoutAtomics.builder().address(&farside.address());
    without().require(Require::OneSidedReads).connect_blocking().unwrap();
    let updates = without().require(Require::OneSidedUpdates);
    fails(updates, ErrorKind::Unavailable, &["one-sided-updates is required", "denied (FARSIDE_DENY)"]);
}

#[test]
fn a_unix_address_reaches_the_server_over_both_transports() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("farside.sock");
    let farside =
        Embedded::start(Config { socket: Socket::At(path.clone()), ..config() }, Client::builder()).unwrap();
    farside.session().unwrap().put("k", "v").unwrap();
    for (transport, name) in
        [(TransportChoice::Auto, "shm"), (TransportChoice::Shm, "shm"), (TransportChoice::Tcp, "tcp")]
    {
        let address = format!("unix:{}", path.display());
        let client = Client::builder().address(&address).transport(transport).connect_blocking().unwrap();
        assert_eq!(client.active().transport.name(), name);
        assert_eq!(client.session().unwrap().get("k").unwrap().as_deref(), Some(&b"v"[..]));
    }
}
