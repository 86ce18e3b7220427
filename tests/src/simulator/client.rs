//! A client: its program, and what a client library does around the plans. It remembers hints, keeps leases, works
//! off its duties and reports, late or never.

use super::audit::Breach;
use super::setup::{Call, Kind, PATIENCE_NS, QUARANTINE_NS};
use super::shared::{Mail, SessionState, Shared};
use super::waiting::{cancelled_at, sleep, think};
use crate::history::Response;
use crate::operation::{self, Operation, Outcome};
use farside_hashtable::duties::Duties;
use farside_hashtable::heap::LeaseError;
use farside_hashtable::hints::{Hint, Hints};
use farside_hashtable::plan::{self, Delete, Failure, Lease, Op, Put};
use farside_protocol::record::FLAG_COUNTER;
use farside_protocol::wire::Condition;
use farside_protocol::{Class, KeyHash, Life, Record, Version};
use farside_transport::sim::{Rng, Sim, SimLane};
use farside_transport::{Counts, Fabric, LaneIo};
use std::mem;
use std::rc::Rc;

/// How often a client asks for a block before it gives the operation up.
const LEASE_TRIES: u32 = 24;

/// Bytes of a client's hints.
const HINT_BYTES: usize = 512;

pub(super) struct Client {
    shared: Rc<Shared>,
    number: usize,
    rng: Rng,
    fabric: Sim,
    lane: SimLane,
    hints: Hints,
    duties: Duties,
    leases: Vec<(Class, Life)>,
    published_values: u64,
}

/// What a plan came to: what its caller is told, where the record is now, and whether the lease is spent.
struct Ended {
    response: Response<u64>,
    hint: Option<Hint>,
    spent: bool,
}

impl Client {
    pub(super) fn new(shared: &Rc<Shared>, number: usize, fabric: Sim) -> Self {
        Self {
            shared: Rc::clone(shared),
            number,
            rng: Rng::new(shared.setup.seed ^ (number as u64 + 1)),
            lane: fabric.open_lane(),
            fabric,
            hints: Hints::with_bytes(HINT_BYTES),
            duties: Duties::default(),
            leases: Vec::new(),
            published_values: 0,
        }
    }

    /// Runs its program and leaves.
    pub(super) async fn live(mut self) {
        let shared = Rc::clone(&self.shared);
        for call in &shared.setup.programs[self.number] {
            think(&shared.world, call.think_steps).await;
            if !self.has_session() {
                return;
            }
            self.perform(call).await;
            if call.tends {
                self.tend(call.forward_ns).await;
            }
            if call.reports {
                self.report();
            }
        }
        self.leave().await;
    }

    /// Reads the final value of every key, without any hint.
    pub(super) async fn read_all(mut self) {
        let calls = (0..self.shared.setup.keys.len()).map(|key| Call {
            key,
            kind: Kind::Get,
            value_len: 0,
            ttl_ms: None,
            patience_ns: PATIENCE_NS,
            forward_ns: PATIENCE_NS,
            cancel_at: None,
            think_steps: 0,
            tends: false,
            reports: false,
        });
        for call in calls {
            self.perform(&call).await;
        }
    }

    async fn perform(&mut self, call: &Call) {
        let shared = Rc::clone(&self.shared);
        let is_counter = shared.setup.keys[call.key].counter;
        let value_len = if is_counter { 8 } else { call.value_len };
        self.published_values += 1;
        let number = (self.number as u64 + 1) << 32 | self.published_values << 16;
        let value = encode(number, value_len);
        let expires_at_ms = call.ttl_ms.map_or(0, |ttl| shared.world.wall_ms() + ttl);
        let expires_at = call.ttl_ms.map(|_| (expires_at_ms - shared.world.wall_ms()) * 1_000_000);
        // Milliseconds of the wall clock begin with a multiple of a million nanoseconds of the world's.
        let expires_at = expires_at.map(|in_ns| shared.world.now_ns() / 1_000_000 * 1_000_000 + in_ns);
        let operation = self.operation(call, number, expires_at);
        let record = Record {
            key: shared.key(call.key),
            value: &value,
            expires_at_ms,
            flags: if is_counter { FLAG_COUNTER } else { 0 },
        };
        let lease = match &operation {
            Operation::Get | Operation::Delete => None,
            _ => match self.lease(record.class()).await {
                Some(lease) => Some(lease),
                None => return,
            },
        };
        let client = self.fabric.client();
        shared.world.note(client, || format!("calls {operation} on key {}", call.key));
        let called_at = shared.moment();
        let call_number =
            shared.recorders.borrow_mut()[self.number].call(called_at, call.key, operation.clone());
        let ended = self.run(call, &operation, &record, lease).await;
        let Some(Ended { response, hint, spent }) = ended else {
            // Its lease is never used again: what it posted may still execute.
            shared.world.note(client, || "drops the operation".into());
            shared.tally.borrow_mut().cancelled += 1;
            return;
        };
        shared.world.note(client, || match &response {
            Response::Done(outcome) => format!("is told {outcome}"),
            other => format!("is told {other:?}"),
        });
        if let Some(lease) = lease.filter(|_| !spent) {
            self.leases.push((record.class(), lease));
        }
        if let Some(hint) = hint {
            self.hints.put(KeyHash::of(record.key.as_bytes(), shared.table.seed), hint);
        }
        if let Response::Done(outcome) = &response {
            self.learn(call.key, outcome);
        }
        shared.recorders.borrow_mut()[self.number].respond(call_number, shared.moment(), response);
    }

    /// What `call` means to the model. A call that makes no sense on its key becomes the nearest that does.
    fn operation(&mut self, call: &Call, value: u64, expires_at: Option<u64>) -> Operation<u64> {
        let versions = &self.shared.versions.borrow()[call.key];
        match call.kind {
            Kind::Get => Operation::Get,
            Kind::PutIfAbsent => Operation::PutIfAbsent { value, expires_at },
            Kind::FetchAdd if self.shared.setup.keys[call.key].counter => Operation::FetchAdd { delta: 1 },
            Kind::Put | Kind::FetchAdd => Operation::Put { value, expires_at },
            Kind::CompareExchange => {
                let last = versions.len().saturating_sub(1 + self.rng.magnitude(3) as usize);
                match versions.get(last) {
                    Some(version) => Operation::CompareExchange {
                        expected: operation::Version(version.to_bits()),
                        value,
                        expires_at,
                    },
                    None => Operation::Get,
                }
            }
            Kind::Delete => Operation::Delete,
        }
    }

    /// Runs the plan of `operation`; `None` if it was dropped on the way.
    async fn run(
        &mut self,
        call: &Call,
        operation: &Operation<u64>,
        record: &Record<'_>,
        lease: Option<Life>,
    ) -> Option<Ended> {
        let shared = Rc::clone(&self.shared);
        let began_ns = self.fabric.now();
        let deadline_ns = began_ns + call.patience_ns;
        let op = Op::new(&shared.table, record.key, began_ns, deadline_ns);
        let hint = if shared.setup.hints { self.hints.get(op.hash) } else { None };
        let mut counts = Counts::default();
        let io = &mut LaneIo::new(&self.fabric, &mut self.lane, &mut counts, 0, deadline_ns);
        let (table, duties) = (&shared.table, &mut self.duties);
        let outcome = cancelled_at(call.cancel_at, async {
            let lease = || {
                let life = lease.expect("operations that store something have one");
                Lease { life, class: record.class() }
            };
            let condition = match operation {
                Operation::Get => {
                    let got = plan::get(io, table, &op, hint.as_ref(), Some(duties)).await;
                    return ended_get(got, |range| decode(&io_incoming(io)[range]), &shared);
                }
                Operation::Delete => {
                    return ended_delete(plan::delete(io, table, &op, Condition::Always, hint, duties).await);
                }
                Operation::FetchAdd { delta } => {
                    let added = plan::fetch_add(io, table, &op, *delta as i64, lease(), hint, duties).await;
                    return ended_add(added, *delta);
                }
                Operation::Put { .. } => Condition::Always,
                Operation::PutIfAbsent { .. } => Condition::Absent,
                Operation::CompareExchange { expected, .. } => {
                    Condition::Version(Version::from_bits(expected.0))
                }
            };
            ended_put(plan::put(io, table, &op, record, condition, lease(), hint, duties).await, condition)
        });
        Some(outcome.await?.unwrap_or_else(|failure| ended_badly(failure, &shared)))
    }

    fn learn(&self, key: usize, outcome: &Outcome<u64>) {
        let tally = &mut *self.shared.tally.borrow_mut();
        tally.answered += 1;
        let version = match outcome {
            Outcome::Found { version, .. } => {
                tally.found += 1;
                *version
            }
            Outcome::Stored { version } => {
                tally.stored += u64::from(version.is_some());
                tally.absorbed += u64::from(version.is_none());
                *version
            }
            Outcome::Added { version, .. } => {
                tally.added += 1;
                *version
            }
            Outcome::Exists | Outcome::Mismatch => {
                tally.refused += 1;
                None
            }
            Outcome::Deleted => {
                tally.deleted += 1;
                None
            }
            Outcome::NotFound | Outcome::Absent | Outcome::NotACounter => None,
        };
        if let Some(version) = version {
            self.shared.versions.borrow_mut()[key].push(Version::from_bits(version.0));
        }
    }

    /// A block of `class`. Waits for one if there is none, and gives back what it does not need.
    async fn lease(&mut self, class: Class) -> Option<Life> {
        if let Some(at) = self.leases.iter().position(|(other, _)| *other == class) {
            return Some(self.leases.swap_remove(at).1);
        }
        let shared = Rc::clone(&self.shared);
        for attempt in 0..LEASE_TRIES {
            let max = 1 + self.rng.index(2);
            let mut lives = Vec::new();
            shared.release_due();
            match shared.lease(self.number as u64, class, max, &mut lives) {
                Ok(()) => {
                    self.leases.extend(lives.into_iter().map(|life| (class, life)));
                    return self.leases.pop().map(|(_, life)| life);
                }
                Err(LeaseError::NoSession) => return None,
                Err(LeaseError::Quarantined { .. } | LeaseError::Full) => {}
            }
            if attempt % 4 == 3 {
                self.tend(PATIENCE_NS).await;
                self.report_with(true);
            }
            sleep(&shared.world, QUARANTINE_NS / 4).await;
        }
        shared.tally.borrow_mut().starved += 1;
        None
    }

    /// Brings forward what it owes, each slot for `forward_ns` at most.
    async fn tend(&mut self, forward_ns: u64) {
        let shared = Rc::clone(&self.shared);
        for forward in mem::take(&mut self.duties.forwards) {
            let until_ns = self.fabric.now() + forward_ns;
            let mut counts = Counts::default();
            let io = &mut LaneIo::new(&self.fabric, &mut self.lane, &mut counts, 0, until_ns);
            let brought = plan::bring_forward(io, &shared.table, forward, until_ns, &mut self.duties).await;
            shared.tally.borrow_mut().forwarded += u64::from(brought.is_ok());
        }
    }

    fn report(&mut self) {
        self.report_with(false);
    }

    fn report_with(&mut self, leases: bool) {
        let mut mail = Mail {
            published: mem::take(&mut self.duties.published),
            retired: mem::take(&mut self.duties.retired),
            returned: Vec::new(),
        };
        if leases {
            mail.returned = mem::take(&mut self.leases).into_iter().map(|(_, life)| life).collect();
        }
        if mail != Mail::default() {
            self.shared.sessions.borrow_mut()[self.number].mail.push_back(mail);
        }
    }

    fn has_session(&self) -> bool {
        self.shared.sessions.borrow()[self.number].state == SessionState::Open
    }

    /// Does all that it owes and ends its session.
    async fn leave(&mut self) {
        self.tend(PATIENCE_NS).await;
        if !self.has_session() {
            return;
        }
        self.report_with(true);
        let noticed_at = self.shared.world.steps();
        self.shared.sessions.borrow_mut()[self.number].state = SessionState::Gone { noticed_at };
    }
}

/// A value of `len` bytes, at least 8, that is `number` over and over: parts of two values are none.
fn encode(number: u64, len: usize) -> Vec<u8> {
    number.to_le_bytes().into_iter().cycle().take(len).collect()
}

/// The number in a value; `None` if it is no value that any client stored.
fn decode(value: &[u8]) -> Option<u64> {
    let number = u64::from_le_bytes(*value.first_chunk()?);
    (encode(number, value.len()) == value).then_some(number)
}

fn io_incoming<'a>(io: &'a LaneIo<'_, Sim>) -> &'a [u8] {
    use farside_hashtable::Io;
    io.incoming()
}

fn told(version: Version) -> Option<operation::Version> {
    Some(operation::Version(version.to_bits()))
}

fn done(outcome: Outcome<u64>, hint: Option<Hint>, spent: bool) -> Ended {
    Ended { response: Response::Done(outcome), hint, spent }
}

fn ended_badly(failure: Failure, shared: &Shared) -> Ended {
    let tally = &mut *shared.tally.borrow_mut();
    match failure {
        Failure::Deadline => tally.late += 1,
        Failure::Indeterminate => tally.indeterminate += 1,
        Failure::Full => tally.full += 1,
        Failure::Contended => tally.contended += 1,
        Failure::Corrupt | Failure::NotACounter | Failure::Overflow => {
            shared.break_off(Breach::Failed(failure));
        }
    }
    let unknown = failure == Failure::Indeterminate;
    let response = if unknown { Response::Indeterminate } else { Response::Failed };
    Ended { response, hint: None, spent: unknown }
}

fn ended_get(
    got: Result<Option<plan::Got>, Failure>,
    value: impl FnOnce(std::ops::Range<usize>) -> Option<u64>,
    shared: &Shared,
) -> Result<Ended, Failure> {
    let Some(got) = got? else { return Ok(done(Outcome::NotFound, None, false)) };
    let value = value(got.value).unwrap_or_else(|| {
        shared.break_off(Breach::TornValue);
        u64::MAX
    });
    Ok(done(Outcome::Found { value, version: told(got.version) }, got.hint, false))
}

fn ended_put(put: Result<Put, Failure>, condition: Condition) -> Result<Ended, Failure> {
    let spent = Put::spends_lease(&put);
    Ok(match put? {
        Put::Stored { version, hint } => done(Outcome::Stored { version: told(version) }, Some(hint), spent),
        Put::Absorbed => done(Outcome::Stored { version: None }, None, spent),
        Put::Mismatch { .. } if condition == Condition::Absent => done(Outcome::Exists, None, spent),
        Put::Mismatch { .. } => done(Outcome::Mismatch, None, spent),
    })
}

fn ended_add(added: Result<plan::Added, Failure>, delta: u64) -> Result<Ended, Failure> {
    let plan::Added { value, version, hint } = added?;
    let previous = (value as u64).wrapping_sub(delta);
    Ok(done(Outcome::Added { previous, version: told(version) }, Some(hint), true))
}

fn ended_delete(deleted: Result<Delete, Failure>) -> Result<Ended, Failure> {
    Ok(match deleted? {
        Delete::Deleted => done(Outcome::Deleted, None, false),
        Delete::Absent => done(Outcome::NotFound, None, false),
        Delete::Mismatch { .. } => unreachable!("it depends on no version"),
    })
}
