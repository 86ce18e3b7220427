//! SCAN of memory: this process reads the slots of the index, and the records they lead to.

use super::one_sided::{Link, OneSided};
use crate::scan::Scan;
use crate::stats::FabricCounts;
use crate::task::{Attempt, Slice};
use crate::value::{Meta, Value};
use farside_hashtable::plan::{Failure, Run, SCAN_RUN, Scanned, Table, Taken};
use farside_protocol::wire::ScanPosition;
use farside_protocol::{SlotIndex, SlotWord};
use farside_transport::{Fabric as _, LaneIo, drive, drive_together};
use std::iter;
use std::pin::pin;
use std::time::Duration;

/// Parts of a run that are passed together on a network.
const PARTS_TOGETHER: usize = 8;

/// Slots of a run on a network: there the words of many cost hardly more than those of a few.
const NETWORK_RUN: usize = 8 * SCAN_RUN;

/// Slots that are read on a network for each key that is looked for. More would mostly be read in vain: tables are laid out
/// to be half full.
const SLOTS_PER_KEY: usize = 4;

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
    fn left(&self) -> usize {
        usize::from(self.scan.page() - self.keys)
    }

    fn wants(&self, key: &[u8]) -> bool {
        key.starts_with(self.scan.prefix())
    }

    /// Passes a key on, if it is one of those that are looked for.
    fn take(&mut self, found: Scanned<'_>) -> Taken {
        if !self.wants(found.key) {
            return Taken::GoOn;
        }
        self.keys += 1;
        let meta = Meta::new(found.version, found.expires_at_ms, found.flags);
        (self.each)(found.key, Value::new(found.value, meta));
        if self.left() == 0 { Taken::Last } else { Taken::GoOn }
    }
}

impl OneSided {
    /// Whether it is read one-sidedly.
    pub(super) fn reads(&self) -> bool {
        self.reads
    }

    /// Passes the keys of runs of slots to `each` until the page is full, or the slice is used up, or the shard is at its end.
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
        while slot < slots && page.left() > 0 {
            let next = Next { table: &table, shard: from.shard as usize, slot: SlotIndex(slot), slice };
            match next.pass(&mut self.link, counts, &mut page) {
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

/// The next run of slots of a shard.
struct Next<'a> {
    table: &'a Table,
    shard: usize,
    slot: SlotIndex,
    slice: Slice,
}

impl Next<'_> {
    /// Passes what of it the page has room for, and returns the slot to go on from.
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
                let mut words = [SlotWord::EMPTY; SCAN_RUN];
                drive(pin!(async {
                    let run = Run::read(&mut io, table, slot, &mut words).await?;
                    run.pass(&mut io, table, slice.until_ns, |found| page.take(found)).await
                }))
            }
            Link::Verbs { fabric, lanes, lane } => {
                if lanes.len() < PARTS_TOGETHER {
                    lanes.resize_with(PARTS_TOGETHER, || fabric.open_lane());
                }
                let (fabric, left) = (&*fabric, page.left());
                let mut words = [SlotWord::EMPTY; NETWORK_RUN];
                let words = &mut words[..(SLOTS_PER_KEY * left).clamp(SCAN_RUN, NETWORK_RUN)];
                let run = {
                    let mut io = LaneIo::new(fabric, lane, counts, shard, slice.end_ns);
                    drive(Run::read(&mut io, table, slot, words))?
                };
                // No more records are read than there is room for.
                let (mut rest, _) = run.split_after(left);
                let parts = iter::from_fn(|| {
                    let part;
                    (part, rest) = rest.split_after(left.div_ceil(PARTS_TOGETHER));
                    (!part.is_empty()).then_some(part)
                });
                let page_ref = &*page;
                let plans = parts.zip(&mut lanes[..]).map(|(part, lane)| async move {
                    let (mut counts, mut found, mut kept) = (FabricCounts::default(), Vec::new(), 0);
                    let next = {
                        let mut io = LaneIo::new(fabric, lane, &mut counts, shard, slice.end_ns);
                        let take = |scanned: Scanned<'_>| {
                            if !page_ref.wants(scanned.key) {
                                return Taken::GoOn;
                            }
                            kept += scanned.key.len() + scanned.value.len();
                            if kept > KEPT_MAX && !found.is_empty() {
                                return Taken::Not;
                            }
                            found.push(Kept::of(scanned));
                            Taken::GoOn
                        };
                        part.pass(&mut io, table, slice.until_ns, take).await
                    };
                    (part.end(), next, found, counts)
                });
                let mut next = slot;
                let mut passed = drive_together(fabric, plans).into_iter();
                // What comes behind a part that did not come to its end is passed when that has.
                for (part_end, part_next, found, part_counts) in passed.by_ref() {
                    *counts += part_counts;
                    match part_next {
                        Ok(part_next) => next = part_next,
                        Err(failure) if next == slot => return Err(failure),
                        Err(_) => break,
                    }
                    for kept in &found {
                        page.take(kept.lend());
                    }
                    if next != part_end {
                        break;
                    }
                }
                passed.for_each(|(.., part_counts)| *counts += part_counts);
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
