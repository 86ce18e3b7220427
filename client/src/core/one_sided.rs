//! The one-sided half of a core: the shards in this process's memory, and what it knows and owes of each.

use super::inbox::Leased;
use super::leases::{Leases, Refusal};
use super::way::{Steps, Way};
use farside_hashtable::duties::{Duties, Forward};
use farside_hashtable::hints::{Hint, Hints};
use farside_hashtable::plan::{Op, Table, bring_forward};
use farside_protocol::wire::{self, LIVES_MAX, Rights};
use farside_protocol::{Class, Key, KeyHash, Life, Superblock, TableSeed, Version};
use farside_transport::capabilities::Path;
use farside_transport::shm::{Shm, ShmLane};
use farside_transport::verbs::{Verbs, VerbsLane};
use farside_transport::{Capabilities, Fabric as _, Lane as _, LaneIo, drive, drive_together};

use crate::stats::{FabricCounts, Stats};
use crate::task::{Attempt, Outcome, Slice, Task, Together};
use std::mem;
use std::pin::pin;

/// Slots are brought forward when this many wait.
const FORWARDS_BATCH: usize = 64;
/// Slots that are brought forward together on a network.
const FORWARDS_TOGETHER: usize = FORWARDS_BATCH;
/// Blocks are reported when this many wait: with leases of 256 that makes one request in a hundred updates.
const REPORT_BATCH: usize = 256;
/// What the buffers of one of many operations under way together may keep: a batch of long records is not to take their
/// memory for good.
const LANE_KEPT_MAX: usize = 64 << 10;

/// The longest that one forward may take; what is not done then is left to the server's sweep.
const FORWARD_NS_MAX: u64 = 10_000_000;

/// The hints of about two thousand keys.
const TOUCHED_HINTS_MIN: usize = 128 << 10;
/// The processor fetches the rest of a longer record by itself while its beginning is read.
const TOUCHED_MAX: usize = 256;

/// Fields in the order in which they go: the mapping last of what uses it.
pub(crate) struct OneSided {
    pub(super) shards: Box<[Shard]>,
    hints: Hints,
    seed: TableSeed,
    pub(super) reads: bool,
    /// Room for the forwards that are being made, so that taking them out allocates nothing.
    due: Vec<Forward>,
    pub(super) link: Link,
}

/// How the shards are reached, with the buffers of one operation. What an operation does is compiled for each, so that
/// it asks which one this is once.
#[expect(clippy::large_enum_variant, reason = "there is one for each core, in its place")]
pub(crate) enum Link {
    Shm {
        lane: ShmLane,
        fabric: Shm,
    },
    /// `lanes`: the buffers of operations that run together.
    Verbs {
        lane: VerbsLane,
        lanes: Vec<VerbsLane>,
        fabric: Verbs,
    },
}

/// Does the same with the fabric and the lane of a link, whichever it is.
macro_rules! over {
    ($link:expr, $fabric:ident, $lane:ident => $does:expr) => {
        match $link {
            Link::Shm { fabric: $fabric, lane: $lane } => $does,
            Link::Verbs { fabric: $fabric, lane: $lane, .. } => $does,
        }
    };
}

impl Link {
    pub(crate) fn over_shm(fabric: Shm) -> Self {
        Self::Shm { lane: fabric.open_lane(), fabric }
    }

    pub(crate) fn over_verbs(fabric: Verbs) -> Self {
        Self::Verbs { lane: fabric.open_lane(), lanes: Vec::new(), fabric }
    }

    fn capabilities(&self) -> Capabilities {
        over!(self, fabric, _lane => fabric.capabilities())
    }

    fn leases_begin(&self, shard: usize, Leased { lives, keys }: &Leased) {
        if let Self::Verbs { fabric, .. } = self {
            fabric.open_windows(shard, lives, keys);
        }
    }

    fn leases_end(&self, Report { shard, published, returned, .. }: &Report) {
        if let Self::Verbs { fabric, .. } = self {
            fabric.close_windows(*shard, published);
            fabric.close_windows(*shard, returned);
        }
    }
}

/// One of several operations under way together.
struct Begun<'a, H> {
    number: usize,
    op: Op<'a>,
    hint: Option<Hint>,
    held: H,
    left: Left,
    counts: FabricCounts,
    duties: Duties,
}

/// What an attempt leaves to be done, in which shard.
pub(crate) struct Left {
    pub(crate) shard: usize,
    /// Whether there was a hint.
    pub(crate) hinted: bool,
    /// Blocks to ask the server for, of which class.
    pub(crate) wanted: Option<(Class, u16)>,
}

pub(super) struct Shard {
    pub(super) table: Table,
    pub(super) updates: bool,
    pub(super) duties: Duties,
    pub(super) leases: Leases,
}

/// What became of blocks of one shard, to be reported.
#[derive(Default, PartialEq, Eq, Debug)]
pub(crate) struct Report {
    pub(crate) shard: usize,
    pub(crate) published: Vec<Life>,
    pub(crate) retired: Vec<Life>,
    pub(crate) returned: Vec<Life>,
}

impl Report {
    fn is_empty(&self) -> bool {
        self.published.is_empty() && self.retired.is_empty() && self.returned.is_empty()
    }
}

impl OneSided {
    /// Over `link`, which leads to the `superblocks`' regions, with `rights` to them, with `hint_bytes` of memory
    /// for hints.
    pub(crate) fn new(link: Link, superblocks: &[Superblock], rights: Rights, hint_bytes: usize) -> Self {
        let capabilities = link.capabilities();
        let shard = |superblock: &Superblock| Shard {
            table: Table::new(superblock),
            updates: capabilities.updates(superblock.authority, rights) == Path::OneSided,
            duties: Duties::with_capacity(REPORT_BATCH),
            leases: Leases::new(superblock.geometry.region_len() - superblock.geometry.heap_at()),
        };
        Self {
            shards: superblocks.iter().map(shard).collect(),
            hints: Hints::with_bytes(hint_bytes),
            seed: superblocks[0].seed,
            reads: capabilities.reads() == Path::OneSided,
            due: Vec::with_capacity(FORWARDS_BATCH * 2),
            link,
        }
    }

    /// Whether what it goes over stands, as far as is known.
    #[inline]
    pub(crate) fn is_intact(&self) -> bool {
        over!(&self.link, fabric, _lane => fabric.is_intact())
    }

    /// Whether changes can be made over it too.
    #[inline]
    pub(crate) fn may_change(&self) -> bool {
        match &self.link {
            Link::Shm { fabric, .. } => fabric.is_intact(),
            Link::Verbs { fabric, .. } => fabric.may_change(),
        }
    }

    /// What names the queue pair to the server; 0 over shared memory.
    pub(crate) fn queue_pair(&self) -> u32 {
        match &self.link {
            Link::Shm { .. } => 0,
            Link::Verbs { fabric, .. } => fabric.peer(),
        }
    }

    /// Attempts `task` in `slice`.
    #[inline(always)]
    pub(crate) fn attempt<'a, T: Task<'a>>(
        &mut self,
        task: &mut T,
        slice: Slice,
        taken_in: u64,
        counts: &mut FabricCounts,
        outcome: &mut Outcome<T::Answer>,
    ) -> (Attempt, Left) {
        let key = task.key();
        let hash = KeyHash::of(key.as_bytes(), self.seed);
        let shard = hash.shard(self.shards.len());
        let hint = self.hints.get(hash);
        let hinted = hint.is_some();
        over!(&mut self.link, fabric, lane => {
            let io = LaneIo::new(fabric, lane, counts, shard, slice.end_ns);
            let op = Op { key, hash, began_ns: slice.began_ns, deadline_ns: slice.until_ns };
            let mut way = Way::new(io, op, hint, &mut self.shards[shard], &mut self.hints, self.reads, taken_in);
            let attempt = task.attempt(&mut way, outcome);
            (attempt, Left { shard, hinted, wanted: way.wanted })
        })
    }

    /// Whether operations gain by being attempted together: what one waits for goes on while others do.
    pub(crate) fn gains_together(&self) -> bool {
        matches!(self.link, Link::Verbs { .. })
    }

    /// Attempts `tasks` at once in `slice`. Each, with its number, what came of it, what it left and what it read, is
    /// handed to `done`.
    ///
    /// # Panics
    /// Unless [`OneSided::gains_together`].
    pub(crate) fn attempt_together<'a, T: Together<'a>>(
        &mut self,
        tasks: &mut [T],
        slice: Slice,
        taken_in: u64,
        mut done: impl FnMut(usize, &mut T, (Attempt, Outcome<T::Answer>), (Left, FabricCounts), &[u8]),
    ) {
        let Link::Verbs { fabric, lanes, .. } = &mut self.link else { unreachable!("it does not gain") };
        if lanes.len() < tasks.len() {
            lanes.resize_with(tasks.len(), || fabric.open_lane());
        }
        let (shards, hints, reads) = (&mut self.shards, &mut self.hints, self.reads);
        let mut begun = Vec::with_capacity(tasks.len());
        for ((number, task), lane) in tasks.iter_mut().enumerate().zip(lanes.iter_mut()) {
            let key = task.key();
            let hash = KeyHash::of(key.as_bytes(), self.seed);
            let shard = hash.shard(shards.len());
            let hint = hints.get(hash);
            let op = Op { key, hash, began_ns: slice.began_ns, deadline_ns: slice.until_ns };
            let (mut counts, mut outcome) = (FabricCounts::default(), Outcome::unknown());
            let (held, wanted) = {
                let io = LaneIo::new(fabric, lane, &mut counts, shard, slice.end_ns);
                let mut way = Way::new(io, op, hint, &mut shards[shard], hints, reads, taken_in);
                (task.prepare(&mut way, &mut outcome), way.wanted)
            };
            let left = Left { shard, hinted: hint.is_some(), wanted };
            match held {
                Ok(held) => {
                    begun.push(Begun { number, op, hint, held, left, counts, duties: Duties::default() });
                }
                Err(attempt) => done(number, task, (attempt, outcome), (left, counts), &[]),
            }
        }
        let plans = begun.iter_mut().zip(lanes.iter_mut()).map(|(begun, lane)| {
            let Begun { number, op, hint, held, left, counts, duties } = begun;
            let Shard { table, updates, .. } = &shards[left.shard];
            let mut io = LaneIo::new(fabric, lane, counts, left.shard, slice.end_ns);
            let task = &tasks[*number];
            async move {
                let steps = Steps { io: &mut io, table, op, hint: *hint, duties, updates: *updates };
                task.plan(steps, held).await
            }
        });
        let planned = drive_together(fabric, plans);
        for ((begun, lane), planned) in begun.into_iter().zip(lanes.iter_mut()).zip(planned) {
            let Begun { number, op, hint, held, left, mut counts, duties } = begun;
            let (task, mut outcome, shard) =
                (&mut tasks[number], Outcome::unknown(), &mut shards[left.shard]);
            shard.duties.take_on(duties);
            let attempt = {
                let io = LaneIo::new(fabric, lane, &mut counts, left.shard, slice.end_ns);
                let mut way = Way::new(io, op, hint, shard, hints, reads, taken_in);
                task.finish(&mut way, held, planned, &mut outcome)
            };
            done(number, task, (attempt, outcome), (left, counts), lane.incoming());
        }
        lanes.retain(|lane| lane.bytes() <= LANE_KEPT_MAX);
    }

    /// Touches the hints of keys that are looked up next, and then the records they lead to, if there are so many keys
    /// that most of that is not in the processor's caches. Nothing is concluded from it, so an old hint does no harm.
    pub(crate) fn touch<'a>(&self, keys: impl Iterator<Item = Key<'a>> + Clone) {
        let Link::Shm { fabric, .. } = &self.link else { return };
        if self.hints.bytes() < TOUCHED_HINTS_MIN {
            return;
        }
        let hashes = keys.map(|key| KeyHash::of(key.as_bytes(), self.seed));
        hashes.clone().for_each(|hash| self.hints.touch(hash));
        for hash in hashes {
            if let Some(hint) = self.hints.get(hash) {
                let len = (hint.len as usize).min(TOUCHED_MAX);
                fabric.touch(hash.shard(self.shards.len()), hint.locator.block().offset(), len);
            }
        }
    }

    /// What the last plan read.
    #[inline]
    pub(crate) fn incoming(&self) -> &[u8] {
        over!(&self.link, _fabric, lane => lane.incoming())
    }

    /// Takes in leased blocks of `class`. Returns what to give back for there to be any.
    pub(crate) fn lease_arrived(
        &mut self,
        shard: usize,
        class: Class,
        leased: Result<Leased, Refusal>,
    ) -> Vec<Report> {
        let lives = leased.map(|leased| {
            self.link.leases_begin(shard, &leased);
            leased.lives
        });
        let too_many = lives == Err(Refusal::TooMany);
        self.shards[shard].leases.arrived(class, lives);
        if too_many { self.give_up(shard) } else { Vec::new() }
    }

    /// Remembers the record that the server published for a request of `asked_ns`, if it says where; else forgets
    /// the key. `expires`: whether the record can.
    pub(crate) fn learn(
        &mut self,
        key: Key<'_>,
        version: Option<Version>,
        place: Option<wire::Hint>,
        record_len: usize,
        expires: bool,
        asked_ns: u64,
    ) {
        let hash = KeyHash::of(key.as_bytes(), self.seed);
        match (version.map(Version::life), place) {
            (Some(life), Some(wire::Hint { locator, slot })) if locator.names(life) => {
                let len = record_len as u32;
                self.hints
                    .put(hash, Hint { locator, count: life.count, len, slot, expires, seen_ns: asked_ns });
            }
            _ => self.hints.remove(hash),
        }
    }

    /// Forgets the key.
    pub(crate) fn forget(&mut self, key: Key<'_>) {
        self.hints.remove(KeyHash::of(key.as_bytes(), self.seed));
    }

    /// Whether `shard` has enough to do for [`OneSided::tend`].
    #[inline]
    pub(crate) fn is_due(&self, shard: usize) -> bool {
        let duties = &self.shards[shard].duties;
        duties.forwards_are_due(FORWARDS_BATCH)
            || duties.published.len() + duties.retired.len() >= REPORT_BATCH
    }

    /// Brings the slots of `shard` forward if enough of them wait. Returns what is to be reported, if that is
    /// enough or `hurry` says that any is.
    pub(crate) fn tend(&mut self, shard: usize, hurry: bool, stats: &mut Stats) -> Option<Report> {
        if self.shards[shard].duties.forwards_are_due(FORWARDS_BATCH) {
            self.bring_forward(shard, stats);
        }
        let Duties { retired, published, .. } = &self.shards[shard].duties;
        let least = if hurry { 1 } else { REPORT_BATCH };
        (published.len() + retired.len() >= least).then(|| self.report(shard))
    }

    /// Does all that is owed, and returns what is to be reported.
    pub(crate) fn settle_up(&mut self, stats: &mut Stats) -> Vec<Report> {
        let mut reports = Vec::new();
        for shard in 0..self.shards.len() {
            self.bring_forward(shard, stats);
            reports.extend(
                std::iter::repeat_with(|| self.report(shard)).take_while(|report| !report.is_empty()),
            );
        }
        reports
    }

    /// All blocks that were leased and not used, to be given back.
    pub(crate) fn give_up_all(&mut self) -> Vec<Report> {
        (0..self.shards.len()).flat_map(|shard| self.give_up(shard)).collect()
    }

    fn give_up(&mut self, shard: usize) -> Vec<Report> {
        let returned = self.shards[shard].leases.drain();
        let batches = returned.chunks(LIVES_MAX);
        let reports = batches.map(|batch| Report { shard, returned: batch.into(), ..Report::default() });
        reports.inspect(|report| self.link.leases_end(report)).collect()
    }

    fn bring_forward(&mut self, shard: usize, stats: &mut Stats) {
        let Shard { table, duties, .. } = &mut self.shards[shard];
        mem::swap(&mut duties.forwards, &mut self.due);
        // What fails stays as it is, and readers and the server's sweep come across it.
        match &mut self.link {
            Link::Shm { fabric, lane } => {
                for forward in self.due.drain(..) {
                    let until_ns = fabric.now() + FORWARD_NS_MAX;
                    let mut io = LaneIo::new(fabric, lane, &mut stats.upkeep, shard, until_ns);
                    if drive(pin!(bring_forward(&mut io, table, forward, until_ns, duties))).is_ok() {
                        stats.forwards += 1;
                    }
                }
            }
            Link::Verbs { fabric, lanes, .. } => {
                if lanes.len() < FORWARDS_TOGETHER {
                    lanes.resize_with(FORWARDS_TOGETHER, || fabric.open_lane());
                }
                while !self.due.is_empty() {
                    let until_ns = fabric.now() + FORWARD_NS_MAX;
                    let due = self.due.drain(..self.due.len().min(FORWARDS_TOGETHER));
                    let plans = due.zip(lanes.iter_mut()).map(|(forward, lane)| {
                        let (table, fabric) = (&*table, &*fabric);
                        async move {
                            let (mut counts, mut duties) = (FabricCounts::default(), Duties::default());
                            let mut io = LaneIo::new(fabric, lane, &mut counts, shard, until_ns);
                            let made = bring_forward(&mut io, table, forward, until_ns, &mut duties).await;
                            drop(io);
                            (made.is_ok(), counts, duties)
                        }
                    });
                    for (made, counts, made_due) in drive_together(fabric, plans) {
                        stats.forwards += u64::from(made);
                        stats.upkeep += counts;
                        duties.take_on(made_due);
                    }
                }
            }
        }
    }

    fn report(&mut self, shard: usize) -> Report {
        let Duties { retired, published, .. } = &mut self.shards[shard].duties;
        let take = |lives: &mut Vec<Life>| lives.drain(..lives.len().min(LIVES_MAX)).collect();
        let report =
            Report { shard, published: take(published), retired: take(retired), returned: Vec::new() };
        self.link.leases_end(&report);
        report
    }
}
