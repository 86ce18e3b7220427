use super::*;
use crate::channel::tests::peer::{Peer, superblock, welcome};
use crate::fd_passing;
use crate::region::HugePages;
use crate::{Counts, Fabric, LaneIo, drive};
use farside_hashtable::{Chain, Io, Lost, Step};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

fn shard(superblock: &Superblock) -> Region {
    let region = Region::create("farside-test", superblock.geometry.region_len(), HugePages::Never).unwrap();
    let mut page = superblock.encode().to_vec();
    page.resize(LEN.next_multiple_of(8), 0);
    region.write(0, &page).unwrap();
    region
}

fn writable(region: &Region) -> OwnedFd {
    region.share(Access::ReadWrite).unwrap()
}

/// Plays a server that opens one session as `welcome` says and then does `then`.
fn serve<T: Send + 'static>(
    welcome: Welcome,
    then: impl FnOnce(Peer<UnixStream>) -> T + Send + 'static,
) -> (Options, tempfile::TempDir, JoinHandle<T>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let server = std::thread::spawn(move || {
        let mut peer = Peer { stream: listener.accept().unwrap().0 };
        peer.open(welcome);
        then(peer)
    });
    (Options::new(crate::Address::Unix(path)), dir, server)
}

fn attach_to(options: Options, instance: Option<u128>) -> Result<Attached, AttachError> {
    let thread = Arc::new(IoThread::start().unwrap());
    crate::channel::block_on(attach(&thread, options, instance, Denied::default(), Populate::Lazily))
}

#[test]
fn the_shards_that_come_are_the_servers() {
    let ours = Arc::new(shard(&superblock()));
    let passed = Arc::clone(&ours);
    let (options, _dir, _server) = serve(welcome(), move |mut peer| {
        fd_passing::send(&peer.stream, &[writable(&passed).as_fd()]).unwrap();
        peer.hear()
    });
    let attached = attach_to(options, Some(welcome().instance)).unwrap();
    ours.write(4096, &[3; 8]).unwrap();
    let fabric = &attached.fabric;
    let (mut lane, mut counts) = (fabric.open_lane(), Counts::default());
    let mut io = LaneIo::new(fabric, &mut lane, &mut counts, 0, u64::MAX);
    io.reserve_incoming(8);
    let mut chain = Chain::from_iter([Step::read(4096, 8, 0), Step::compare_swap(4104, 0, 9)]);
    assert_eq!(drive(io.run(&mut chain)), Ok(()));
    assert_eq!(io.incoming()[..8], [3; 8]);
    assert_eq!(ours.load(4104), Ok(9));
}

#[test]
fn a_reader_gets_reads_alone() {
    let ours = Arc::new(shard(&superblock()));
    let reader = ours.share(Access::Read).unwrap();
    let (options, _dir, _server) =
        serve(Welcome { memory_rights: Rights::Read, ..welcome() }, move |mut peer| {
            fd_passing::send(&peer.stream, &[reader.as_fd()]).unwrap();
            peer.hear()
        });
    let attached = attach_to(Options { rights: Rights::Read, ..options }, None).unwrap();
    assert!(!attached.fabric.capabilities().write);
    assert_eq!(attached.fabric.regions()[0].access(), Access::Read);
}

/// What the server's fence of a dead or finished client rests on.
#[test]
fn the_socket_stays_open_until_the_last_mapping_is_gone() {
    let ours = shard(&superblock());
    let (ended, end) = mpsc::channel();
    let (options, _dir, _server) = serve(welcome(), move |mut peer| {
        fd_passing::send(&peer.stream, &[writable(&ours).as_fd()]).unwrap();
        while peer.hear().is_some() {}
        ended.send(()).unwrap();
    });
    let attached = attach_to(options, None).unwrap();
    let region = Arc::clone(&attached.fabric.regions()[0]);
    let fabric = attached.fabric.clone();
    attached.channel.close();
    drop(attached);
    assert!(!fabric.is_intact());
    drop(fabric);
    assert_eq!(end.recv_timeout(Duration::from_millis(100)), Err(mpsc::RecvTimeoutError::Timeout));
    drop(region);
    end.recv_timeout(Duration::from_secs(20)).unwrap();
}

#[test]
fn when_the_server_ends_the_session_every_chain_is_lost_and_the_memory_is_still_there() {
    let ours = shard(&superblock());
    let (options, _dir, server) = serve(welcome(), move |peer| {
        fd_passing::send(&peer.stream, &[writable(&ours).as_fd()]).unwrap();
        peer.stream.shutdown(std::net::Shutdown::Write).unwrap();
        peer
    });
    let attached = attach_to(options, None).unwrap();
    let mut peer = server.join().unwrap();
    while attached.fabric.is_intact() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (mut lane, mut counts) = (attached.fabric.open_lane(), Counts::default());
    let mut io = LaneIo::new(&attached.fabric, &mut lane, &mut counts, 0, u64::MAX);
    io.reserve_incoming(8);
    assert_eq!(drive(io.run(&mut Chain::from_iter([Step::read(0, 8, 0)]))), Err(Lost));
    assert_eq!(drive(io.fence()), Err(Lost));
    drop(io);
    assert!(attached.fabric.regions()[0].load(0).is_ok());
    let call = attached.channel.call_blocking(
        &farside_protocol::wire::Request::Ping,
        std::time::Instant::now() + Duration::from_secs(20),
    );
    assert_eq!(call.unwrap_err().kind(), ErrorKind::Unavailable, "a memory session is not opened anew");
    drop(attached);
    assert!(peer.hear().is_none());
}

/// A client that is not in use holds nothing of a server that has ended: it could not start again on the same memory.
#[test]
fn when_the_session_ends_the_memory_is_let_go_and_nothing_done_to_it_then_counts() {
    let ours = Arc::new(shard(&superblock()));
    let passed = Arc::clone(&ours);
    let (options, _dir, server) = serve(welcome(), move |peer| {
        fd_passing::send(&peer.stream, &[writable(&passed).as_fd()]).unwrap();
        peer
    });
    let attached = attach_to(options, None).unwrap();
    let peer = server.join().unwrap();
    let region = Arc::clone(&attached.fabric.regions()[0]);
    ours.write(4096, &[3; 8]).unwrap();
    assert_eq!(region.load(4096), ours.load(4096));
    peer.stream.shutdown(std::net::Shutdown::Write).unwrap();
    while region.load(4096) != Ok(0) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(region.compare_swap(4096, 0, 7), Ok(0), "no access fails");
    assert_eq!(ours.load(4096), Ok(u64::from_le_bytes([3; 8])));
    let (mut lane, mut counts) = (attached.fabric.open_lane(), Counts::default());
    let mut io = LaneIo::new(&attached.fabric, &mut lane, &mut counts, 0, u64::MAX);
    assert_eq!(drive(io.run(&mut Chain::from_iter([Step::compare_swap(4104, 0, 9)]))), Err(Lost));
}

#[test]
fn memory_that_is_not_as_described_is_refused() {
    let other = Superblock { table_id: 6, ..superblock() };
    let smaller = Superblock { geometry: farside_protocol::Geometry::new(12288, 1).unwrap(), ..superblock() };
    type Check = fn(&AttachError) -> bool;
    let cases: [(Region, Check); 3] = [
        (shard(&other), |error| matches!(error, AttachError::Mismatch { shard: 0 })),
        (shard(&smaller), |error| matches!(error, AttachError::Map { source: MapError::Length { .. }, .. })),
        (Region::create("farside-test", 16384, HugePages::Never).unwrap(), |error| {
            matches!(error, AttachError::Superblock { source: SuperblockError::Magic, .. })
        }),
    ];
    for (region, expected) in cases {
        let (options, _dir, _server) = serve(welcome(), move |mut peer| {
            fd_passing::send(&peer.stream, &[writable(&region).as_fd()]).unwrap();
            peer.hear()
        });
        let error = attach_to(options, None).unwrap_err();
        assert!(expected(&error), "{error}");
    }
}

#[test]
fn the_wrong_number_of_descriptors_or_another_server_is_refused() {
    let ours = shard(&superblock());
    let (options, _dir, _server) = serve(welcome(), move |mut peer| {
        fd_passing::send(&peer.stream, &[writable(&ours).as_fd(), writable(&ours).as_fd()]).unwrap();
        peer.hear()
    });
    let error = attach_to(options, None).unwrap_err();
    assert!(matches!(error, AttachError::Connect(ConnectError::NoMemory { .. })), "{error}");

    let ours = shard(&superblock());
    let (options, _dir, _server) = serve(welcome(), move |mut peer| {
        fd_passing::send(&peer.stream, &[writable(&ours).as_fd()]).unwrap();
        peer.hear()
    });
    let error = attach_to(options, Some(1)).unwrap_err();
    assert!(matches!(error, AttachError::OtherServer { .. }), "{error}");
}
