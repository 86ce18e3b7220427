//! A client dies after each step of each operation, and neither its key nor a block is lost.

use super::*;
use crate::config::{Config, Socket};
use crate::engine::{Answer, Engine};
use crate::pass::Pass;
use crate::server::{Running, Server};
use crate::session::Via;
use crate::stats::Status;
use farside_hashtable::duties::Duties;
use farside_hashtable::plan::{self, Lease, Op, Table, bring_forward};
use farside_hashtable::{Chain, Io, Lost};
use farside_protocol::wire::{Condition, Rights};
use farside_protocol::{Key, Record};
use farside_transport::clock::coarse_ns;
use farside_transport::verbs::Own;
use std::future::pending;
use std::pin::pin;
use std::task::{Context, Waker};

/// Carries out so many steps, and then never another: what comes of a plan when its process is killed.
struct Dying<'s> {
    io: LaneIo<'s, Own>,
    steps: usize,
}

impl Io for Dying<'_> {
    async fn run(&mut self, chain: &mut Chain) -> Result<(), Lost> {
        for step in chain {
            match self.steps.checked_sub(1) {
                Some(left) => self.steps = left,
                None => pending().await,
            }
            let mut single = Chain::from_iter([*step]);
            self.io.run(&mut single).await?;
            *step = single[0];
        }
        Ok(())
    }

    async fn fence(&mut self) -> Result<(), Lost> {
        self.io.fence().await
    }

    async fn pause(&mut self, attempt: u32) {
        self.io.pause(attempt).await;
    }

    fn now(&self) -> u64 {
        self.io.now()
    }

    fn wall_ms(&self) -> u64 {
        self.io.wall_ms()
    }

    fn reserve_incoming(&mut self, len: usize) {
        self.io.reserve_incoming(len);
    }

    fn incoming(&self) -> &[u8] {
        self.io.incoming()
    }

    fn outgoing(&mut self, len: usize) -> &mut [u8] {
        self.io.outgoing(len)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Last {
    Insert,
    Update,
    Delete,
    FetchAdd,
}

const NEW: &[u8] = b"from the dead";

fn start() -> Running {
    let config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        socket: Socket::Off,
        memory: Some(1 << 20),
        shards: Some(1),
        max_keys: Some(1000),
        threads: Some(1),
        quarantine: Duration::from_millis(20),
        ..Config::default()
    };
    Server::start(config).unwrap()
}

fn key() -> Key<'static> {
    Key::new(b"k").unwrap()
}

fn record(value: &[u8]) -> Record<'_> {
    Record::new(key(), value).unwrap()
}

fn status(answer: Answer) -> Status {
    match answer {
        Answer::Done(status) => status,
        Answer::NoMemory { .. } => panic!("memory ran out"),
    }
}

/// The client's last operation, with its duties, as far as its steps go.
async fn perform(io: &mut Dying<'_>, table: &Table, last: Last, lease: Lease) {
    let op = Op::new(table, key(), io.now(), io.now() + 1_000_000_000);
    let mut duties = Duties::default();
    match last {
        Last::Insert | Last::Update => {
            let record = record(NEW);
            plan::put(io, table, &op, &record, Condition::Always, lease, None, &mut duties).await.unwrap();
        }
        Last::Delete => {
            plan::delete(io, table, &op, Condition::Always, None, &mut duties).await.unwrap();
        }
        Last::FetchAdd => {
            plan::fetch_add(io, table, &op, 1, lease, None, &mut duties).await.unwrap();
        }
    }
    for forward in std::mem::take(&mut duties.forwards) {
        bring_forward(io, table, forward, op.deadline_ns, &mut duties).await.unwrap();
    }
}

/// Has a client die after `steps` steps of `last`; returns whether it had come to its end before.
fn die_after(running: &Running, steps: usize, last: Last) -> bool {
    let state = running.state();
    let shard = &state.shards[0];
    let session = state.sessions.open(Via::Shm, Rights::ReadWrite, Rights::ReadWrite);
    let class = match last {
        Last::FetchAdd => record(&[0; 8]).class(),
        _ => record(NEW).class(),
    };
    let mut lives = Vec::new();
    let mut heap = shard.heap.lock();
    heap.open_session(session.id).unwrap();
    heap.lease(session.id, class, 5, coarse_ns(), &mut lives).unwrap();
    drop(heap);
    let fabric = state.fabric();
    let (mut lane, mut counts) = (fabric.open_lane(), farside_transport::Counts::default());
    let deadline_ns = fabric.now() + 1_000_000_000;
    let mut io = Dying { io: LaneIo::new(&fabric, &mut lane, &mut counts, 0, deadline_ns), steps };
    let ended = {
        let plan = pin!(perform(&mut io, &shard.table, last, Lease { life: lives[0], class }));
        plan.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    };
    let mut tools = Tools::new(state.clone(), Duration::ZERO);
    assert!(Remains::of(session).clear_away(&mut tools).is_none());
    ended
}

fn sweep(running: &Running) {
    let state = running.state();
    let mut tools = Tools::new(state.clone(), Duration::ZERO);
    let mut pass = Pass::begin(&state);
    while !pass.step(&mut tools) {}
}

/// Bytes leased, and holding records.
fn usage(running: &Running) -> (u64, u64) {
    let usage = running.state().shards[0].heap.lock().usage();
    (usage.leased, usage.published)
}

fn dies_at_any_step(last: Last) {
    for steps in 0.. {
        let running = start();
        let mut engine = Engine::new(running.state());
        let (mut out, old) = (Vec::new(), b"before");
        // The stock that the server's own changes come from is there before anything is compared.
        engine.put(&record(old), Condition::Always, 1, &mut out);
        engine.fetch_add(Key::new(b"other").unwrap(), 1, 1, &mut out);
        match last {
            Last::Update | Last::Delete => {}
            Last::Insert | Last::FetchAdd => {
                engine.delete(key(), Condition::Always, 1, &mut out);
            }
        }
        engine.settle_all();
        let ended = die_after(&running, steps, last);

        // The key is there as it was, or as the client made it, and can be changed at once.
        out.clear();
        let got = status(engine.get(key(), 1, &mut out));
        let is_old = out.ends_with(old);
        let is_new = out.ends_with(if last == Last::FetchAdd { &[1, 0, 0, 0, 0, 0, 0, 0] } else { NEW });
        let is_right = match last {
            Last::Update => is_old || is_new,
            Last::Delete => is_old || got == Status::Absent,
            Last::Insert | Last::FetchAdd => is_new || got == Status::Absent,
        };
        assert!(is_right, "{last:?} after {steps} steps: {got:?}");
        assert_eq!(status(engine.put(&record(old), Condition::Always, 1, &mut out)), Status::Ok, "{steps}");
        assert_eq!(status(engine.delete(key(), Condition::Always, 1, &mut out)), Status::Ok, "{steps}");
        assert_eq!(
            status(engine.delete(Key::new(b"other").unwrap(), Condition::Always, 1, &mut out)),
            Status::Ok
        );
        engine.settle_all();
        sweep(&running);
        let (leased, published) = usage(&running);
        assert_eq!(published, 0, "{last:?} after {steps} steps leaves records that nothing leads to");
        drop(engine);
        // What is still leased is the server's own stock.
        let own = running.state().shards[0].heap.lock().leased_bytes(crate::shard::SERVER_SESSION);
        assert_eq!(leased, own, "{last:?} after {steps} steps leaves blocks leased");
        if ended {
            assert!(steps > 3, "the operation has steps to die between");
            return;
        }
    }
}

#[test]
fn in_an_insert() {
    dies_at_any_step(Last::Insert);
}

#[test]
fn in_an_update() {
    dies_at_any_step(Last::Update);
}

#[test]
fn in_a_delete() {
    dies_at_any_step(Last::Delete);
}

#[test]
fn in_a_fetch_add() {
    dies_at_any_step(Last::FetchAdd);
}
