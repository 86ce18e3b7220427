//! GET: one READ with a hint, two without.

use super::chain::{Owner, Seen, read_bytes};
use super::lookup::{Lookup, lookup};
use super::{Failure, Op, Table};
use crate::duties::Duties;
use crate::hints::Hint;
use crate::io::{Chain, Io, Step};
use core::ops::Range;
use farside_protocol::{Link, Locator, RecordView, SlotIndex, Version};

/// A key's value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Got {
    /// Where the value lies in [`Io::incoming`].
    pub value: Range<usize>,
    /// Its version.
    pub version: Version,
    /// When it expires, milliseconds of the Unix epoch; 0: never.
    pub expires_at_ms: u64,
    /// The record's flags.
    pub flags: u16,
    /// How to find it again.
    pub hint: Hint,
}

/// Looks a key up. `None`: absent, or expired. Lagging slots that it meets are added to `duties` for a client that
/// may bring them forward.
pub async fn get<I: Io>(
    io: &mut I,
    table: &Table,
    op: &Op<'_>,
    hint: Option<Hint>,
    duties: Option<&mut Duties>,
) -> Result<Option<Got>, Failure> {
    // The warm READ is run from here and judged without an await in between: the compiler keeps it in registers.
    if let Some(hint) = hint
        && let Some(mut warm) = Warm::begin(io, table, hint)
        && io.run(&mut warm.chain).await.is_ok()
        && let Some((seen, hint)) = warm.finish(io, table, op).await
    {
        return Ok(Some(got(&seen, hint)));
    }
    let (forward, answer) = match lookup(io, table, op).await? {
        // Linearized when the link was read as END.
        Lookup::Found(found) => {
            let hint = hint_to(&found.seen, found.slot, found.since_ns);
            (Some(found.forward), (!found.expired).then(|| got(&found.seen, hint)))
        }
        // Linearized within the lookup: a key changes slots only by being deleted in between, so a key that is in
        // none of the slots, each read once, was absent at some moment.
        Lookup::Absent { dead, .. } => (dead, None),
    };
    if let (Some(duties), Some(forward)) = (duties, forward) {
        duties.push_forward(forward);
    }
    Ok(answer)
}

/// The hint to a record that was seen as END.
pub(super) fn hint_to(seen: &Seen, slot: SlotIndex, seen_ns: u64) -> Hint {
    Hint {
        locator: seen.locator,
        count: seen.life().count,
        len: seen.len() as u32,
        slot,
        expires: seen.expires_at_ms != 0,
        seen_ns,
    }
}

#[inline]
fn got(seen: &Seen, hint: Hint) -> Got {
    Got {
        value: seen.value(),
        version: seen.version,
        expires_at_ms: seen.expires_at_ms,
        flags: seen.flags,
        hint,
    }
}

/// A READ of the record that a hint names.
pub(super) struct Warm {
    pub(super) chain: Chain,
    hint: Hint,
    len: usize,
    since_ns: u64,
}

impl Warm {
    /// The READ, unless the hint is too old to be used.
    #[inline]
    pub(super) fn begin<I: Io>(io: &mut I, table: &Table, hint: Hint) -> Option<Self> {
        let since_ns = io.now();
        if !table.admits(since_ns, &hint) {
            return None;
        }
        let (at, size) = table.geometry.extent(hint.locator)?;
        let len = size.min(hint.len as usize);
        io.reserve_incoming(len.next_multiple_of(8));
        let mut chain = Chain::new();
        chain.push(Step::read(at, len, 0));
        Some(Self { chain, hint, len, since_ns })
    }

    /// What the READ brought, once it has completed: the current record, or the successor of the one that the hint
    /// names; no further. `None` sends the operation the cold way, also if the record has expired by now: only a
    /// clock that was looked at before the READ can tell whether it already had when it was read.
    #[inline]
    pub(super) async fn finish<I: Io>(&self, io: &mut I, table: &Table, op: &Op<'_>) -> Option<(Seen, Hint)> {
        let seen = own_record(io, op, self.hint.locator, self.len)?;
        if seen.life() != self.hint.life() {
            return None;
        }
        let (seen, mut hint) = match seen.link {
            Link::End(_) => (seen, self.hint),
            // Rule T7: the successor's block may be in another life if this hint is old.
            Link::NextBlind(next) | Link::NextOther(next) if table.is_recent(io, self.hint.seen_ns) => {
                let seen = read_successor(io, table, op, next).await?;
                (seen, hint_to(&seen, self.hint.slot, self.since_ns))
            }
            _ => return None,
        };
        if seen.expires_at_ms != 0 && seen.is_expired(io.wall_ms()) {
            return None;
        }
        // A hint in use is kept young, though not written again for each GET.
        if self.since_ns.saturating_sub(hint.seen_ns) > table.quarantine_ns * 64 {
            hint.seen_ns = self.since_ns;
        }
        // Linearized when the link was read as END; the rest belongs to it, since nothing read within the quarantine
        // can have been written anew meanwhile (T1, T2).
        table.is_fresh(io, self.since_ns).then_some((seen, hint))
    }
}

/// The record at `next`, if it is the current one.
#[cold]
async fn read_successor<I: Io>(io: &mut I, table: &Table, op: &Op<'_>, next: Locator) -> Option<Seen> {
    let (at, len) = table.geometry.extent(next)?;
    read_bytes(io, at, len).await.ok()?;
    own_record(io, op, next, len).filter(|seen| matches!(seen.link, Link::End(_)))
}

/// The record in the `len` bytes that were read, if it is the one at `locator` and `op`'s key's.
#[inline]
fn own_record<I: Io>(io: &I, op: &Op<'_>, locator: Locator, len: usize) -> Option<Seen> {
    let view = RecordView::verify(io.incoming().get(..len)?, locator)?;
    Owner::of(op).owns(view.key).then(|| Seen::of(&view, locator))
}
