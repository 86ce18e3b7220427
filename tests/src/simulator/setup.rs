//! What a run is made of, drawn from its seed.

use super::keys::pool;
use farside_protocol::limits::SLOTS_PER_WINDOW;
use farside_transport::sim::{Conduct, Rng};
use std::fmt;

/// The quarantine of simulated tables, nanoseconds: the shortest that a superblock can name.
pub const QUARANTINE_NS: u64 = 1_000_000;

/// How long an operation may take that is not in a hurry.
pub(super) const PATIENCE_NS: u64 = QUARANTINE_NS * 400;

/// A key of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyChoice {
    /// Which key of the pool.
    pub(super) pool: usize,
    /// Whether it holds a counter.
    pub(super) counter: bool,
}

/// What a client does to a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// GET.
    Get,
    /// A blind PUT.
    Put,
    /// put-if-absent.
    PutIfAbsent,
    /// compare-exchange with a version that some client was told.
    CompareExchange,
    /// fetch-add, on a key that holds a counter; a PUT on others.
    FetchAdd,
    /// A blind DELETE.
    Delete,
}

const KINDS: [Kind; 6] =
    [Kind::Get, Kind::Put, Kind::PutIfAbsent, Kind::CompareExchange, Kind::FetchAdd, Kind::Delete];

/// One operation of a client's program, and what the client does around it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// Which key.
    pub(super) key: usize,
    /// What to do to it.
    pub(super) kind: Kind,
    /// Bytes of the value, if one is stored.
    pub(super) value_len: usize,
    /// When it expires, from the call on.
    pub(super) ttl_ms: Option<u64>,
    /// How long the operation may take.
    pub(super) patience_ns: u64,
    /// How long each forward after it may take.
    pub(super) forward_ns: u64,
    /// The operation is dropped at this poll.
    pub(super) cancel_at: Option<u32>,
    /// How long the client waits before it, steps.
    pub(super) think_steps: u64,
    /// Whether it works off its forwards after it.
    pub(super) tends: bool,
    /// Whether it reports its blocks after that.
    pub(super) reports: bool,
}

/// What runs are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Theme {
    /// Anything.
    Mixed,
    /// Two keys that take each other's blocks as soon as may be, and clients that wait for long between looking and
    /// acting.
    Recycling,
    /// A bit of a record in use is flipped. Then keys may be lost, but no bytes returned that nobody stored.
    Rot,
    /// Everybody ends at once, in the middle of whatever they do, and another server goes on with the memory.
    Restart,
}

impl Theme {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Mixed, Self::Recycling, Self::Rot, Self::Restart];

    /// The theme of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.to_string() == name)
    }
}

impl fmt::Display for Theme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mixed => "mixed",
            Self::Recycling => "recycling",
            Self::Rot => "rot",
            Self::Restart => "restart",
        })
    }
}

/// When the session of a client ends before its program does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Death {
    /// Which client.
    pub client: usize,
    /// After how many of its accesses.
    pub after: u64,
    /// The client lives on: it is the server that ends the session, as it does with one that is silent for too long.
    pub evicted: bool,
    /// Whether what it had told the server and the server had not heard yet is lost.
    pub silences: bool,
}

/// A run: clients, what they do, and what happens to them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setup {
    /// Decides the schedule.
    pub seed: u64,
    /// How the fabric behaves.
    pub conduct: Conduct,
    /// Home lines of the table.
    pub(super) lines: u64,
    /// Bytes of its heap.
    pub(super) heap_len: u64,
    /// Keys of the pool that fill its window beforehand.
    pub(super) crowd: usize,
    /// The keys that are worked on.
    pub(super) keys: Vec<KeyChoice>,
    /// The program of each client.
    pub(super) programs: Vec<Vec<Call>>,
    /// Whether clients keep hints.
    pub(super) hints: bool,
    /// A client pauses for long.
    pub(super) freeze_one_in: u32,
    /// How long at most, steps.
    pub(super) freeze_steps_max: u64,
    /// The server does something after so many nanoseconds at most.
    pub(super) server_ns_max: u64,
    /// The server sweeps after so many nanoseconds at most; 0: only at the end.
    pub(super) sweep_ns_max: u64,
    /// The tags of free blocks come round again, after so many nanoseconds at most; 0: never.
    pub(super) wrap_ns_max: u64,
    /// Retired blocks are leased again at once: a mistake.
    pub(super) no_quarantine: bool,
    /// Blocks of ended sessions are resolved while what these posted may still execute: a mistake.
    pub(super) no_fence: bool,
    /// A bit of some record in use is flipped at this step.
    pub(super) rot_at: Option<u64>,
    /// The server and all clients end at this step, or when all is done, and another server goes on.
    pub restart_at: Option<u64>,
    /// Who dies.
    pub death: Option<Death>,
}

impl Setup {
    /// The run that `seed` stands for. Each draws what it has of faults, expiry, crowding and so on: a run in which
    /// everything happens at once gets nowhere.
    pub fn drawn(seed: u64) -> Self {
        Self::about(Theme::Mixed, seed)
    }

    /// The run about `theme` that `seed` stands for.
    pub fn about(theme: Theme, seed: u64) -> Self {
        let rng = &mut Rng::new(seed);
        let setup = Self::draw(rng);
        match theme {
            Theme::Recycling => setup.with_recycling(rng),
            Theme::Mixed if rng.one_in(6) => setup.with_recycling(rng),
            Theme::Mixed => setup,
            Theme::Rot => setup.with_rot(rng),
            Theme::Restart => setup.with_restart(rng),
        }
    }

    fn draw(rng: &mut Rng) -> Self {
        let lines = rng.pick(&[1, 1, 2]);
        let keys = draw_keys(rng);
        let clients = rng.pick(&[2, 2, 3, 3, 4]);
        let programs = draw_programs(rng, clients, keys.len());
        let crowd = if rng.one_in(8) { SLOTS_PER_WINDOW - rng.index(keys.len() + 1) } else { 0 };
        Self {
            conduct: Conduct::drawn(rng, QUARANTINE_NS),
            lines: if crowd == 0 { lines } else { 1 },
            heap_len: rng.pick(&[512, 1024, 2048, 8192]) + 64 * crowd as u64,
            crowd,
            hints: !rng.one_in(6),
            freeze_one_in: rng.pick(&[0, 0, 50, 200]),
            freeze_steps_max: rng.pick(&[50, 500, 3000]),
            server_ns_max: QUARANTINE_NS / rng.pick(&[4, 20, 100]),
            sweep_ns_max: QUARANTINE_NS * rng.pick(&[0, 1, 10]),
            wrap_ns_max: if rng.one_in(6) { QUARANTINE_NS * 20 } else { 0 },
            no_quarantine: false,
            no_fence: false,
            death: draw_death(rng, clients),
            rot_at: None,
            restart_at: None,
            seed: rng.bits(),
            keys,
            programs,
        }
    }

    /// The same with one key that is written blindly, and one that is by one client and by the others is not: what the
    /// first leaves in a block could be taken for the second's.
    fn with_recycling(mut self, rng: &mut Rng) -> Self {
        let pool = self.keys[0].pool;
        self.keys = [pool, (pool + 1) % 3].map(|pool| KeyChoice { pool, counter: true }).into();
        self.crowd = 0;
        self.heap_len = 64 * (2 * self.programs.len() as u64 + rng.below(3));
        self.server_ns_max = QUARANTINE_NS / 100;
        self.conduct.hold_one_in = 0;
        self.conduct.hold_cas_one_in = rng.pick(&[2, 4]);
        self.conduct.hold_steps_max = 2000;
        self.conduct.step_ns_max = QUARANTINE_NS / 40;
        self.hints = rng.one_in(2);
        for (client, calls) in self.programs.iter_mut().enumerate() {
            for call in calls {
                let key = usize::from(rng.one_in(if client == 0 { 6 } else { 3 }));
                (call.key, call.tends, call.reports) = (key, true, true);
                call.kind = match call.key {
                    0 if client == 0 => Kind::Put,
                    0 => rng.pick(&[Kind::FetchAdd, Kind::FetchAdd, Kind::Get]),
                    _ => Kind::Put,
                };
            }
        }
        self
    }

    /// The same with a flipped bit, long values, in which it shows, and sweeps that repair what can be.
    fn with_rot(mut self, rng: &mut Rng) -> Self {
        self.rot_at = Some(rng.magnitude(2000));
        self.keys.iter_mut().for_each(|key| key.counter = false);
        self.programs.iter_mut().flatten().for_each(|call| call.value_len = 200);
        self.sweep_ns_max = QUARANTINE_NS;
        self
    }

    /// The same with an end at any step; most runs have one or two thousand.
    fn with_restart(mut self, rng: &mut Rng) -> Self {
        self.restart_at = Some(rng.below(2000));
        // The tags that come round are those of blocks whose lives nobody counts.
        self.wrap_ns_max = 0;
        self
    }

    /// The same with a server that makes a mistake, to show that it would be found: it does not let retired blocks
    /// rest. Then a block can also have a thousand lives within one operation, so it has.
    pub fn break_quarantine(&mut self) {
        self.no_quarantine = true;
        self.wrap_ns_max = QUARANTINE_NS / 2;
    }

    /// The same with a server that makes another mistake: it does not fence the sessions that it ends. Some chain is
    /// under way when it should have.
    pub fn break_fence(&mut self) {
        self.no_fence = true;
        self.conduct.late = true;
        self.conduct.hold_cas_one_in = 2;
    }

    /// How long the server lets a retired block rest.
    pub(super) fn rest_ns(&self) -> u64 {
        if self.no_quarantine { 1 } else { QUARANTINE_NS }
    }

    /// Whether every client lives, and every chain and every operation has the time to end.
    pub(super) fn is_untroubled(&self) -> bool {
        let mut calls = self.programs.iter().flatten();
        self.death.is_none()
            && !self.conduct.is_faulty()
            && self.conduct.leap_one_in == 0
            && self.wrap_ns_max == 0
            && calls
                .all(|call| call.cancel_at.is_none() && call.patience_ns.min(call.forward_ns) == PATIENCE_NS)
    }
}

fn draw_keys(rng: &mut Rng) -> Vec<KeyChoice> {
    let mut order: Vec<usize> = (0..pool().len()).collect();
    rng.shuffle(&mut order);
    // Twins first, half of the time.
    if rng.one_in(2) {
        order.sort_by_key(|key| *key > 2);
    }
    let count = rng.pick(&[1, 1, 2, 3]);
    order[..count].iter().map(|pool| KeyChoice { pool: *pool, counter: rng.one_in(2) }).collect()
}

fn draw_programs(rng: &mut Rng, clients: usize, keys: usize) -> Vec<Vec<Call>> {
    let weights = draw_weights(rng);
    let total = weights.iter().sum();
    let expiry = rng.one_in(6);
    let cancels = rng.one_in(6);
    let hurried = rng.one_in(8);
    let tend_one_in = rng.pick(&[1, 3, 10]);
    let think_steps_max = rng.pick(&[0, 10, 100]);
    let calls = rng.pick(&[2, 4, 8, 16]);
    let draw_kind = |rng: &mut Rng| {
        let mut at = rng.below(total);
        for (kind, weight) in KINDS.into_iter().zip(weights) {
            match at.checked_sub(weight) {
                Some(rest) => at = rest,
                None => return kind,
            }
        }
        unreachable!("the weights add up to their total")
    };
    let draw_call = |rng: &mut Rng| Call {
        key: rng.index(keys),
        kind: draw_kind(rng),
        value_len: rng.pick(&[8, 8, 8, 120, 200]),
        ttl_ms: (expiry && rng.one_in(2)).then(|| 1 + rng.magnitude(20)),
        patience_ns: if hurried && rng.one_in(3) { rng.magnitude(QUARANTINE_NS) } else { PATIENCE_NS },
        forward_ns: if hurried { rng.magnitude(QUARANTINE_NS) } else { PATIENCE_NS },
        cancel_at: (cancels && rng.one_in(4)).then(|| rng.magnitude(40) as u32),
        think_steps: rng.magnitude(think_steps_max),
        tends: rng.one_in(tend_one_in),
        reports: rng.one_in(2),
    };
    (0..clients).map(|_| (0..calls).map(|_| draw_call(rng)).collect()).collect()
}

/// How often each kind occurs: often just two kinds that write, against each other.
fn draw_weights(rng: &mut Rng) -> [u64; KINDS.len()] {
    let mut weights = [0; KINDS.len()];
    if rng.one_in(2) {
        weights[0] = rng.pick(&[0, 1, 3]);
        for _ in 0..2 {
            weights[1 + rng.index(KINDS.len() - 1)] += 1 + rng.magnitude(3);
        }
    } else {
        weights = weights.map(|_| if rng.one_in(3) { 0 } else { 1 + rng.magnitude(8) });
        weights[1] += 1;
    }
    weights
}

fn draw_death(rng: &mut Rng, clients: usize) -> Option<Death> {
    rng.one_in(4).then(|| Death {
        client: rng.index(clients),
        after: rng.magnitude(300),
        evicted: rng.one_in(3),
        silences: rng.one_in(2),
    })
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed: _, conduct, programs, keys, .. } = self;
        writeln!(f, "{conduct:?}")?;
        writeln!(
            f,
            "lines {} heap {} B crowd {} hints {} freeze 1/{} for {} sweep {} ns wrap {} ns death {:?}",
            self.lines,
            self.heap_len,
            self.crowd,
            self.hints,
            self.freeze_one_in,
            self.freeze_steps_max,
            self.sweep_ns_max,
            self.wrap_ns_max,
            self.death
        )?;
        writeln!(f, "keys {keys:?}")?;
        for (client, calls) in programs.iter().enumerate() {
            let calls: Vec<_> = calls.iter().map(|call| format!("{:?} {}", call.kind, call.key)).collect();
            writeln!(f, "client {client}: {}", calls.join(", "))?;
        }
        Ok(())
    }
}
