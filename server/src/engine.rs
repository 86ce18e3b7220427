//! The two-sided path: the plans that clients run on shared memory, run here on the server's own.
//!
//! One engine for each thread that serves connections. It holds buffers, a small stock of leased blocks and the
//! duties of its operations, so that an operation allocates nothing and takes no lock unless its stock is empty.
//!
//! It keeps no hints. On memory of its own, what they spare of a pipelined request (0.1 us of 1.7 for a GET, nothing
//! measurable for a PUT) is lost again when keys are inserted (0.8 us).

use crate::scan_page::ScanPage;
use crate::shard::{SERVER_SESSION, Shard};
use crate::state::State;
use crate::stats::Status;
use crate::sweep::Sweeper;
use crossbeam_epoch::{Guard, LocalHandle};
use farside_hashtable::Io;
use farside_hashtable::duties::{Duties, Forward};
use farside_hashtable::heap::{LeaseError, Report};
use farside_hashtable::plan::{self, Added, Delete, Failure, Lease, Op, Put, Run, SCAN_RUN, Scanned, Taken};
use farside_protocol::record;
use farside_protocol::wire::{Condition, Hint, Response, ScanPosition};
use farside_protocol::{Class, ErrorKind, Key, KeyHash, Life, Record, SlotIndex, SlotWord};
use farside_transport::clock::{coarse_ns, fine_ns};
use farside_transport::shm::ShmLane;
use farside_transport::verbs::Own;
use farside_transport::{Counts, Fabric, LaneIo, drive};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

/// How long an operation may take. Without rivals it takes microseconds; with many it waits for them in a loop,
/// in which other connections of this thread wait too.
const OPERATION: Duration = Duration::from_secs(2);

/// Bytes of blocks that an engine leases at a time, for each class, and the most blocks.
const STOCK_BYTES: usize = 16 << 10;
const STOCK_BLOCKS: usize = 32;

/// How much larger than a record's own class its block may be. Past that few records would fill the memory.
const OVERSIZE_MAX: usize = 64;

/// Runs of slots that are looked through for one page of a SCAN: other connections of this thread wait meanwhile.
const SCAN_RUNS_MAX: u32 = 256;

/// Slots that are brought forward at a time.
const FORWARDS: usize = 64;

/// The shortest wait for blocks: their quarantine is measured with a clock that ticks every few milliseconds.
const RETRY_MIN: Duration = Duration::from_millis(1);

/// How an operation ended for its client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// Its answer is in the outbox.
    Done(Status),
    /// There was no block to put a record into, and nothing was answered; blocks may be there after `retry`.
    NoMemory { retry: Option<Duration> },
}

/// Why there is no block.
pub(crate) enum Shortage {
    /// Some are on their way and may be there after this time.
    Until(Duration),
    /// None are.
    Full,
}

/// What an engine has for one shard.
struct Desk {
    shard: Arc<Shard>,
    duties: Duties,
    stock: [Vec<Life>; Class::COUNT],
}

/// Runs operations for the connections of one thread.
pub(crate) struct Engine {
    state: Arc<State>,
    fabric: Own,
    lane: ShmLane,
    counts: Counts,
    epoch: LocalHandle,
    desks: Box<[Desk]>,
    /// Forwards being made; here so that their memory is used again.
    forwards: Vec<Forward>,
}

impl Engine {
    pub(crate) fn new(state: Arc<State>) -> Self {
        let fabric = state.fabric();
        let desk = |shard: &Arc<Shard>| Desk {
            shard: shard.clone(),
            duties: Duties::with_capacity(FORWARDS),
            stock: std::array::from_fn(|_| Vec::new()),
        };
        Self {
            lane: fabric.open_lane(),
            counts: Counts::default(),
            epoch: state.collector.register(),
            desks: state.shards.iter().map(desk).collect(),
            forwards: Vec::with_capacity(FORWARDS),
            fabric,
            state,
        }
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// GET.
    pub(crate) fn get(&mut self, key: Key<'_>, id: u64, out: &mut Vec<u8>) -> Answer {
        let mut task = self.task(key, self.place(key));
        let Desk { shard, duties, .. } = &mut *task.desk;
        match drive(plan::get_cold(&mut task.io, &shard.table, &task.op, Some(duties))) {
            Ok(Some(got)) => {
                let (version, expires_at_ms, flags) = (got.version, got.expires_at_ms, got.flags);
                let value = &task.io.incoming()[got.value];
                Response::Value { version, expires_at_ms, flags, value }.encode(id, out);
                Answer::Done(Status::Ok)
            }
            Ok(None) => {
                Response::Absent.encode(id, out);
                Answer::Done(Status::Absent)
            }
            Err(failure) => task.failed(failure, id, out),
        }
    }

    /// A page of a SCAN: the first `keys_max` live keys from `from` on that begin with `prefix`, or fewer if they fill the
    /// page or many slots were looked through for them.
    pub(crate) fn scan(
        &mut self,
        from: ScanPosition,
        keys_max: u16,
        prefix: &[u8],
        id: u64,
        out: &mut Vec<u8>,
    ) -> Answer {
        let Some(desk) = self.desks.get(from.shard as usize) else {
            return fail(ErrorKind::Invalid, "the scan goes on in a shard that is not there", id, out);
        };
        let table = desk.shard.table;
        let deadline_ns = self.fabric.now() + OPERATION.as_nanos() as u64;
        let (mut page, mut slot) = (ScanPage::new(keys_max), from.slot);
        for _ in 0..SCAN_RUNS_MAX {
            if slot >= table.geometry.slots() || page.is_full {
                break;
            }
            let _pinned = self.epoch.pin();
            let shard = from.shard as usize;
            let mut io = LaneIo::new(&self.fabric, &mut self.lane, &mut self.counts, shard, deadline_ns);
            let take = |found: Scanned<'_>| {
                if found.key.starts_with(prefix) { page.take(found) } else { Taken::GoOn }
            };
            let mut words = [SlotWord::EMPTY; SCAN_RUN];
            let passed = drive(async {
                let run = Run::read(&mut io, &table, SlotIndex(slot), &mut words).await?;
                run.pass(&mut io, &table, deadline_ns, take).await
            });
            match passed {
                Ok(next) => slot = next.0,
                Err(_) if slot > from.slot => break,
                Err(failure) => return fail(ErrorKind::Deadline, &failure.to_string(), id, out),
            }
        }
        let next = if slot < table.geometry.slots() {
            Some(ScanPosition { slot, ..from })
        } else {
            let shard = from.shard + 1;
            ((shard as usize) < self.desks.len()).then_some(ScanPosition { shard, slot: 0 })
        };
        Response::Scanned { next, entries: page.entries() }.encode(id, out);
        Answer::Done(Status::Ok)
    }

    /// PUT, put-if-absent and compare-exchange.
    pub(crate) fn put(
        &mut self,
        record: &Record<'_>,
        condition: Condition,
        id: u64,
        out: &mut Vec<u8>,
    ) -> Answer {
        let place = self.place(record.key);
        let lease = match self.take_block(place.shard, record.class()) {
            Ok(lease) => lease,
            Err(shortage) => return shortage.into(),
        };
        let mut task = self.task(record.key, place);
        let Desk { shard, duties, stock } = &mut *task.desk;
        let (op, table) = (task.op, &shard.table);
        let outcome = persist(&mut task.io, &op, |io| {
            drive(plan::put(io, table, &op, record, condition, lease, None, duties))
        });
        if !Put::spends_lease(&outcome) {
            stock[lease.class.index()].push(lease.life);
        }
        let (response, status) = match outcome {
            Ok(Put::Stored { version, hint }) => {
                (Response::Stored { version: Some(version), hint: Some(on_the_wire(&hint)) }, Status::Ok)
            }
            Ok(Put::Absorbed) => (Response::Stored { version: None, hint: None }, Status::Ok),
            Ok(Put::Mismatch { current }) => (Response::Mismatch { current }, Status::Mismatch),
            Err(failure) => return task.failed(failure, id, out),
        };
        response.encode(id, out);
        Answer::Done(status)
    }

    /// DELETE.
    pub(crate) fn delete(
        &mut self,
        key: Key<'_>,
        condition: Condition,
        id: u64,
        out: &mut Vec<u8>,
    ) -> Answer {
        let mut task = self.task(key, self.place(key));
        let Desk { shard, duties, .. } = &mut *task.desk;
        let outcome = drive(plan::delete(&mut task.io, &shard.table, &task.op, condition, None, duties));
        let (response, status) = match outcome {
            Ok(Delete::Deleted) => (Response::Deleted { existed: true }, Status::Ok),
            Ok(Delete::Absent) => (Response::Deleted { existed: false }, Status::Absent),
            Ok(Delete::Mismatch { current }) => (Response::Mismatch { current }, Status::Mismatch),
            Err(failure) => return task.failed(failure, id, out),
        };
        response.encode(id, out);
        Answer::Done(status)
    }

    /// fetch-add.
    pub(crate) fn fetch_add(&mut self, key: Key<'_>, delta: i64, id: u64, out: &mut Vec<u8>) -> Answer {
        let record_len = record::len(key.as_bytes().len(), size_of::<i64>());
        let class = Class::holding(record_len).expect("the longest key with a counter fits a block");
        let place = self.place(key);
        let lease = match self.take_block(place.shard, class) {
            Ok(lease) => lease,
            Err(shortage) => return shortage.into(),
        };
        let mut task = self.task(key, place);
        let Desk { shard, duties, stock } = &mut *task.desk;
        let (op, table) = (task.op, &shard.table);
        let outcome = persist(&mut task.io, &op, |io| {
            drive(plan::fetch_add(io, table, &op, delta, lease, None, duties))
        });
        match outcome {
            Ok(Added { value, version, hint }) => {
                Response::Counter { value, version, hint: Some(on_the_wire(&hint)) }.encode(id, out);
                Answer::Done(Status::Ok)
            }
            Err(failure) => {
                if failure != Failure::Indeterminate {
                    stock[lease.class.index()].push(lease.life);
                }
                task.failed(failure, id, out)
            }
        }
    }

    fn place(&self, key: Key<'_>) -> Place {
        // All shards of a server share the seed: the hash tells the shard, too.
        let hash = KeyHash::of(key.as_bytes(), self.desks[0].shard.table.seed);
        Place { hash, shard: hash.shard(self.desks.len()) }
    }

    /// Begins an operation.
    fn task<'e, 'k>(&'e mut self, key: Key<'k>, place: Place) -> Task<'e, 'k> {
        let began_ns = self.fabric.now();
        let deadline_ns = began_ns + OPERATION.as_nanos() as u64;
        Task {
            op: Op { key, hash: place.hash, began_ns, deadline_ns },
            io: LaneIo::new(&self.fabric, &mut self.lane, &mut self.counts, place.shard, deadline_ns),
            desk: &mut self.desks[place.shard],
            sweeper: &self.state.sweeper,
            _pinned: self.epoch.pin(),
        }
    }

    /// A block for a record of `class`. If there is none of that class nor will be, it is a larger one: memory that
    /// was cut for larger records may be all that is free, and cannot be cut anew for long.
    fn take_block(&mut self, shard: usize, class: Class) -> Result<Lease, Shortage> {
        let fits = |other: &Class| *other >= class && other.size() <= class.size() * OVERSIZE_MAX;
        for class in Class::all().filter(fits) {
            match self.take_block_of(shard, class) {
                Ok(life) => return Ok(Lease { life, class }),
                Err(Shortage::Full) => {}
                Err(until) => return Err(until),
            }
        }
        Err(Shortage::Full)
    }

    fn take_block_of(&mut self, shard: usize, class: Class) -> Result<Life, Shortage> {
        if let Some(life) = self.desks[shard].stock[class.index()].pop() {
            return Ok(life);
        }
        let mut lives = mem::take(&mut self.desks[shard].stock[class.index()]);
        let count = (STOCK_BYTES / class.size()).clamp(1, STOCK_BLOCKS);
        let leased = self.lease(shard, SERVER_SESSION, class, count, &mut lives);
        let life = lives.pop();
        self.desks[shard].stock[class.index()] = lives;
        leased.map(|()| life.expect("a lease that is granted has a block"))
    }

    /// Leases up to `count` blocks of a shard, one at least.
    pub(crate) fn lease(
        &mut self,
        shard: usize,
        session: u64,
        class: Class,
        count: usize,
        lives: &mut Vec<Life>,
    ) -> Result<(), Shortage> {
        let mut leased = self.desks[shard].shard.lease(&self.epoch, session, class, count, lives);
        if leased.is_err() {
            // Records that this thread superseded and did not retire yet may be all that is missing.
            self.settle(shard);
            leased = self.desks[shard].shard.lease(&self.epoch, session, class, count, lives);
        }
        if let Some(rdma) = &self.state.rdma {
            rdma.reclaim(shard, lives);
        }
        leased.map_err(|error| match error {
            LeaseError::Quarantined { until_ns } => {
                let wait = Duration::from_nanos(until_ns.saturating_sub(coarse_ns()));
                Shortage::Until(wait.max(RETRY_MIN))
            }
            LeaseError::Full => {
                self.state.sweeper.hurry();
                Shortage::Full
            }
            LeaseError::NoSession => {
                unreachable!("a session is open in the heap as long as its connection is")
            }
        })
    }

    /// Whether there are duties to be worked off soon.
    pub(crate) fn has_duties(&self) -> bool {
        self.desks.iter().any(|desk| !desk.duties.is_empty())
    }

    /// Works off the duties of shards where many have come together.
    pub(crate) fn settle_due(&mut self) {
        for shard in 0..self.desks.len() {
            let duties = &self.desks[shard].duties;
            if duties.forwards_are_due(FORWARDS) || duties.published.len() >= FORWARDS {
                self.settle(shard);
            }
        }
    }

    /// Works off all duties.
    pub(crate) fn settle_all(&mut self) {
        for shard in 0..self.desks.len() {
            self.settle(shard);
        }
    }

    fn settle(&mut self, shard: usize) {
        let desk = &mut self.desks[shard];
        if desk.duties.is_empty() {
            return;
        }
        mem::swap(&mut desk.duties.forwards, &mut self.forwards);
        let deadline_ns = self.fabric.now() + OPERATION.as_nanos() as u64;
        for forward in self.forwards.drain(..) {
            let _pinned = self.epoch.pin();
            let mut io = LaneIo::new(&self.fabric, &mut self.lane, &mut self.counts, shard, deadline_ns);
            // What could not be moved in time, because others keep moving it, is theirs or the sweep's to move.
            let _ = drive(plan::bring_forward(
                &mut io,
                &desk.shard.table,
                forward,
                deadline_ns,
                &mut desk.duties,
            ));
        }
        let Duties { published, retired, .. } = &mut desk.duties;
        let report = Report { published, retired, returned: &[] };
        desk.shard.heap.lock().report(SERVER_SESSION, &report, fine_ns());
        published.clear();
        retired.clear();
        self.state.sweeper.changed();
    }
}

/// Where a key belongs.
#[derive(Clone, Copy)]
struct Place {
    hash: KeyHash,
    shard: usize,
}

/// An operation under way.
struct Task<'e, 'k> {
    op: Op<'k>,
    io: LaneIo<'e, Own>,
    desk: &'e mut Desk,
    sweeper: &'e Sweeper,
    /// Blocks this operation may have read are not freed before it ends.
    _pinned: Guard,
}

impl Task<'_, '_> {
    /// Answers an operation that failed.
    fn failed(&self, failure: Failure, id: u64, out: &mut Vec<u8>) -> Answer {
        let kind = match failure {
            Failure::Deadline | Failure::Contended => ErrorKind::Deadline,
            Failure::Indeterminate => ErrorKind::Indeterminate,
            Failure::Full => {
                self.sweeper.hurry();
                let message = "the part of the index where this key belongs is full: give the server a larger index \
                               (--max-keys)";
                return fail(ErrorKind::Full, message, id, out);
            }
            Failure::Corrupt => {
                self.sweeper.hurry();
                let message = "the record of this key is damaged, and is dropped within seconds: put the key again then, \
                               and look for failing memory, or for a client that writes where it should not";
                return fail(ErrorKind::Corrupt, message, id, out);
            }
            Failure::NotACounter | Failure::Overflow => ErrorKind::Invalid,
        };
        fail(kind, &failure.to_string(), id, out)
    }
}

/// Runs an operation again for which there were too many rivals, until its deadline: clients that had too many ask
/// the server, which has nobody to ask.
fn persist<T>(
    io: &mut LaneIo<'_, Own>,
    op: &Op<'_>,
    mut run: impl FnMut(&mut LaneIo<'_, Own>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    loop {
        match run(io) {
            Err(Failure::Contended) if io.now() < op.deadline_ns => {}
            outcome => return outcome,
        }
    }
}

fn on_the_wire(hint: &farside_hashtable::hints::Hint) -> Hint {
    Hint { locator: hint.locator, slot: hint.slot }
}

/// Answers a request with an error.
pub(crate) fn fail(kind: ErrorKind, message: &str, id: u64, out: &mut Vec<u8>) -> Answer {
    Response::Error { kind, message }.encode(id, out);
    Answer::Done(Status::Failed(kind))
}

impl From<Shortage> for Answer {
    fn from(shortage: Shortage) -> Self {
        match shortage {
            Shortage::Until(wait) => Self::NoMemory { retry: Some(wait) },
            Shortage::Full => Self::NoMemory { retry: None },
        }
    }
}

#[cfg(test)]
mod tests;
