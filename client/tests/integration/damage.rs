//! Records that a client with the right to write has damaged, by writing over them where it should not.

use crate::ways::{Way, config};
use farside::server::Config;
use farside::{AccessPath, ErrorKind, Session};
use farside_hashtable::{Chain, Io as _, Step};
use farside_protocol::Version;
use farside_protocol::wire::Wants;
use farside_transport::channel::{Channel, IoThread, Options};
use farside_transport::region::Populate;
use farside_transport::shm::attach;
use farside_transport::verbs::Connector;
use farside_transport::{Counts, Denied, Fabric, Lane as _, LaneIo, drive};
use pollster::block_on;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// WRITEs `bytes` at offset `at` of the only shard, with a session's rights and without its manners.
fn scribble<F: Fabric>(fabric: &F, at: u64, bytes: &[u8]) {
    let (mut lane, mut counts) = (fabric.open_lane(), Counts::default());
    lane.outgoing(bytes.len())[..bytes.len()].copy_from_slice(bytes);
    let mut io = LaneIo::new(fabric, &mut lane, &mut counts, 0, u64::MAX);
    let mut chain = Chain::from_iter([Step::write(at, bytes.len())]);
    assert_eq!(drive(io.run(&mut chain)), Ok(()));
}

fn scribble_over(way: Way, address: &str, at: u64, bytes: &[u8]) {
    let thread = Arc::new(IoThread::start().unwrap());
    let options = Options::new(address.parse().unwrap());
    if let Way::Verbs(_) = way {
        let options = Options { wants: Wants::QueuePairs, connect_timeout: PATIENCE, ..options };
        let (channel, _) = Channel::connect_blocking(&thread, options).unwrap();
        let connector = Connector::new(&channel, Denied::default()).unwrap();
        scribble(&connector.open().unwrap(), at, bytes);
    } else {
        let (channel, _) = Channel::connect_blocking(&thread, options.clone()).unwrap();
        let socket = format!("unix:{}", channel.welcome().socket);
        let options = Options { address: socket.parse().unwrap(), ..options };
        let attached = attach(&thread, options, None, Denied::default(), Populate::Lazily);
        scribble(&block_on(attached).unwrap().fabric, at, bytes);
    }
}

#[test]
fn what_is_damaged_is_never_served_and_its_key_can_be_used_again() {
    for way in Way::all().into_iter().filter(|way| way.reads_one_sided()) {
        let farside = way.start_with(Config { shards: Some(1), ..config() });
        if farside.active().updates == AccessPath::TwoSided {
            continue;
        }
        let connect = |way: Way| {
            let client = way.builder().address(&farside.address()).connect_blocking().unwrap();
            client.session().unwrap()
        };
        // Of which the first will have a hint.
        let mut sessions = [connect(way), connect(way), connect(Way::Shm), connect(Way::Tcp)];
        let value = [7; 200];
        for (name, offset, bytes) in [
            ("value", 96, &[0xee; 16][..]),
            ("checksum", 8, &[0xee; 8]),
            ("version", 16, &[0xee; 8]),
            ("lengths", 32, &[0xff; 8]),
            ("link to nowhere", 0, &[0xee; 8]),
            ("no link", 0, &[0; 8]),
            ("all", 0, &[0; 240]),
        ] {
            let version = sessions[0].put("k", value).unwrap().expect("nobody else writes");
            assert_eq!(sessions[0].get("k").unwrap().as_deref(), Some(&value[..]));
            let block = Version::from_bits(version.to_bits()).life().block;
            scribble_over(way, &farside.address(), block.offset() + offset, bytes);
            let began = Instant::now();
            // Not all see it gone at the same moment.
            for session in &mut sessions {
                while !is_gone(session) {
                    assert!(began.elapsed() < PATIENCE, "{way:?}, {name}: it was not dropped");
                }
            }
            sessions[1].put("k", "new").unwrap();
            for session in &mut sessions {
                assert_eq!(session.get("k").unwrap().as_deref(), Some(&b"new"[..]), "{way:?}, {name}");
            }
        }
        let statistics = sessions[0].server_stats().unwrap();
        let damaged = statistics.iter().find(|figure| figure.name.contains("damaged_record")).unwrap();
        assert_ne!(damaged.value, "0");
    }
}

/// Whether the key is absent; else it is damaged.
fn is_gone(session: &mut Session) -> bool {
    match session.get("k") {
        Ok(found) => {
            assert_eq!(found, None);
            true
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            false
        }
    }
}
