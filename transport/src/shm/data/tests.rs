use super::*;
use crate::region::{HugePages, Populate};
use crate::{Counts, LaneIo, drive};
use farside_hashtable::Io;

fn fabric(denied: Denied) -> Shm {
    let regions = (0..2).map(|_| Arc::new(Region::create("farside-test", 8192, HugePages::Never).unwrap()));
    Shm::new(regions, denied)
}

/// One round trip: a WRITE, a CAS and a READ of both.
async fn publish<I: Io>(io: &mut I) -> (Result<(), Lost>, Chain) {
    io.outgoing(16)[..16].copy_from_slice(&[9; 16]);
    io.reserve_incoming(32);
    let mut chain =
        Chain::from_iter([Step::write(4096, 16), Step::compare_swap(4112, 0, 3), Step::read(4096, 24, 8)]);
    let outcome = io.run(&mut chain).await;
    (outcome, chain)
}

#[test]
fn a_chain_runs_in_order_and_is_counted() {
    for (denied, round_trips) in [(Denied::default(), 1), (Denied::parse("order").unwrap(), 3)] {
        let fabric = fabric(denied);
        let (mut lane, mut counts) = (fabric.open_lane(), Counts::default());
        let mut io = LaneIo::new(&fabric, &mut lane, &mut counts, 1, u64::MAX);
        let (outcome, chain) = drive(publish(&mut io));
        assert_eq!(outcome, Ok(()));
        assert_eq!(chain[1].outcome(), Ok(()));
        assert_eq!(io.incoming()[8..24], [9; 16]);
        assert_eq!(io.incoming()[24..32], 3u64.to_le_bytes());
        drop(io);
        let expected = Counts {
            round_trips,
            reads: 1,
            writes: 1,
            cas: 1,
            bytes_read: 24,
            bytes_written: 16,
            ..Counts::default()
        };
        assert_eq!(counts, expected);
        assert_eq!(fabric.regions()[0].load(4096), Ok(0), "the other shard is untouched");
    }
}

#[test]
fn a_step_that_the_region_refuses_loses_the_chain() {
    let fabric = fabric(Denied::default());
    let (mut lane, mut counts) = (fabric.open_lane(), Counts::default());
    lane.reserve_incoming(8);
    for (shard, step) in [
        (0, Step::read(8192, 8, 0)),
        (0, Step::read(0, 16, 0)),
        (0, Step::write(0, 8)),
        (0, Step::compare_swap(4, 0, 1)),
        (2, Step::read(0, 8, 0)),
    ] {
        let mut io = LaneIo::new(&fabric, &mut lane, &mut counts, shard, u64::MAX);
        assert_eq!(drive(io.run(&mut Chain::from_iter([step]))), Err(Lost), "{step:?}");
    }
    assert_eq!(counts.lost, 5);
}

#[test]
fn a_read_only_mapping_has_reads_alone() {
    let writer = fabric(Denied::default());
    let regions = writer.regions().iter().map(|region| {
        let file = region.share(Access::Read).unwrap();
        Arc::new(Region::map(file, region.len(), Access::Read, Populate::Now).unwrap())
    });
    let reader = Shm::new(regions, Denied::default());
    let capabilities = reader.capabilities();
    assert_eq!((capabilities.read, capabilities.write), (true, false));
    assert_eq!(capabilities.atomics, AtomicScope::None);
    writer.regions()[0].write(64, &[5; 8]).unwrap();
    let (mut lane, mut counts) = (reader.open_lane(), Counts::default());
    let mut io = LaneIo::new(&reader, &mut lane, &mut counts, 0, u64::MAX);
    io.reserve_incoming(8);
    assert_eq!(drive(io.run(&mut Chain::from_iter([Step::read(64, 8, 0)]))), Ok(()));
    assert_eq!(io.incoming()[..8], [5; 8]);
    assert_eq!(drive(io.run(&mut Chain::from_iter([Step::compare_swap(64, 0, 1)]))), Err(Lost));
}
