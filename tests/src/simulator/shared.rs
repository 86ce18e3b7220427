//! What clients, server and scheduler of one run share.

use super::audit::Breach;
use super::keys::{TABLE_SEED, pool};
use super::setup::{QUARANTINE_NS, Setup};
use super::tally::Tally;
use crate::history::Recorder;
use farside_hashtable::heap::{Heap, LeaseError, Ledger, Report, blank};
use farside_hashtable::plan::Table;
use farside_protocol::{Class, Geometry, Key, Life, Version};
use farside_transport::sim::{ClientId, Conduct, World};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The heap's number for whoever filled the table beforehand.
pub(super) const CROWD: u64 = 1_000;

/// The heap's number for whoever makes tags come round.
pub(super) const WRAPPER: u64 = 1_001;

pub(super) struct Shared {
    pub(super) setup: Setup,
    pub(super) world: World,
    pub(super) table: Table,
    pub(super) heap: RefCell<Heap>,
    pub(super) ledger: Words,
    /// All lives that were leased to clients.
    pub(super) issued: RefCell<BTreeSet<Life>>,
    pub(super) sessions: RefCell<Vec<Session>>,
    /// One for each client, and one for the reader of the final values.
    pub(super) recorders: RefCell<Vec<Recorder<usize, u64>>>,
    /// The versions of each key that anybody was told, the youngest last.
    pub(super) versions: RefCell<Vec<Vec<Version>>>,
    pub(super) tally: RefCell<Tally>,
    /// Whether memory was damaged: then only what clients are given counts.
    pub(super) rotten: Cell<bool>,
    /// What was found wrong first.
    pub(super) breach: RefCell<Option<Breach>>,
}

/// A client's session, as its server sees it.
pub(super) struct Session {
    pub(super) client: ClientId,
    /// What it has told and the server has not heard yet.
    pub(super) mail: VecDeque<Mail>,
    pub(super) state: SessionState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SessionState {
    Open,
    /// Its client left or died; the server will notice at this step.
    Gone {
        noticed_at: u64,
    },
    /// Fenced, and each of its blocks is resolved.
    Buried,
}

/// A report on its way.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Mail {
    pub(super) published: Vec<Life>,
    pub(super) retired: Vec<Life>,
    pub(super) returned: Vec<Life>,
}

impl Shared {
    pub(super) fn new(setup: &Setup) -> Self {
        let heap_at = Geometry::new(1 << 20, setup.lines).expect("a small table").heap_at();
        let geometry = Geometry::new(heap_at + setup.heap_len, setup.lines).expect("a small table");
        let table = Table { geometry, seed: TABLE_SEED, quarantine_ns: QUARANTINE_NS };
        let ledger = Words::of(geometry);
        Self {
            world: World::new(setup.seed, Conduct::CALM, &[geometry]),
            table,
            heap: RefCell::new(Heap::new(geometry, setup.rest_ns()).with_ledger(Box::new(ledger.clone()))),
            ledger,
            issued: RefCell::default(),
            sessions: RefCell::default(),
            recorders: RefCell::new((0..=setup.programs.len() as u32).map(Recorder::new).collect()),
            versions: RefCell::new(vec![Vec::new(); setup.keys.len()]),
            tally: RefCell::default(),
            rotten: Cell::new(false),
            breach: RefCell::default(),
            setup: setup.clone(),
        }
    }

    /// The name of one of the keys that are worked on.
    pub(super) fn key(&self, key: usize) -> Key<'static> {
        Key::new(&pool()[self.setup.keys[key].pool]).expect("no key of the pool is empty or long")
    }

    /// A moment later than all before it, for the history.
    pub(super) fn moment(&self) -> u64 {
        self.world.leap(1);
        self.world.now_ns()
    }

    /// Notes what is wrong, unless something was before.
    pub(super) fn break_off(&self, breach: Breach) {
        if self.rotten.get() && matches!(breach, Breach::Failed(_) | Breach::Dropped | Breach::LostInPeace(_))
        {
            return;
        }
        self.breach.borrow_mut().get_or_insert(breach);
    }

    /// Leases blocks, and notes that it did.
    pub(super) fn lease(
        &self,
        session: u64,
        class: Class,
        max: usize,
        lives: &mut Vec<Life>,
    ) -> Result<(), LeaseError> {
        let before = lives.len();
        let leased = self.heap.borrow_mut().lease(session, class, max, self.world.coarse_ns(), lives);
        for &life in &lives[before..] {
            if !self.issued.borrow_mut().insert(life) {
                self.break_off(Breach::LifeTwice { life });
            }
        }
        leased
    }

    /// The server hears a report. Retirements are stamped by the exact clock, see [`Shared::release_due`].
    pub(super) fn hear(&self, session: u64, mail: &Mail) {
        let Mail { published, retired, returned } = mail;
        let report = Report { published, retired, returned };
        self.heap.borrow_mut().report(session, &report, self.world.now_ns());
    }

    /// Makes blocks whose quarantine is over, by the coarse clock, ready to be leased anew.
    pub(super) fn release_due(&self) {
        let mut heap = self.heap.borrow_mut();
        let mut lives = Vec::new();
        heap.due(self.world.coarse_ns(), usize::MAX, &mut lives);
        heap.free(&lives);
    }
}

/// What outlives the server beside the table's memory.
#[derive(Clone, Debug)]
pub(super) struct Words(Arc<[AtomicU64]>);

impl Words {
    fn of(geometry: Geometry) -> Self {
        Self((0..Heap::ledger_len(geometry)).map(|unit| AtomicU64::new(blank(unit))).collect())
    }

    pub(super) fn word(&self, unit: usize) -> u64 {
        self.0[unit].load(Ordering::Relaxed)
    }
}

impl Ledger for Words {
    fn note(&mut self, unit: usize, word: u64) {
        self.0[unit].store(word, Ordering::Relaxed);
    }
}
