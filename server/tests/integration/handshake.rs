//! Who is let in, and what the others are told.

use crate::client::{Client, config, eventually, figure, get, hello, put, start};
use farside_protocol::ErrorKind;
use farside_protocol::wire::{PREFACE, Request, Response, Rights, Wants};
use farside_server::{Config, Running, Socket};
use std::fs::{self, Permissions};
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

fn start_with_tokens(folder: &tempfile::TempDir) -> Running {
    let path = folder.path().join("tokens");
    fs::write(&path, "secret\nread spy\n").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    start(Config { token_file: Some(path), ..config() })
}

#[test]
fn the_welcome_says_what_the_server_is() {
    let running = start(config());
    let welcome = Client::mute(&running).greet(&hello(b"", Rights::Read, Wants::Messages)).welcome();
    assert_eq!(welcome.rights, Rights::Read);
    assert_eq!(welcome.lease_ms, 10_000);
    assert_eq!(welcome.shards.len(), 2);
    assert_eq!(welcome.shards[0].seed, welcome.shards[1].seed);
    assert_eq!(welcome.socket, "");
    assert_eq!(welcome.host.len(), 36);
    let again = Client::mute(&running).greet(&hello(b"", Rights::Read, Wants::Messages)).welcome();
    assert_eq!(again.instance, welcome.instance);
    assert_ne!(again.session, welcome.session);
}

#[test]
fn who_speaks_something_else_is_hung_up_on() {
    let running = start(config());
    for words in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PING\r\n", b"FARSIDf\x01"] {
        let mut client = Client::mute(&running);
        client.write(words);
        client.expect_preface();
        assert!(client.receive().is_none());
    }
}

#[test]
fn who_hangs_up_before_its_hello_is_no_fault() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(Config { socket: Socket::At(folder.path().join("s")), ..config() });
    for _ in 0..10 {
        // The rest of the preface lies unread when it is closed, which tells the server that it was reset.
        let mut tcp = TcpStream::connect(running.address()).unwrap();
        tcp.read_exact(&mut [0]).unwrap();
        let mut unix = UnixStream::connect(running.socket().unwrap()).unwrap();
        unix.read_exact(&mut [0]).unwrap();
        // As the next server of this user does that looks for stale sockets.
        drop(UnixStream::connect(running.socket().unwrap()).unwrap());
    }
    eventually("all are gone", || figure(&running, "farside_connections") == 0);
    assert_eq!(figure(&running, "farside_faults_total{kind=\"handshake\"}"), 0);
}

#[test]
fn a_hello_that_is_too_long_is_told_the_right_bound() {
    let running = start(config());
    let mut client = Client::mute(&running);
    client.write(&PREFACE);
    client.expect_preface();
    let header = [&100_000u32.to_le_bytes()[..], &[1, 0, 0, 0], &7u64.to_le_bytes()].concat();
    client.write(&header);
    let (kind, message) = client.receive().unwrap().error();
    assert_eq!(kind, ErrorKind::Invalid);
    assert!(message.contains("100000 bytes; here it may have 1024"), "{message}");
}

#[test]
fn another_version_is_told_so() {
    let running = start(config());
    let mut client = Client::mute(&running);
    client.write(b"FARSIDE\x09");
    client.expect_preface();
    let (kind, message) = client.receive().unwrap().error();
    assert_eq!(kind, ErrorKind::Incompatible);
    assert!(message.contains('9') && message.contains('1'), "{message}");
    assert!(client.receive().is_none());
}

#[test]
fn the_first_request_must_be_a_hello_and_the_only_one() {
    let running = start(config());
    let mut client = Client::mute(&running);
    client.write(&PREFACE);
    client.expect_preface();
    assert_eq!(client.call(&Request::Ping).error().0, ErrorKind::Invalid);
    assert!(client.receive().is_none());

    let mut client = Client::connect(&running);
    let again = client.call(&Request::Hello(hello(b"", Rights::Read, Wants::Messages)));
    assert_eq!(again.error().0, ErrorKind::Invalid);
    assert!(client.receive().is_none());
}

#[test]
fn a_token_is_wanted_if_there_is_a_token_file() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_with_tokens(&folder);
    for token in [&b""[..], b"secre", b"secret2", b"read spy"] {
        let mut client = Client::mute(&running);
        let (kind, message) = client.greet(&hello(token, Rights::Read, Wants::Messages)).error();
        assert_eq!(kind, ErrorKind::Refused);
        assert!(message.contains("token file"), "{message}");
        assert!(client.receive().is_none());
    }
    let mut client = Client::mute(&running);
    client.greet(&hello(b"secret", Rights::ReadWrite, Wants::Messages)).welcome();
    assert!(matches!(client.put("k", b"v").response(), Response::Stored { .. }));
}

#[test]
fn who_may_only_read_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_with_tokens(&folder);
    // By the token's right, and by the client's own wish.
    for (token, asked) in [(&b"spy"[..], Rights::ReadWrite), (b"secret", Rights::Read)] {
        let mut client = Client::mute(&running);
        let welcome = client.greet(&hello(token, asked, Wants::Messages)).welcome();
        assert_eq!(welcome.rights, Rights::Read);
        assert_eq!(client.call(&put("k", b"v")).error().0, ErrorKind::Refused);
        assert_eq!(client.delete("k").error().0, ErrorKind::Refused);
        assert!(matches!(client.call(&get("k")).response(), Response::Absent));
    }
}

#[test]
fn memory_is_not_for_tcp() {
    let running = start(config());
    let mut client = Client::mute(&running);
    let (kind, message) = client.greet(&hello(b"", Rights::Read, Wants::Memory)).error();
    assert_eq!(kind, ErrorKind::Invalid);
    assert!(message.contains("Unix socket"), "{message}");
}

#[test]
fn a_hello_longer_than_any_is_refused_before_it_comes() {
    let running = start(config());
    let mut client = Client::mute(&running);
    client.write(&PREFACE);
    client.expect_preface();
    let mut header = Vec::new();
    Request::Ping.encode(1, &mut header);
    header[..4].copy_from_slice(&1_000_000u32.to_le_bytes());
    client.write(&header);
    assert_eq!(client.receive().unwrap().error().0, ErrorKind::Invalid);
}

#[test]
fn one_connection_too_many_is_told_so() {
    let running = start(Config { max_connections: 2, ..config() });
    let (first, _second) = (Client::connect(&running), Client::connect(&running));
    let mut third = Client::mute(&running);
    let (kind, message) = third.greet(&hello(b"", Rights::Read, Wants::Messages)).error();
    assert_eq!(kind, ErrorKind::Refused);
    assert!(message.contains("--max-connections"), "{message}");
    drop(first);
    eventually("there is room again", || {
        let mut client = Client::mute(&running);
        matches!(client.greet(&hello(b"", Rights::Read, Wants::Messages)).response(), Response::Welcome(_))
    });
}
