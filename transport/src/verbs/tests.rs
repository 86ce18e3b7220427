//! Over a real device: `tests/rdma-vm/run -- ...` with `FARSIDE_TEST_RDMA` set to the addresses of those to use.

use super::dial::Dial;
use super::*;
use crate::capabilities::AtomicScope;
use crate::clock::coarse_ns;
use crate::fabric::{Fabric, Lane as _};
use crate::region::{HugePages, Region};
use crate::shm::Shm;
use crate::{Counts, Denied, LaneIo, drive};
use farside_hashtable::{Chain, Io, Lost, Step};
use farside_protocol::limits::GRANULE;
use farside_protocol::wire::Rights;
use farside_protocol::{Block, Class, Geometry, Life};
use lane::VerbsLane;
use queue::Queue;
use remote::RemoteShard;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

mod pipe;

const LIMIT: Duration = Duration::from_secs(20);

/// The addresses of the devices to test on.
fn devices() -> Vec<IpAddr> {
    match std::env::var("FARSIDE_TEST_RDMA") {
        Ok(list) => list.split(',').map(|address| address.parse().expect("an address")).collect(),
        Err(_) => {
            eprintln!("SKIPPED: no RDMA device; FARSIDE_TEST_RDMA names the addresses of those to test on");
            Vec::new()
        }
    }
}

struct Bed {
    region: Arc<Region>,
    geometry: Geometry,
    listener: Listener,
    atomics: bool,
}

fn bed(address: IpAddr, len: u64) -> Bed {
    bed_on(Device::at((address, 0).into()).unwrap(), len)
}

fn bed_on(device: Device, len: u64) -> Bed {
    let geometry = Geometry::new(len, 16).unwrap();
    let region = Arc::new(Region::create("farside-test", geometry.region_len(), HugePages::Never).unwrap());
    let atomics = device.atomics() != AtomicScope::None;
    let listener = device.listen([(region.clone(), geometry)]).unwrap();
    Bed { region, geometry, listener, atomics }
}

impl Bed {
    fn guest(&self, ticket: u128, rights: Rights) -> (Queue, RemoteShard) {
        let offer = self.listener.invite(ticket, rights);
        let shard = RemoteShard::new(offer.memory[0], &self.geometry);
        (self.dial(ticket).unwrap(), shard)
    }

    fn dial_with(&self, ticket: u128, rdma: &Rdma) -> Result<Queue, SetupError> {
        self.dial_as(ticket, rdma).queue()
    }

    fn dial_as(&self, ticket: u128, rdma: &Rdma) -> Dial {
        let verbs = farside_verbs_sys::Verbs::load().unwrap();
        Dial { verbs, peer: self.listener.address(), ticket, limit: LIMIT, rdma: rdma.clone() }
    }

    fn dial(&self, ticket: u128) -> Result<Queue, SetupError> {
        self.dial_with(ticket, &Rdma::default())
    }
}

fn run(queue: &Queue, shard: &RemoteShard, lane: &mut VerbsLane, chain: &mut Chain) -> Result<(), Lost> {
    queue.post(lane, shard, chain)?;
    let until_ns = coarse_ns() + LIMIT.as_nanos() as u64;
    loop {
        if let Some(outcome) = queue.poll(lane, chain) {
            return outcome;
        }
        assert!(coarse_ns() < until_ns, "no completion");
    }
}

fn read(at: u64, len: usize) -> Chain {
    Chain::from_iter([Step::read(at, len, 0)])
}

#[test]
fn chains_run_in_order_and_bring_what_is_there() {
    for address in devices() {
        let bed = bed(address, 64 << 20);
        let (queue, shard) = bed.guest(7, Rights::ReadWrite);
        let mut lane = VerbsLane::default();
        let heap = bed.geometry.heap_at();
        if bed.atomics {
            lane.outgoing(16)[..16].copy_from_slice(&[9; 16]);
            lane.reserve_incoming(32);
            let swap = Step::compare_swap(heap + 16, 0, 3);
            let again = Step::compare_swap(heap + 16, 0, 4);
            let mut chain = Chain::from_iter([Step::write(heap, 16), swap, again, Step::read(heap, 24, 8)]);
            assert_eq!(run(&queue, &shard, &mut lane, &mut chain), Ok(()));
            assert_eq!((chain[1].outcome(), chain[2].outcome()), (Ok(()), Err(3)));
            assert_eq!(lane.incoming()[8..24], [9; 16]);
            assert_eq!(lane.incoming()[24..32], 3u64.to_le_bytes());
            assert_eq!(bed.region.load(heap + 16), Ok(3));
        }
        // Longer than the longest message of some devices.
        let long = 17 << 20;
        let bytes: Vec<u8> = (0..long).map(|i| (i * 7 + i / 251) as u8).collect();
        bed.region.write(heap, &bytes).unwrap();
        lane.reserve_incoming(long);
        assert_eq!(run(&queue, &shard, &mut lane, &mut read(heap, long)), Ok(()));
        assert!(lane.incoming()[..long] == bytes[..]);
    }
}

#[test]
fn nothing_leaves_the_shard_and_readers_change_nothing() {
    for address in devices() {
        let bed = bed(address, 1 << 20);
        let (queue, shard) = bed.guest(1, Rights::ReadWrite);
        let mut lane = VerbsLane::default();
        lane.reserve_incoming(64);
        let end = bed.geometry.region_len();
        assert_eq!(run(&queue, &shard, &mut lane, &mut read(end - 8, 16)), Err(Lost));
        assert!(!queue.is_intact());

        if bed.atomics {
            for step in [Step::write(bed.geometry.heap_at(), 8), Step::compare_swap(4096, 0, 1)] {
                let (queue, shard) = bed.guest(2, Rights::Read);
                lane.outgoing(8).fill(1);
                assert_eq!(run(&queue, &shard, &mut lane, &mut read(0, 64)), Ok(()));
                assert_eq!(run(&queue, &shard, &mut lane, &mut Chain::from_iter([step])), Err(Lost));
                bed.listener.fence(2);
            }
            // A WRITE to the index, whose key is not for that.
            let (queue, shard) = bed.guest(3, Rights::ReadWrite);
            let mut chain = Chain::from_iter([Step::write(4096, 8)]);
            assert_eq!(run(&queue, &shard, &mut lane, &mut chain), Err(Lost));
            assert_eq!(bed.region.load(4096), Ok(0));
            assert_eq!(bed.region.load(bed.geometry.heap_at()), Ok(0));
        }
    }
}

#[test]
fn what_a_client_sets_its_queue_pair_has() {
    for address in devices() {
        let bed = bed(address, 1 << 20);
        bed.listener.invite(1, Rights::ReadWrite);
        let device = Some(DeviceChoice::Address(address));
        let rdma = Rdma { device, type_of_service: Some(104), ack_timeout: 11, retry_count: 3 };
        let queue = bed.dial_with(1, &rdma).unwrap();
        if bed.atomics {
            assert_eq!(rdma.not_taken(&queue.pair().settings().unwrap()), Vec::<String>::new());
        }
        for (address, says) in
            [("203.0.113.1", "no RDMA device has the address"), ("2001:db8::1", "families")]
        {
            let rdma =
                Rdma { device: Some(DeviceChoice::Address(address.parse().unwrap())), ..Rdma::default() };
            let error = bed.dial_with(1, &rdma).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}

/// Soft-iWARP's library has a place at which it takes a queue for none.
#[test]
fn as_many_queues_can_be_made_as_a_server_has_sessions() {
    for address in devices() {
        let bed = bed(address, 1 << 20);
        let (queue, _) = bed.guest(1, Rights::Read);
        let context = queue.pair().domain().context();
        let queues = (0..400).map(|_| sys::CompletionQueue::new(context, 1));
        assert_eq!(queues.collect::<Result<Vec<_>, _>>().unwrap().len(), 400);
    }
}

#[test]
fn after_the_fence_nothing_executes_and_nobody_comes_in() {
    for address in devices() {
        let bed = bed(address, 1 << 20);
        let uninvited = bed.dial(5).unwrap_err();
        assert!(matches!(uninvited, SetupError::Rejected { .. }), "{uninvited:?}");
        let (queue, shard) = bed.guest(5, Rights::ReadWrite);
        let mut lane = VerbsLane::default();
        lane.reserve_incoming(64);
        assert_eq!(run(&queue, &shard, &mut lane, &mut read(0, 64)), Ok(()));
        bed.listener.fence(5);
        assert_eq!(bed.listener.connected(), 0);
        let mut chain =
            if bed.atomics { Chain::from_iter([Step::compare_swap(4096, 0, 1)]) } else { read(0, 64) };
        // A device without timeouts of its own may never say.
        if queue.post(&mut lane, &shard, &chain) == Ok(()) {
            let until_ns = coarse_ns() + 3_000_000_000;
            while coarse_ns() < until_ns {
                if let Some(outcome) = queue.poll(&mut lane, &mut chain) {
                    assert_eq!(outcome, Err(Lost));
                    break;
                }
            }
        }
        assert!(!queue.is_intact());
        assert_eq!(bed.region.load(4096), Ok(0));
        let void = bed.dial(5).unwrap_err();
        assert!(matches!(void, SetupError::Rejected { .. }), "{void:?}");
    }
}

#[test]
fn the_servers_own_swaps_and_its_clients_are_atomic_to_each_other() {
    const ROUNDS: u64 = 2000;
    for address in devices() {
        let bed = bed(address, 1 << 20);
        if !bed.atomics {
            continue;
        }
        let word = bed.geometry.heap_at();
        let add = |swap: &mut dyn FnMut(u64, u64) -> u64| {
            let (mut done, mut seen) = (0, 0);
            while done < ROUNDS {
                match swap(seen, seen + 1) {
                    found if found == seen => (done, seen) = (done + 1, seen + 1),
                    found => seen = found,
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let shm = Shm::new([bed.region.clone()], Denied::default());
                    let own = Own::new(shm, Some(bed.listener.clone()));
                    let (mut lane, mut counts) = (own.open_lane(), Counts::default());
                    add(&mut |expect, new| {
                        let mut io = LaneIo::new(&own, &mut lane, &mut counts, 0, u64::MAX);
                        let mut chain = Chain::from_iter([Step::compare_swap(word, expect, new)]);
                        assert_eq!(drive(io.run(&mut chain)), Ok(()));
                        chain[0].outcome().map_or_else(|found| found, |()| expect)
                    });
                    assert_eq!(own.poll_fence(0), Some(Ok(())));
                });
            }
            scope.spawn(|| {
                let (queue, shard) = bed.guest(9, Rights::ReadWrite);
                let mut lane = VerbsLane::default();
                add(&mut |expect, new| {
                    let mut chain = Chain::from_iter([Step::compare_swap(word, expect, new)]);
                    assert_eq!(run(&queue, &shard, &mut lane, &mut chain), Ok(()));
                    chain[0].outcome().map_or_else(|found| found, |()| expect)
                });
            });
        });
        assert_eq!(bed.region.load(word), Ok(3 * ROUNDS));
    }
}

#[test]
fn an_abandoned_chain_keeps_its_memory_and_the_fence_waits_for_it() {
    for address in devices() {
        let bed = bed(address, 1 << 20);
        let (queue, shard) = bed.guest(4, Rights::ReadWrite);
        let mut lane = VerbsLane::default();
        lane.reserve_incoming(64);
        for _ in 0..100 {
            queue.post(&mut lane, &shard, &read(0, 64)).unwrap();
            queue.abandon(&mut lane);
            assert!(!lane.in_flight());
        }
        assert_eq!(run(&queue, &shard, &mut lane, &mut read(0, 64)), Ok(()));
        while queue.poll_fence() != Some(Ok(())) {}
        assert!(queue.is_intact());
    }
}

/// A bed with memory windows, if the device has them.
fn windowed(address: IpAddr) -> Option<Bed> {
    match Device::at((address, 0).into()).unwrap().with_windows() {
        Ok(device) => Some(bed_on(device, 1 << 20)),
        Err(error) => {
            eprintln!("SKIPPED over {address}: {error}");
            assert!(matches!(error, SetupError::NoWindows { .. }) && error.to_string().contains("of type 2"));
            None
        }
    }
}

impl Bed {
    /// The first lives of blocks of the smallest class.
    fn lives(&self, count: u64) -> Vec<Life> {
        let first = self.geometry.heap_at() / GRANULE;
        (first..first + count).map(|granule| Life { block: Block::new(granule).unwrap(), count: 1 }).collect()
    }

    fn grant(&self, ticket: u128, queue: &Queue, lives: &[Life]) -> Result<Vec<u32>, WindowError> {
        self.listener.grant(ticket, queue.peer().unwrap(), 0, Class::holding(1).unwrap(), lives)
    }

    /// What came of a WRITE to the block of a life, and whether it changed it.
    fn write(&self, queue: &Queue, shard: &RemoteShard, life: Life) -> (Result<(), Lost>, bool) {
        let at = life.block.offset();
        self.region.write(at, &[0; 8]).unwrap();
        let mut lane = VerbsLane::default();
        lane.outgoing(8)[..8].fill(1);
        let outcome = run(queue, shard, &mut lane, &mut Chain::from_iter([Step::write(at, 8)]));
        (outcome, self.region.load(at) != Ok(0))
    }
}

const DONE: (Result<(), Lost>, bool) = (Ok(()), true);
const REFUSED: (Result<(), Lost>, bool) = (Err(Lost), false);

#[test]
fn with_windows_a_session_writes_only_by_them_and_only_until_they_end() {
    for bed in devices().into_iter().filter_map(windowed) {
        let lives = bed.lives(300);
        let (life, other) = (lives[0], lives[1]);
        // The heap's own key is not for that.
        let (queue, shard) = bed.guest(1, Rights::ReadWrite);
        assert_eq!(bed.write(&queue, &shard, life), REFUSED);

        // One queue pair's key is of no use to another, of the same session.
        let (queue, shard) = bed.guest(2, Rights::ReadWrite);
        let keys = bed.grant(2, &queue, &lives).unwrap();
        for (life, key) in lives.iter().zip(&keys) {
            assert_eq!(bed.write(&queue, &shard.through(*key), *life), DONE);
        }
        let twin = bed.dial(2).unwrap();
        assert_eq!(bed.write(&twin, &shard.through(keys[0]), life), REFUSED);

        // Only its own session ends a lease, and only that of the life.
        bed.listener.revoke(1, 0, lives.iter().copied());
        bed.listener.revoke(2, 0, [Life { count: 2, ..life }].into_iter());
        assert_eq!(bed.write(&queue, &shard.through(keys[0]), life), DONE);
        bed.listener.revoke(2, 0, lives[..100].iter().copied());
        assert_eq!(bed.write(&queue, &shard.through(keys[299]), lives[299]), DONE);
        // The windows serve again, by other keys.
        let again = bed.grant(2, &queue, &lives[..1]).unwrap();
        assert_eq!(bed.write(&queue, &shard.through(again[0]), life), DONE);
        assert!(!keys.contains(&again[0]));
        assert_eq!(bed.write(&queue, &shard.through(keys[0]), life), REFUSED);
        bed.listener.fence(2);

        // A block that is leased anew is nobody's before.
        let (queue, shard) = bed.guest(3, Rights::ReadWrite);
        let keys = bed.grant(3, &queue, &lives[..2]).unwrap();
        bed.listener.reclaim(0, &[Life { count: 2, ..life }]);
        assert_eq!(bed.write(&queue, &shard.through(keys[1]), other), DONE);
        assert_eq!(bed.write(&queue, &shard.through(keys[0]), life), REFUSED);

        // Not more than may be.
        let (queue, _) = bed.guest(5, Rights::ReadWrite);
        let mut many = bed.lives(4097);
        assert!(matches!(bed.grant(5, &queue, &many), Err(WindowError::TooMany)));
        many.pop();
        assert_eq!(bed.grant(5, &queue, &many).unwrap().len(), 4096);
        assert_eq!(bed.listener.windows(), Some(4096));
        bed.listener.fence(5);
        assert_eq!(bed.listener.windows(), Some(0));

        // A queue pair of another session, and one that is gone.
        let (queue, _) = bed.guest(4, Rights::ReadWrite);
        assert!(matches!(bed.grant(3, &queue, &lives[..1]), Err(WindowError::NoQueuePair)));
        bed.listener.fence(4);
        assert!(matches!(bed.grant(4, &queue, &lives[..1]), Err(WindowError::NoQueuePair)));
    }
}

/// Soft-RoCE is known not to.
#[test]
fn a_window_is_bounded_if_the_server_says_so() {
    for bed in devices().into_iter().filter_map(windowed) {
        let bounded = bed.listener.bounds_windows().unwrap().expect("there are windows");
        if !bounded {
            eprintln!("NOT BOUNDED: this device lets a key WRITE to all of the heap");
        }
        let (queue, shard) = bed.guest(1, Rights::ReadWrite);
        let lives = bed.lives(2);
        let keys = bed.grant(1, &queue, &lives[..1]).unwrap();
        assert_eq!(
            bed.write(&queue, &shard.through(keys[0]), lives[1]),
            if bounded { REFUSED } else { DONE }
        );
    }
}
