//! SCAN of memory: this process reads the slots of the index, and the records they lead to.

use super::one_sided::{Link, OneSided};
use crate::scan::Scan;
use crate::stats::FabricCounts;
use crate::task::{Attempt, Slice};
use crate::value::{Meta, Value};
use farside_hashtable::plan::{Failure, SCAN_RUN, Scanned, Table, scan_run};
use farside_protocol::SlotIndex;
use farside_protocol::wire::ScanPosition;
use farside_transport::{Fabric as _, LaneIo, drive, drive_together};
use std::pin::pin;
use std::time::Duration;

/// Runs of slots that are read together on a network.
const RUNS_TOGETHER: usize = 8;

/// Bytes of keys and values that are kept of each of them, unless one is longer.
const KEPT_MAX: usize = 256 << 10;

/// What came of an attempt at a page.
pub(crate) enum ScanStep {
    /// It was passed; from here the scan goes on, unless it is at its end.
    Page(Option<ScanPosition>),
    /// It is the server's to do.
    TwoSided,
    /// The time of this attempt was not enough.
    Unfinished,
    /// To be tried again after this time.
    Later(Duration),
    /// The connection is known to be broken.
    Broken,
}

/// What a core comes to that cannot begin.
impl From<Attempt> for ScanStep {
    fn from(attempt: Attempt) -> Self {
        match attempt {
            Attempt::Later(time) => Self::Later(time),
            Attempt::Broken => Self::Broken,
            Attempt::TwoSided => Self::TwoSided,
            Attempt::Done | Attempt::Unfinished | Attempt::Lease(_) => Self::Unfinished,
        }
    }
}

/// A page that is being filled.
struct Page<'s, E> {
    scan: &'s Scan,
    keys: u16,
    each: E,
}

impl<E: FnMut(&[u8], Value<&[u8]>)> Page<'_, E> {
    fn is_full(&self) -> bool {
        self.keys >= self.scan.page()
    }

    /// Passes a key on, if it is one of those that are looked for.
    fn take(&mut self, found: Scanned<'_>) {
        if found.key.starts_with(self.scan.prefix()) {
            self.keys = self.keys.saturating_add(1);
            let meta = Meta::new(found.version, found.expires_at_ms, found.flags);
            (self.each)(found.key, Value::new(found.value, meta));
        }
    }
}

impl OneSided {
    /// Whether it is read one-sidedly.
    pub(super) fn reads(&self) -> bool {
        self.reads
    }

    /// Passes runs of slots to `each` until the page is full, or the slice is used up, or the shard is at its end.
    pub(super) fn scan(
        &mut self,
        from: ScanPosition,
        scan: &Scan,
        slice: Slice,
        counts: &mut FabricCounts,
        each: impl FnMut(&[u8], Value<&[u8]>),
    ) -> ScanStep {
        let Some(shard) = self.shards.get(from.shard as usize) else { return ScanStep::Page(None) };
        let (table, mut slot) = (shard.table, from.slot);
        let slots = table.geometry.slots();
        let mut page = Page { scan, keys: 0, each };
        while slot < slots && !page.is_full() {
            let runs = Runs { table: &table, shard: from.shard as usize, slot, slice };
            match runs.pass(&mut self.link, counts, &mut page) {
                Ok(next) => slot = next.0,
                Err(_) if slot == from.slot => return ScanStep::Unfinished,
                Err(_) => break,
            }
        }
        let next = from.shard + 1;
        ScanStep::Page(match slot {
            _ if slot < slots => Some(ScanPosition { slot, ..from }),
            _ if (next as usize) < self.shards.len() => Some(ScanPosition { shard: next, slot: 0 }),
            _ => None,
        })
    }
}

/// Runs of slots of one shard, from `slot` on.
struct Runs<'a> {
    table: &'a Table,
    shard: usize,
    slot: u32,
    slice: Slice,
}

impl Runs<'_> {
    /// Passes one, or on a network several, and returns the slot to go on from.
    fn pass(
        self,
        link: &mut Link,
        counts: &mut FabricCounts,
        page: &mut Page<'_, impl FnMut(&[u8], Value<&[u8]>)>,
    ) -> Result<SlotIndex, Failure> {
        let Self { table, shard, slot, slice } = self;
        match link {
            Link::Shm { fabric, lane } => {
                let mut io = LaneIo::new(fabric, lane, counts, shard, slice.end_ns);
                let take = |found: Scanned<'_>| {
                    page.take(found);
                    true
                };
                drive(pin!(scan_run(&mut io, table, SlotIndex(slot), slice.until_ns, take)))
            }
            Link::Verbs { fabric, lanes, .. } => {
                if lanes.len() < RUNS_TOGETHER {
                    lanes.resize_with(RUNS_TOGETHER, || fabric.open_lane());
                }
                let fabric = &*fabric;
                let runs = slot / SCAN_RUN..table.geometry.slots().div_ceil(SCAN_RUN);
                let firsts = runs.map(|number| slot.max(number * SCAN_RUN));
                let plans = firsts.zip(&mut lanes[..RUNS_TOGETHER]).map(|(slot, lane)| async move {
                    let (mut counts, mut found, mut kept) = (FabricCounts::default(), Vec::new(), 0);
                    let next = {
                        let mut io = LaneIo::new(fabric, lane, &mut counts, shard, slice.end_ns);
                        let take = |scanned: Scanned<'_>| {
                            kept += scanned.key.len() + scanned.value.len();
                            let has_room = kept <= KEPT_MAX || found.is_empty();
                            if has_room {
                                found.push(Kept::of(scanned));
                            }
                            has_room
                        };
                        scan_run(&mut io, table, SlotIndex(slot), slice.until_ns, take).await
                    };
                    (next, found, counts)
                });
                let mut next = SlotIndex(slot);
                let mut passed = drive_together(fabric, plans).into_iter();
                // What comes behind a run that did not come to its end is passed when that has.
                for (run_next, found, run_counts) in passed.by_ref() {
                    *counts += run_counts;
                    match run_next {
                        Ok(run_next) => next = run_next,
                        Err(failure) if next.0 == slot => return Err(failure),
                        Err(_) => break,
                    }
                    found.iter().for_each(|kept| page.take(kept.lend()));
                    if !next.0.is_multiple_of(SCAN_RUN) {
                        break;
                    }
                }
                passed.for_each(|(.., run_counts)| *counts += run_counts);
                Ok(next)
            }
        }
    }
}

/// A key that was read, to be passed on later.
struct Kept {
    key: Vec<u8>,
    value: Vec<u8>,
    /// Without its bytes.
    rest: Scanned<'static>,
}

impl Kept {
    fn of(found: Scanned<'_>) -> Self {
        let Scanned { version, expires_at_ms, flags, .. } = found;
        let rest = Scanned { key: &[], value: &[], version, expires_at_ms, flags };
        Self { key: found.key.into(), value: found.value.into(), rest }
    }

    fn lend(&self) -> Scanned<'_> {
        Scanned { key: &self.key, value: &self.value, ..self.rest }
    }
}
