//! Several clients and a server step through the real plans over simulated memory, with the real heap; everything
//! that happens is drawn from one seed.
//!
//! ```text
//!  Setup (from a seed)          the scheduler polls one task at a time; each poll moves the world one step
//!    clients' programs ----> client 0 ... client n     server: hears reports, sweeps, buries the dead
//!    conduct of the fabric       \   plans over LaneIo   /       \
//!    deaths, pauses, drops        `---> sim::World <----'         `--> heap::Heap
//!                                            |
//!                    after each change of memory: audit;  at the end: audit, history
//! ```
//!
//! - [`Setup`] says what a run is made of, [`run`] runs it, [`explain`] runs it again and tells the last events,
//!   [`hunt`] runs many.
//! - [`Breach`] lists what is checked: at every change of memory, of every answer, and when all is done.
//! - [`Tally`] counts what runs came across, so that a test can see that the simulator gets where it should.

mod audit;
mod client;
mod hunt;
mod keys;
mod restart;
mod server;
mod setup;
mod shared;
mod tally;
mod trace;
mod waiting;

pub use audit::Breach;
pub use hunt::{Found, hunt, replay};
pub use setup::{Call, Death, KeyChoice, Kind, QUARANTINE_NS, Setup, Theme};
pub use tally::Tally;

use crate::history::History;
use crate::linearizability;
use audit::{audit, audit_end};
use client::Client;
use farside_hashtable::duties::Duties;
use farside_hashtable::plan::{Lease, Op, Put, put};
use farside_protocol::wire::Condition;
use farside_protocol::{Key, Record};
use farside_transport::sim::{ClientId, Rng, Sim};
use farside_transport::{Counts, Fabric, LaneIo, drive};
use keys::pool;
use server::Server;
use shared::{CROWD, Mail, Session, SessionState, Shared, WRAPPER};
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};

/// Steps after which a run must have ended.
const STEPS_MAX: u64 = 3_000_000;

/// How long until the server notices a death, steps.
const NOTICE_STEPS_MAX: u64 = 300;

/// A run that went wrong.
#[derive(Clone, Debug)]
pub struct Failed {
    /// What was found.
    pub breach: Breach,
    /// The last events, if they were kept.
    pub trace: Vec<String>,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.trace {
            writeln!(f, "{line}")?;
        }
        write!(f, "{}", self.breach)
    }
}

/// Runs `setup` to its end, or to the first breach.
pub fn run(setup: &Setup) -> Result<Tally, Box<Failed>> {
    Run::new(setup).run_to_its_end()
}

/// Runs `setup` with its events kept.
pub fn explain(setup: &Setup) -> Result<Tally, Box<Failed>> {
    let run = Run::new(setup);
    run.shared.world.keep_events(trace::EVENTS);
    run.run_to_its_end()
}

/// How many accesses `client` makes in a run of `setup` in which nobody dies.
pub fn accesses(setup: &Setup, client: usize) -> Result<u64, Box<Failed>> {
    let run = Run::new(&Setup { death: None, ..setup.clone() });
    let world = run.shared.world.clone();
    run.run_to_its_end()?;
    Ok(world.executed(ClientId(client)))
}

type Task = Pin<Box<dyn Future<Output = ()>>>;

struct Run {
    shared: Rc<Shared>,
    rng: Rng,
    /// The clients, and the server last.
    tasks: Vec<Option<Task>>,
    frozen_until: Vec<u64>,
    /// Those of the clients and of the server.
    connections: Vec<ClientId>,
    reader: Sim,
    audited: u64,
}

impl Run {
    fn new(setup: &Setup) -> Self {
        let shared = Rc::new(Shared::new(setup));
        let clients = setup.programs.len();
        let connections: Vec<Sim> = (0..clients).map(|_| shared.world.connect()).collect();
        let (server, reader) = (shared.world.connect(), shared.world.connect());
        for (number, fabric) in connections.iter().enumerate() {
            shared.heap.borrow_mut().open_session(number as u64).expect("each number is new");
            shared.sessions.borrow_mut().push(Session {
                client: fabric.client(),
                mail: VecDeque::new(),
                state: SessionState::Open,
            });
        }
        shared.heap.borrow_mut().open_session(WRAPPER).expect("a number of its own");
        fill(&shared, &reader);
        shared.world.set_conduct(setup.conduct);
        let mut tasks: Vec<Option<Task>> = Vec::new();
        let ids = connections.iter().chain([&server]).map(Sim::client).collect();
        for (number, fabric) in connections.into_iter().enumerate() {
            tasks.push(Some(Box::pin(Client::new(&shared, number, fabric).live())));
        }
        tasks.push(Some(Box::pin(Server::new(&shared, server).serve())));
        Self {
            rng: Rng::new(setup.seed.rotate_left(32)),
            frozen_until: vec![0; tasks.len()],
            tasks,
            shared,
            connections: ids,
            reader,
            audited: 0,
        }
    }

    fn run_to_its_end(mut self) -> Result<Tally, Box<Failed>> {
        while self.tasks.iter().any(Option::is_some) && !self.ends_now() {
            self.step();
            self.check()?;
        }
        if self.shared.setup.restart_at.is_some() {
            self.restart();
            self.check()?;
        }
        drive(Client::new(&self.shared, self.tasks.len() - 1, self.reader.clone()).read_all());
        self.check()?;
        if self.shared.rotten.get() {
            return Ok(self.tally());
        }
        let recorders = self.shared.recorders.take();
        linearizability::check(&History::from_recorders(recorders))
            .map_err(|failure| self.failed(Breach::History(failure)))?;
        audit_end(&self.shared).map_err(|breach| self.failed(breach))?;
        Ok(self.tally())
    }

    fn tally(&self) -> Tally {
        Tally { steps: self.shared.world.steps(), ..*self.shared.tally.borrow() }
    }

    /// Polls one task, unless all that are left are frozen.
    fn step(&mut self) {
        self.kill();
        self.rot();
        let now = self.shared.world.steps();
        let is_awake = |at: &usize| self.tasks[*at].is_some() && self.frozen_until[*at] <= now;
        let awake = (0..self.tasks.len()).filter(is_awake).count();
        let chosen = (0..self.tasks.len()).filter(is_awake).nth(self.rng.index(awake));
        let Some(chosen) = chosen else {
            self.shared.world.step();
            return;
        };
        let is_client = chosen + 1 < self.tasks.len();
        if is_client && self.rng.one_in(self.shared.setup.freeze_one_in) {
            self.frozen_until[chosen] = now + self.rng.magnitude(self.shared.setup.freeze_steps_max);
            return;
        }
        let task = self.tasks[chosen].as_mut().expect("it is awake");
        if task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            self.tasks[chosen] = None;
        }
    }

    /// Ends a client whose time has come, or its session, in the middle of whatever it does.
    fn kill(&mut self) {
        let Some(death) = self.shared.setup.death else { return };
        let sessions = &self.shared.sessions;
        if sessions.borrow()[death.client].state != SessionState::Open
            || self.shared.world.executed(ClientId(death.client)) < death.after
        {
            return;
        }
        if death.evicted {
            self.shared.world.note(ClientId(death.client), || "is to be evicted".into());
        } else {
            self.shared.world.note(ClientId(death.client), || "dies".into());
            self.tasks[death.client] = None;
        }
        let noticed_at = self.shared.world.steps() + self.rng.magnitude(NOTICE_STEPS_MAX);
        let session = &mut sessions.borrow_mut()[death.client];
        session.state = SessionState::Gone { noticed_at };
        if death.silences {
            session.mail.clear();
        }
        self.shared.tally.borrow_mut().died += 1;
    }

    fn ends_now(&self) -> bool {
        self.shared.setup.restart_at.is_some_and(|step| step <= self.shared.world.steps())
    }

    /// Ends whoever is left, and has another server go on.
    fn restart(&mut self) {
        let shared = Rc::clone(&self.shared);
        self.tasks.fill_with(|| None);
        self.connections.iter().for_each(|client| shared.world.sever(*client));
        let repaired = restart::recover(&shared, &shared.world.connect());
        let tally = &mut *shared.tally.borrow_mut();
        tally.recovered_keys += repaired.keys;
        tally.recovered_lagging += repaired.lagging;
        tally.recovered_dead += repaired.dead;
        tally.recovered_tentative += repaired.tentative;
    }

    /// Flips a bit of some record that a slot leads to, once its time has come and there is one.
    fn rot(&mut self) {
        let is_due = self.shared.setup.rot_at.is_some_and(|step| step <= self.shared.world.steps());
        if !is_due || self.shared.rotten.get() {
            return;
        }
        let records = audit::records(&self.shared);
        if let Some(&(at, len)) = records.get(self.rng.index(records.len())) {
            let byte = 8 + self.rng.below(len - 8);
            self.shared.world.flip(0, at + byte / 8 * 8, self.rng.below(64));
            self.shared.rotten.set(true);
        }
    }

    fn check(&mut self) -> Result<(), Box<Failed>> {
        let (steps, changes) = (self.shared.world.steps(), self.shared.world.changes());
        if let Some(breach) = self.shared.breach.take() {
            return Err(self.failed(breach));
        }
        if changes != self.audited && !self.shared.rotten.get() {
            self.audited = changes;
            audit(&self.shared).map_err(|breach| self.failed(breach))?;
        }
        if steps > STEPS_MAX { Err(self.failed(Breach::Endless(steps))) } else { Ok(()) }
    }

    fn failed(&self, breach: Breach) -> Box<Failed> {
        Box::new(Failed { breach, trace: trace::lines(&self.shared) })
    }
}

/// Fills the window with keys that nobody works on.
fn fill(shared: &Shared, fabric: &Sim) {
    let (mut lane, mut counts, mut duties) = (fabric.open_lane(), Counts::default(), Duties::default());
    shared.heap.borrow_mut().open_session(CROWD).expect("a number of its own");
    let in_use: Vec<usize> = shared.setup.keys.iter().map(|key| key.pool).collect();
    for name in (0..pool().len()).rev().filter(|key| !in_use.contains(key)).take(shared.setup.crowd) {
        let key = Key::new(&pool()[name]).expect("no key of the pool is empty or long");
        let record = Record::new(key, b"").expect("it is short");
        let mut lives = Vec::new();
        shared
            .heap
            .borrow_mut()
            .lease(CROWD, record.class(), 1, shared.world.now_ns(), &mut lives)
            .expect("the heap has room for the crowd");
        let lease = Lease { life: lives[0], class: record.class() };
        let mut io = LaneIo::new(fabric, &mut lane, &mut counts, 0, u64::MAX);
        let op = Op::new(&shared.table, key, fabric.now(), u64::MAX);
        let stored =
            drive(put(&mut io, &shared.table, &op, &record, Condition::Always, lease, None, &mut duties));
        assert!(matches!(stored, Ok(Put::Stored { .. })), "the window has room for the crowd: {stored:?}");
        shared.hear(CROWD, &Mail { published: std::mem::take(&mut duties.published), ..Mail::default() });
    }
}
