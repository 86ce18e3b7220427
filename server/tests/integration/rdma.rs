//! The binary on a real RDMA device, and what it says where one cannot be used: `tests/rdma-vm/run -- ...` with
//! `FARSIDE_TEST_RDMA` set to the addresses of those to use.

use crate::client::{Client, config, figure, hello, start};
use farside_protocol::ErrorKind;
use farside_protocol::wire::{Request, Rights, Wants};
use farside_server::Config;
use farside_transport::Address;
use farside_transport::channel::{Channel, IoThread, Options};
use farside_transport::verbs::{Device, inventory};
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SERVER: &str = env!("CARGO_BIN_EXE_farside-server");

/// The name and address of each device to test on.
fn devices() -> Vec<(String, IpAddr)> {
    let Ok(list) = std::env::var("FARSIDE_TEST_RDMA") else {
        eprintln!("SKIPPED: no RDMA device; FARSIDE_TEST_RDMA names the addresses of those to test on");
        return Vec::new();
    };
    let found = inventory().expect("the devices can be asked");
    let name = |address: IpAddr| {
        let owner = found.iter().find(|found| {
            let ports = found.facts.iter().flat_map(|facts| &facts.ports);
            ports.into_iter().any(|port| port.addresses.contains(&address))
        });
        owner.expect("a device has the address").name.clone()
    };
    let addresses = list.split(',').map(|address| address.parse().expect("an address"));
    addresses.map(|address| (name(address), address)).collect()
}

fn usual(command: &mut Command) -> &mut Command {
    command.env_clear().args(["--json", "-p", "0", "--memory", "8MiB", "--shm-socket", "off"])
}

/// What the server says when it does not start.
fn complaint(command: &mut Command) -> String {
    let output = usual(command).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_device_that_cannot_be_used_says_what_to_do() {
    for (name, _) in devices() {
        for (flags, says) in [
            (&["-d", "nosuch0"][..], "no RDMA device is called `nosuch0`; this host has "),
            (&["-d", &name, "-i", "9"], "and no port 9"),
            (&["-d", &name, "-x", "99"], "has no GID of index 99"),
            (&["-d", &name, "-x", "0"], "GID 0 ("),
            (&["--rdma", "127.0.0.1"], "no RDMA device has the address 127.0.0.1"),
        ] {
            let told = complaint(Command::new(SERVER).args(flags));
            assert!(told.contains("no RDMA: ") && told.contains(says), "{flags:?}: {told}");
        }
    }
}

#[test]
fn windows_that_cannot_be_had_say_why() {
    for (name, address) in devices() {
        let device = Device::at((address, 0).into()).unwrap();
        if let Err(error) = device.with_windows() {
            let told = complaint(Command::new(SERVER).args(["--memory-windows", "-d", &name]));
            assert!(told.contains(&error.to_string()) && told.contains("has no memory windows"), "{told}");
        }
    }
}

/// Without the capability the limit counts for root too.
#[test]
fn memory_that_may_not_be_locked_says_what_to_raise() {
    for (name, _) in devices() {
        let limited = "ulimit -l 64 && exec setpriv --bounding-set=-ipc_lock -- \"$0\" \"$@\"";
        let told = complaint(Command::new("/bin/sh").args(["-c", limited, SERVER, "-d", &name]));
        assert!(told.contains("may lock 64 KiB") && told.contains("ulimit -l unlimited"), "{told}");
    }
}

#[test]
fn a_device_is_found_by_its_name() {
    for (name, address) in devices() {
        let mut command = Command::new(SERVER);
        let mut child =
            usual(command.args(["-d", &name])).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        child.kill().unwrap();
        let log = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
        assert!(line.starts_with('{'), "it did not start: {log}");
        assert!(log.contains(&format!("address={address}:")) && log.contains(&name), "{log}");
    }
}

/// Over iWARP both have ports of TCP.
#[test]
fn a_server_listens_on_its_devices_own_address() {
    for (_, address) in devices() {
        let listen = (address, 0).into();
        let server = start(Config { listen, insecure: true, rdma: Some(listen), ..config() });
        let mut client = Client::mute(&server);
        let welcome = client.greet(&hello(b"", Rights::Read, Wants::Messages)).welcome();
        assert!(welcome.rdma.starts_with(&address.to_string()), "{}", welcome.rdma);
    }
}

/// Its requests go over its queue pair: one that comes over TCP, before that is there or after, ends the session.
#[test]
fn a_session_with_queue_pairs_is_not_served_over_tcp() {
    for (_, address) in devices() {
        let server = start(Config { rdma: Some((address, 0).into()), ..config() });
        let mut client = Client::mute(&server);
        let welcome = client.greet(&hello(b"", Rights::ReadWrite, Wants::QueuePairs)).welcome();
        assert!(welcome.queue_pairs.is_some());
        client.send(&Request::Ping);
        let (kind, message) = client.receive().expect("a reason").error();
        assert!(kind == ErrorKind::Invalid && message.contains("over its queue pair"), "{message}");
        assert!(client.receive().is_none(), "it is over");

        let thread = Arc::new(IoThread::start().unwrap());
        let at: Address = server.address().to_string().parse().unwrap();
        let options = Options { wants: Wants::QueuePairs, ..Options::new(at) };
        let (channel, _) = Channel::connect_blocking(&thread, options).unwrap();
        let ping = || channel.call_blocking(&Request::Ping, Instant::now() + Duration::from_secs(20));
        ping().unwrap();
        let over_verbs =
            "farside_ops_total{op=\"ping\",status=\"ok\",transport=\"verbs\",path=\"two-sided\"}";
        assert_eq!(figure(&server, over_verbs), 1);
        server.shutdown();
        let cause = ping().unwrap_err().to_string();
        assert!(cause.contains("the server ended it: the server is shutting down"), "{cause}");
    }
}
