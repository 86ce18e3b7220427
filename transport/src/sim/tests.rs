use super::{Conduct, Rng, Sim, World};
use crate::capabilities::Denied;
use crate::driver::{Counts, LaneIo, drive};
use crate::fabric::{Fabric, Lane, Posted};
use farside_hashtable::{Chain, Io, Lost, Step};
use farside_protocol::Geometry;
use farside_protocol::geometry::INDEX_AT;

const GEOMETRY: Geometry = match Geometry::new(16 << 10, 1) {
    Ok(geometry) => geometry,
    Err(_) => panic!("a small region"),
};

fn world(seed: u64, conduct: Conduct) -> (World, Sim) {
    let world = World::new(seed, conduct, &[GEOMETRY]);
    let sim = world.connect();
    (world, sim)
}

fn word(world: &World, at: u64) -> u64 {
    world.inspect(0, |words| words[at as usize / 8])
}

/// `[WRITE 0x0101.., CAS slot 0 -> 1]`, posted and not polled.
fn publish(sim: &Sim) -> super::SimLane {
    let mut lane = sim.open_lane();
    lane.outgoing(32).fill(1);
    let mut chain =
        Chain::from_iter([Step::write(GEOMETRY.heap_at(), 32), Step::compare_swap(INDEX_AT, 0, 1)]);
    assert_eq!(sim.post(&mut lane, 0, &mut chain), Posted::Pending);
    lane
}

/// Whatever the conduct, an undisturbed chain does what it says.
#[test]
fn a_chain_alone_does_what_it_says() {
    for seed in 0..200 {
        let rng = &mut Rng::new(seed);
        let conduct = Conduct { fail_one_in: 0, silence_one_in: 0, ..Conduct::drawn(rng, 1_000_000) };
        let (world, sim) = world(seed, conduct);
        let (mut lane, mut counts) = (sim.open_lane(), Counts::default());
        let mut io = LaneIo::new(&sim, &mut lane, &mut counts, 0, u64::MAX);
        let bytes: Vec<u8> = (0..64).collect();
        io.outgoing(64).copy_from_slice(&bytes);
        io.reserve_incoming(72);
        let at = GEOMETRY.heap_at();
        let mut chain = Chain::from_iter([
            Step::write(at, 64),
            Step::compare_swap(INDEX_AT, 0, 7),
            Step::compare_swap(INDEX_AT, 0, 8),
            Step::read(at, 64, 8),
        ]);
        assert_eq!(drive(io.run(&mut chain)), Ok(()));
        assert_eq!((chain[1].outcome(), chain[2].outcome()), (Ok(()), Err(7)));
        assert_eq!(io.incoming()[8..72], bytes);
        assert_eq!(word(&world, INDEX_AT), 7);
        assert!(!world.is_in_flight(sim.client()));
    }
}

/// Two clients, one writing a block again and again, one reading it: some reads are torn, and the same seed tears
/// the same ones.
#[test]
fn reads_are_torn_and_a_seed_repeats_its_run() {
    let run = |seed| {
        let conduct =
            Conduct { tear: true, reorder: true, hold_one_in: 4, hold_steps_max: 9, ..Conduct::CALM };
        let (world, writer) = world(seed, conduct);
        let reader = world.connect();
        world.keep_events(10_000);
        let (mut from, mut to) = (writer.open_lane(), reader.open_lane());
        to.reserve_incoming(64);
        let mut write = Chain::from_iter([Step::write(GEOMETRY.heap_at(), 64)]);
        let mut read = Chain::from_iter([Step::read(GEOMETRY.heap_at(), 64, 0)]);
        let mut torn = 0;
        for round in 1..40 {
            from.outgoing(64).fill(round);
            let _ = writer.post(&mut from, 0, &mut write);
            let _ = reader.post(&mut to, 0, &mut read);
            while from.in_flight() || to.in_flight() {
                let _ = from.in_flight() && writer.poll(&mut from, &mut write).is_some();
                let _ = to.in_flight() && reader.poll(&mut to, &mut read).is_some();
            }
            torn += usize::from(to.incoming().iter().any(|byte| *byte != to.incoming()[0]));
        }
        (torn, world.events())
    };
    let (torn, events) = run(5);
    assert!((5..39).contains(&torn), "{torn} of 39 torn");
    assert_eq!(run(5), (torn, events.clone()));
    assert_ne!(run(6).1, events);
}

/// Rule T5: what was given up may execute until the fence, and never after.
#[test]
fn what_was_given_up_executes_before_the_fence_or_never() {
    let (mut after_loss, mut never) = (0, 0);
    for seed in 0..300 {
        let conduct = Conduct { late: true, hold_steps_max: 30, ..Conduct::CALM };
        let (world, sim) = world(seed, conduct);
        let mut lane = publish(&sim);
        sim.abandon(&mut lane);
        assert!(!lane.in_flight());
        let began = word(&world, INDEX_AT);
        let (mut lane, mut counts) = (sim.open_lane(), Counts::default());
        assert_eq!(drive(LaneIo::new(&sim, &mut lane, &mut counts, 0, u64::MAX).fence()), Ok(()));
        let fenced = word(&world, INDEX_AT);
        after_loss += u32::from(fenced != began);
        never += u32::from(fenced == 0);
        (0..100).for_each(|_| world.step());
        assert_eq!(word(&world, INDEX_AT), fenced, "seed {seed}: something executed after the fence");
    }
    assert!(after_loss > 20 && never > 20, "{after_loss} executed late, {never} never");
}

#[test]
fn a_severed_client_changes_nothing_more() {
    let (world, sim) = world(1, Conduct::CALM);
    let mut lane = publish(&sim);
    world.sever(sim.client());
    (0..100).for_each(|_| world.step());
    assert_eq!((word(&world, INDEX_AT), word(&world, GEOMETRY.heap_at())), (0, 0));
    let mut chain = Chain::from_iter([Step::compare_swap(INDEX_AT, 0, 1)]);
    assert_eq!(sim.poll(&mut lane, &mut chain), Some(Err(Lost)));
    assert_eq!(sim.post(&mut lane, 0, &mut chain), Posted::Done(Err(Lost)));
    assert_eq!(sim.poll_fence(0), Some(Err(Lost)));
}

#[test]
fn a_chain_that_never_completes_is_given_up_at_the_deadline() {
    let conduct = Conduct { silence_one_in: 1, ..Conduct::CALM };
    let (_, sim) = world(1, conduct);
    let (mut lane, mut counts) = (sim.open_lane(), Counts::default());
    let deadline_ns = sim.now() + 1_000_000;
    let mut io = LaneIo::new(&sim, &mut lane, &mut counts, 0, deadline_ns);
    let mut chain = Chain::from_iter([Step::compare_swap(INDEX_AT, 0, 1)]);
    assert_eq!(drive(io.run(&mut chain)), Err(Lost));
    assert!(sim.now() >= deadline_ns);
    drop(io);
    assert_eq!(counts.lost, 1);
}

#[test]
fn memory_that_is_not_a_clients_to_touch_is_refused() {
    let (world, sim) = world(1, Conduct::CALM);
    let mut lane = sim.open_lane();
    lane.reserve_incoming(64);
    lane.outgoing(64);
    let (heap, end) = (GEOMETRY.heap_at(), GEOMETRY.region_len());
    let refused = [
        Step::read(end - 8, 16, 0),
        Step::read(heap, 128, 0),
        Step::read(u64::MAX - 7, 8, 0),
        Step::write(INDEX_AT, 8),
        Step::write(heap, 128),
        Step::write(end, 8),
        Step::compare_swap(0, 0, 1),
        Step::compare_swap(heap + 4, 0, 1),
    ];
    for step in refused {
        assert_eq!(
            sim.post(&mut lane, 0, &mut Chain::from_iter([step])),
            Posted::Done(Err(Lost)),
            "{step:?}"
        );
    }
    assert_eq!(sim.post(&mut lane, 1, &mut Chain::from_iter([Step::read(0, 8, 0)])), Posted::Done(Err(Lost)));
    assert_eq!(world.refused(), refused.len() as u64 + 1);
}

#[test]
fn capabilities_can_be_denied() {
    let denied = Denied { order: true, atomic: true, ..Denied::default() };
    let (_, sim) = world(1, Conduct { denied, ..Conduct::CALM });
    assert!(!sim.capabilities().ordered && sim.capabilities().read);
    let (_, sim) = world(1, Conduct::CALM);
    assert!(sim.capabilities().ordered);
}
