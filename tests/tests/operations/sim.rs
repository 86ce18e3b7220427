//! Clients of a table in simulated memory: what a client library does around the plans, and no more.

use crate::target::{Answer, Target, bytes, condition, stored, told};
use farside::{Delete, Error};
use farside_hashtable::duties::Duties;
use farside_hashtable::heap::{Heap, Report};
use farside_hashtable::hints::{Hint, Hints};
use farside_hashtable::plan::{self, Failure, Lease, Op, Table};
use farside_protocol::record::{self, FLAG_COUNTER};
use farside_protocol::wire::Condition;
use farside_protocol::{Class, Geometry, Key, KeyHash, Life, Record, TableSeed};
use farside_tests::content::Content;
use farside_tests::operation::{Operation, Outcome, Version};
use farside_transport::sim::{Conduct, Rng, Sim, SimLane, World};
use farside_transport::{Counts, Fabric, Lane, LaneIo, drive};
use std::cell::RefCell;
use std::rc::Rc;

const QUARANTINE_NS: u64 = 20_000_000;

/// A table, and who hands its blocks out.
#[derive(Clone)]
pub(crate) struct SimTable {
    table: Table,
    world: World,
    heap: Rc<RefCell<Heap>>,
}

impl SimTable {
    /// A small table whose fabric tears, reorders, delays and stops as `seed` says. Its chains all complete: what
    /// was lost has no determined answer.
    pub(crate) fn new(seed: u64) -> Self {
        let geometry = Geometry::new(8 << 20, 16).unwrap();
        let conduct = Conduct::drawn(&mut Rng::new(seed), QUARANTINE_NS);
        let conduct = Conduct { fail_one_in: 0, silence_one_in: 0, ..conduct };
        Self {
            table: Table { geometry, seed: TableSeed(seed), quarantine_ns: QUARANTINE_NS },
            world: World::new(seed, conduct, &[geometry]),
            heap: Rc::new(RefCell::new(Heap::new(geometry, QUARANTINE_NS))),
        }
    }

    /// A new client, with a session of this number.
    pub(crate) fn connect(&self, session: u64) -> SimClient {
        self.heap.borrow_mut().open_session(session).unwrap();
        let fabric = self.world.connect();
        let (lane, hints, duties) = (fabric.open_lane(), Hints::with_bytes(512), Duties::default());
        SimClient { at: self.clone(), session, rng: Rng::new(session), fabric, lane, hints, duties }
    }
}

pub(crate) struct SimClient {
    at: SimTable,
    session: u64,
    rng: Rng,
    fabric: Sim,
    lane: SimLane,
    hints: Hints,
    duties: Duties,
}

/// Runs a plan for a key, again if it found too many others there: so it seems where time leaps.
macro_rules! run {
    ($this:expr, $key:expr, |$io:ident, $table:ident, $op:ident, $hint:ident, $duties:ident| $plan:expr) => {
        loop {
            let $op = &Op::new(&$this.at.table, $key, $this.fabric.now(), u64::MAX);
            let mut counts = Counts::default();
            let $io = &mut LaneIo::new(&$this.fabric, &mut $this.lane, &mut counts, 0, u64::MAX);
            let ($table, $duties, $hint) = (&$this.at.table, &mut $this.duties, $this.hints.get($op.hash));
            match drive($plan) {
                Err(Failure::Contended) => {}
                ended => break ended,
            }
        }
    };
}

impl SimClient {
    fn learn(&mut self, key: Key<'_>, hint: Hint) {
        self.hints.put(KeyHash::of(key.as_bytes(), self.at.table.seed), hint);
    }

    /// A block for a record of this length.
    fn lease(&self, record_len: usize) -> Life {
        let class = Class::holding(record_len).unwrap();
        let (mut heap, mut lives, mut due) = (self.at.heap.borrow_mut(), Vec::new(), Vec::new());
        loop {
            heap.due(self.at.world.coarse_ns(), usize::MAX, &mut due);
            heap.free(&due);
            due.clear();
            if heap.lease(self.session, class, 1, self.at.world.coarse_ns(), &mut lives).is_ok() {
                return lives[0];
            }
            // What rests will be free.
            self.at.world.leap(QUARANTINE_NS);
        }
    }

    /// Brings slots forward now and then, so that others meet some that lag; gives `unused` back, and tells the
    /// server.
    fn settle(&mut self, unused: Option<Life>) {
        let is_due = self.rng.one_in(3);
        for forward in is_due.then(|| std::mem::take(&mut self.duties.forwards)).into_iter().flatten() {
            let mut counts = Counts::default();
            let io = &mut LaneIo::new(&self.fabric, &mut self.lane, &mut counts, 0, u64::MAX);
            drive(plan::bring_forward(io, &self.at.table, forward, u64::MAX, &mut self.duties)).unwrap();
        }
        let Duties { published, retired, .. } = &mut self.duties;
        let report = Report { published, retired, returned: unused.as_slice() };
        self.at.heap.borrow_mut().report(self.session, &report, self.at.world.now_ns());
        published.clear();
        retired.clear();
    }

    fn delete(&mut self, key: &[u8], condition: Condition) -> plan::Delete {
        let key = Key::new(key).unwrap();
        let deleted = run!(self, key, |io, table, op, hint, duties| plan::delete(
            io, table, op, condition, hint, duties
        ));
        self.settle(None);
        deleted.unwrap()
    }

    fn put(&mut self, operation: &Operation<Content>, record: &Record<'_>) -> Answer {
        let (condition, lease) = (condition(operation), self.lease(record.len()));
        let put = run!(self, record.key, |io, table, op, hint, duties| plan::put(
            io,
            table,
            op,
            record,
            condition,
            Lease { life: lease, class: record.class() },
            hint,
            duties
        ));
        let is_unused = !plan::Put::spends_lease(&put);
        let put = match put.unwrap() {
            plan::Put::Stored { version, hint } => {
                self.learn(record.key, hint);
                farside::Put::Stored { version }
            }
            plan::Put::Absorbed => farside::Put::Absorbed,
            plan::Put::Mismatch { current } => farside::Put::Mismatch { current },
        };
        self.settle(is_unused.then_some(lease));
        stored(operation, put)
    }

    fn carry_out(&mut self, key: &[u8], operation: &Operation<Content>) -> Answer {
        let name = Key::new(key).unwrap();
        match operation {
            Operation::Get => {
                let got = run!(self, name, |io, table, op, hint, duties| plan::get(
                    io,
                    table,
                    op,
                    hint.as_ref(),
                    Some(duties)
                ));
                let Some(got) = got.unwrap() else { return Outcome::NotFound.into() };
                if let Some(hint) = got.hint {
                    self.learn(name, hint);
                }
                let bytes = self.lane.incoming()[got.value].to_vec();
                let value = match bytes.as_slice().try_into() {
                    Ok(count) if got.flags & FLAG_COUNTER != 0 => Content::Counter(u64::from_le_bytes(count)),
                    _ => Content::Bytes(bytes),
                };
                self.settle(None);
                Outcome::Found { value, version: Some(told(got.version)) }.into()
            }
            Operation::Put { value, .. }
            | Operation::PutIfAbsent { value, .. }
            | Operation::CompareExchange { value, .. } => {
                self.put(operation, &Record::new(name, bytes(value)).unwrap())
            }
            Operation::FetchAdd { delta } => {
                let len = record::len(key.len(), size_of::<i64>());
                let life = self.lease(len);
                let lease = Lease { life, class: Class::holding(len).unwrap() };
                let added = run!(self, name, |io, table, op, hint, duties| plan::fetch_add(
                    io,
                    table,
                    op,
                    *delta as i64,
                    lease,
                    hint,
                    duties
                ));
                self.settle(added.is_err().then_some(life));
                match added {
                    Ok(added) => {
                        self.learn(name, added.hint);
                        let previous = (added.value as u64).wrapping_sub(*delta);
                        Outcome::Added { previous, version: Some(told(added.version)) }.into()
                    }
                    Err(Failure::NotACounter) => Outcome::NotACounter.into(),
                    Err(failure) => panic!("{failure}"),
                }
            }
            Operation::Delete => match self.delete(key, Condition::Always) {
                plan::Delete::Deleted => Outcome::Deleted.into(),
                _ => Outcome::NotFound.into(),
            },
        }
    }
}

impl Target for SimClient {
    async fn perform(&mut self, key: &[u8], operation: &Operation<Content>) -> Result<Answer, Error> {
        Ok(self.carry_out(key, operation))
    }

    async fn delete_if(&mut self, key: &[u8], version: Version) -> Delete {
        match self.delete(key, Condition::Version(farside::Version::from_bits(version.0))) {
            plan::Delete::Deleted => Delete::Deleted,
            plan::Delete::Absent | plan::Delete::Mismatch { current: None } => Delete::Absent,
            plan::Delete::Mismatch { current: Some(current) } => Delete::Mismatch { current },
        }
    }
}
