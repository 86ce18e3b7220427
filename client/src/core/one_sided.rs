//! The one-sided half of a core: the shards in this process's memory, and what it knows and owes of each.

use super::leases::{Leases, Refusal};
use super::way::Way;
use farside_hashtable::duties::{Duties, Forward};
use farside_hashtable::hints::{Hint, Hints};
use farside_hashtable::plan::{Op, Table, bring_forward};
use farside_protocol::wire::{self, LIVES_MAX, Rights};
use farside_protocol::{Class, Key, KeyHash, Life, Superblock, TableSeed, Version};
use farside_transport::capabilities::Path;
use farside_transport::shm::{Shm, ShmLane};
use farside_transport::verbs::{Verbs, VerbsLane};
use farside_transport::{Capabilities, Fabric as _, Lane as _, LaneIo, drive};

use crate::stats::{FabricCounts, Stats};
use crate::task::{Attempt, Outcome, Slice, Task};
use std::mem;
use std::pin::pin;

/// Slots are brought forward when this many wait.
const FORWARDS_BATCH: usize = 64;
/// Blocks are reported when this many wait: with leases of 256 that makes one request in a hundred updates.
const REPORT_BATCH: usize = 256;
/// The longest that one forward may take; what is not done then is left to the server's sweep.
const FORWARD_NS_MAX: u64 = 10_000_000;

/// The hints of about two thousand keys.
const TOUCHED_HINTS_MIN: usize = 128 << 10;
/// The processor fetches the rest of a longer record by itself while its beginning is read.
const TOUCHED_MAX: usize = 256;

/// Fields in the order in which they go: the mapping last of what uses it.
pub(crate) struct OneSided {
    shards: Box<[Shard]>,
    hints: Hints,
    seed: TableSeed,
    reads: bool,
    /// Room for the forwards that are being made, so that taking them out allocates nothing.
    due: Vec<Forward>,
    link: Link,
}

/// How the shards are reached, with the buffers of one operation. What an operation does is compiled for each, so that
/// it asks which one this is once.
#[expect(clippy::large_enum_variant, reason = "there is one for each core, in its place")]
pub(crate) enum Link {
    Shm { lane: ShmLane, fabric: Shm },
    Verbs { lane: VerbsLane, fabric: Verbs },
}

/// Does the same with the fabric and the lane of a link, whichever it is.
macro_rules! over {
    ($link:expr, $fabric:ident, $lane:ident => $does:expr) => {
        match $link {
            Link::Shm { fabric: $fabric, lane: $lane } => $does,
            Link::Verbs { fabric: $fabric, lane: $lane } => $does,
        }
    };
}

impl Link {
    pub(crate) fn over_shm(fabric: Shm) -> Self {
        Self::Shm { lane: fabric.open_lane(), fabric }
    }

    pub(crate) fn over_verbs(fabric: Verbs) -> Self {
        Self::Verbs { lane: fabric.open_lane(), fabric }
    }

    fn capabilities(&self) -> Capabilities {
        over!(self, fabric, _lane => fabric.capabilities())
    }
}

/// What an attempt leaves to be done, in which shard.
pub(crate) struct Left {
    pub(crate) shard: usize,
    /// Whether there was a hint.
    pub(crate) hinted: bool,
    /// Blocks to ask the server for, of which class.
    pub(crate) wanted: Option<(Class, u16)>,
}

struct Shard {
    table: Table,
    updates: bool,
    duties: Duties,
    leases: Leases,
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
        let Shard { table, updates, duties, leases } = &mut self.shards[shard];
        let hint = self.hints.get(hash);
        let hinted = hint.is_some();
        over!(&mut self.link, fabric, lane => {
            let mut way = Way {
                io: LaneIo::new(fabric, lane, counts, shard, slice.end_ns),
                op: Op { key, hash, began_ns: slice.began_ns, deadline_ns: slice.until_ns },
                table,
                duties,
                leases,
                hint,
                hints: &mut self.hints,
                reads: self.reads,
                updates: *updates,
                taken_in,
                wanted: None,
            };
            let attempt = task.attempt(&mut way, outcome);
            (attempt, Left { shard, hinted, wanted: way.wanted })
        })
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
        lives: Result<Vec<Life>, Refusal>,
    ) -> Vec<Report> {
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
        batches.map(|batch| Report { shard, returned: batch.into(), ..Report::default() }).collect()
    }

    fn bring_forward(&mut self, shard: usize, stats: &mut Stats) {
        let Shard { table, duties, .. } = &mut self.shards[shard];
        mem::swap(&mut duties.forwards, &mut self.due);
        over!(&mut self.link, fabric, lane => {
            for forward in self.due.drain(..) {
                let until_ns = fabric.now() + FORWARD_NS_MAX;
                let mut io = LaneIo::new(fabric, lane, &mut stats.upkeep, shard, until_ns);
                // What fails stays as it is, and readers and the server's sweep come across it.
                if drive(pin!(bring_forward(&mut io, table, forward, until_ns, duties))).is_ok() {
                    stats.forwards += 1;
                }
            }
        });
    }

    fn report(&mut self, shard: usize) -> Report {
        let Duties { retired, published, .. } = &mut self.shards[shard].duties;
        let take = |lives: &mut Vec<Life>| lives.drain(..lives.len().min(LIVES_MAX)).collect();
        Report { shard, published: take(published), retired: take(retired), returned: Vec::new() }
    }
}
