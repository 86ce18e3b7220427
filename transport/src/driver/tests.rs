//! The driver over a fabric whose completions are late or never come.

use super::*;
use crate::capabilities::{AtomicScope, Capabilities};
use crate::fabric::Buffers;
use std::cell::{Cell, RefCell};

/// Completes a chain at the `late`-th poll; `None`: never. Its clock moves by one with each reading.
struct Slow {
    late: Option<u32>,
    ordered: bool,
    clock: Cell<u64>,
    posted: RefCell<Vec<usize>>,
    kept: RefCell<Vec<SlowLane>>,
    holds: Cell<bool>,
    held: Cell<usize>,
    /// How many chains were held back in each turn in which any was.
    turns: RefCell<Vec<usize>>,
    rests: Cell<u32>,
}

#[derive(Default, Debug)]
struct SlowLane {
    polls: Option<u32>,
    buffers: Buffers,
}

impl Slow {
    fn new(late: Option<u32>, ordered: bool) -> Self {
        Self {
            late,
            ordered,
            clock: Cell::default(),
            posted: RefCell::default(),
            kept: RefCell::default(),
            holds: Cell::default(),
            held: Cell::default(),
            turns: RefCell::default(),
            rests: Cell::default(),
        }
    }
}

impl Fabric for Slow {
    type Lane = SlowLane;
    fn capabilities(&self) -> Capabilities {
        Capabilities { read: true, write: true, atomics: AtomicScope::Device, ordered: self.ordered }
    }
    fn open_lane(&self) -> SlowLane {
        SlowLane::default()
    }
    fn post(&self, lane: &mut SlowLane, _shard: usize, chain: &mut Chain) -> Posted {
        assert!(!lane.in_flight());
        self.posted.borrow_mut().push(chain.len());
        self.held.update(|held| held + usize::from(self.holds.get()));
        lane.polls = Some(0);
        Posted::Pending
    }
    fn poll(&self, lane: &mut SlowLane, chain: &mut Chain) -> Option<Result<(), Lost>> {
        let polls = lane.polls.as_mut().expect("a lane in flight");
        *polls += 1;
        if self.late != Some(*polls) {
            return None;
        }
        for step in chain {
            if let Step::CompareSwap { found, .. } = step {
                *found = 77;
            }
        }
        lane.polls = None;
        Some(Ok(()))
    }
    fn hold(&self) {
        self.holds.set(true);
    }
    fn release(&self) {
        self.holds.set(false);
        self.turns.borrow_mut().extend(Some(self.held.take()).filter(|held| *held > 0));
    }
    fn rest(&self) {
        self.rests.update(|rests| rests + 1);
    }
    fn abandon(&self, lane: &mut SlowLane) {
        self.kept.borrow_mut().push(std::mem::take(lane));
    }
    fn poll_fence(&self, _shard: usize) -> Option<Result<(), Lost>> {
        self.late.map(|_| Ok(()))
    }
    fn now(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }
    fn fine_ns(&self) -> u64 {
        self.now()
    }
    fn wall_ms(&self) -> u64 {
        0
    }
}

impl Lane for SlowLane {
    fn buffers(&self) -> &Buffers {
        &self.buffers
    }
    fn buffers_mut(&mut self) -> &mut Buffers {
        &mut self.buffers
    }
    fn in_flight(&self) -> bool {
        self.polls.is_some()
    }
}

fn swap_and_read() -> Chain {
    Chain::from_iter([Step::compare_swap(0, 0, 1), Step::read(0, 8, 0)])
}

#[test]
fn a_late_completion_brings_the_words_found() {
    let fabric = Slow::new(Some(1000), true);
    let (mut lane, mut counts) = (fabric.open_lane(), Counts::default());
    let mut io = LaneIo::new(&fabric, &mut lane, &mut counts, 0, u64::MAX);
    let mut chain = swap_and_read();
    assert_eq!(drive(io.run(&mut chain)), Ok(()));
    assert_eq!(chain[0].outcome(), Err(77));
    drop(io);
    assert_eq!((counts.round_trips, counts.lost), (1, 0));
    assert!(fabric.kept.borrow().is_empty());
}

#[test]
fn without_order_each_step_waits_for_the_one_before() {
    let fabric = Slow::new(Some(3), false);
    let (mut lane, mut counts) = (fabric.open_lane(), Counts::default());
    let mut io = LaneIo::new(&fabric, &mut lane, &mut counts, 0, u64::MAX);
    let mut chain = swap_and_read();
    assert_eq!(drive(io.run(&mut chain)), Ok(()));
    assert_eq!(chain[0].outcome(), Err(77));
    assert_eq!(*fabric.posted.borrow(), [1, 1]);
}

#[test]
fn a_completion_that_never_comes_is_lost_at_the_deadline_and_the_buffers_stay_with_the_fabric() {
    let fabric = Slow::new(None, true);
    let (mut lane, mut counts) = (fabric.open_lane(), Counts::default());
    let mut io = LaneIo::new(&fabric, &mut lane, &mut counts, 0, 500);
    io.reserve_incoming(64);
    assert_eq!(drive(io.run(&mut swap_and_read())), Err(Lost));
    assert!(fabric.clock.get() >= 500);
    assert_eq!(drive(io.fence()), Err(Lost), "this fence never answers either");
    // The operation goes on with a fresh lane.
    io.reserve_incoming(8);
    assert_eq!(io.incoming().len(), 8);
    drop(io);
    assert!(!lane.in_flight());
    assert_eq!(counts.lost, 1);
    assert_eq!(fabric.kept.borrow().len(), 1);
    assert_eq!(fabric.kept.borrow()[0].incoming().len(), 64);
}

#[test]
fn plans_together_ask_together_and_answer_in_their_order() {
    let fabric = Slow::new(Some(20), true);
    let mut lanes = [0; 3].map(|_| (fabric.open_lane(), Counts::default()));
    let plans = lanes.iter_mut().enumerate().map(|(number, (lane, counts))| {
        let mut io = LaneIo::new(&fabric, lane, counts, 0, u64::MAX);
        async move {
            for _ in 0..number {
                io.run(&mut swap_and_read()).await?;
            }
            Ok::<_, Lost>(number)
        }
    });
    assert_eq!(drive_together(&fabric, plans), [Ok(0), Ok(1), Ok(2)]);
    assert_eq!(*fabric.turns.borrow(), [2, 1], "chains that were asked for in one turn, where any was");
    assert!(!fabric.holds.get());
}

#[test]
fn who_polls_in_vain_for_long_rests() {
    let fabric = Slow::new(None, true);
    let (mut lane, mut counts) = (fabric.open_lane(), Counts::default());
    let mut io = LaneIo::new(&fabric, &mut lane, &mut counts, 0, BUSY_NS);
    assert_eq!(drive(io.run(&mut swap_and_read())), Err(Lost));
    assert_eq!(fabric.rests.get(), 0);
    io.deadline_ns = fabric.clock.get() + 2 * BUSY_NS;
    assert_eq!(drive(io.run(&mut swap_and_read())), Err(Lost));
    assert!(fabric.rests.get() > 0);
}

#[test]
fn an_operation_dropped_in_mid_flight_leaves_its_buffers_with_the_fabric() {
    let fabric = Slow::new(Some(5), true);
    let (mut lane, mut counts) = (fabric.open_lane(), Counts::default());
    {
        let mut io = LaneIo::new(&fabric, &mut lane, &mut counts, 0, u64::MAX);
        let mut chain = swap_and_read();
        let mut run = pin!(io.run(&mut chain));
        assert!(run.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    assert!(!lane.in_flight());
    assert_eq!(fabric.kept.borrow().len(), 1);
}

#[test]
fn a_pause_lasts_longer_with_each_attempt_to_a_bound() {
    let fabric = Slow::new(None, true);
    let (mut lane, mut counts) = (fabric.open_lane(), Counts::default());
    let mut io = LaneIo::new(&fabric, &mut lane, &mut counts, 0, u64::MAX);
    for attempt in [0, 1, 5, 11, 12, u32::MAX] {
        let began = fabric.clock.get();
        drive(io.pause(attempt));
        let (waited, most) = (fabric.clock.get() - began, 512u64 << attempt.min(11));
        assert!((most / 2..=most + 2).contains(&waited), "attempt {attempt}: {waited} of {most}");
    }
    drop(io);
    assert_eq!(counts.retries, 6);
}
