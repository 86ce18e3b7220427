//! What is served over HTTP.

use crate::client::Client;
use farside_server::{Config, Running, Server, Socket};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

fn start() -> (Running, SocketAddr) {
    let config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        socket: Socket::Off,
        metrics: Some("127.0.0.1:0".parse().unwrap()),
        memory: Some(4 << 20),
        ..Config::default()
    };
    let running = Server::start(config).unwrap();
    let address = running.metrics_address().unwrap();
    (running, address)
}

/// Sends `request` and returns all that comes back.
fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn get(address: SocketAddr, path: &str) -> String {
    exchange(address, &format!("GET {path} HTTP/1.1\r\nHost: farside\r\nConnection: close\r\n\r\n"))
}

#[test]
fn figures_are_there_to_be_scraped() {
    let (running, address) = start();
    let mut client = Client::connect(&running);
    client.put("k", b"v");
    let answer = get(address, "/metrics");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("content-type: text/plain; version=0.0.4"), "{answer}");
    let lines: Vec<_> = answer.lines().collect();
    assert!(lines.contains(&"farside_keys 1"), "{answer}");
    assert!(lines.contains(&"# TYPE farside_ops_total counter"), "{answer}");
    let put = "farside_ops_total{op=\"put\",status=\"ok\",transport=\"tcp\",path=\"two-sided\"} 1";
    assert!(lines.contains(&put), "{answer}");
    assert!(lines.iter().any(|line| line.starts_with("farside_info{version=\"")), "{answer}");
}

#[test]
fn health_and_mistakes_have_their_status() {
    let (running, address) = start();
    for (request, status) in [
        ("GET /healthz HTTP/1.0\r\n\r\n", "200"),
        ("HEAD /metrics HTTP/1.0\r\n\r\n", "200"),
        ("GET / HTTP/1.0\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.0\r\ncontent-length: 0\r\n\r\n", "405"),
        ("FARSIDE\x01 nonsense\r\n\r\n", "400"),
    ] {
        let answer = exchange(address, request);
        assert!(answer.split(' ').nth(1) == Some(status), "{request:?}: {answer}");
    }
    running.shutdown();
    assert!(TcpStream::connect(address).is_err(), "it ends with the server");
}

/// Those who say nothing, and those who take no answer, keep nobody else from one for ever.
#[test]
fn silent_connections_are_let_go() {
    let (_running, address) = start();
    let silent: Vec<_> = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert!(get(address, "/healthz").ends_with("ok\n"));
    drop(silent);
}
