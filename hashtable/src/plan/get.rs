//! GET: one READ with a hint, two without.

use super::chain::{Owner, Seen, read_bytes};
use super::lookup::{Lookup, lookup};
use super::{Failure, Op, Table};
use crate::duties::Duties;
use crate::hints::Hint;
use crate::io::{Io, Lost};
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
    if let Some(hint) = hint
        && let Some((seen, hint)) = warm(io, table, op, hint).await
    {
        return Ok(got(io, &seen, hint));
    }
    let (forward, answer) = match lookup(io, table, op).await? {
        // Linearized when the link was read as END.
        Lookup::Found(found) => {
            let hint = hint_to(&found.seen, found.slot, found.since_ns);
            (Some(found.forward), got(io, &found.seen, hint))
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
fn got<I: Io>(io: &I, seen: &Seen, hint: Hint) -> Option<Got> {
    if seen.is_expired(io) {
        return None;
    }
    Some(Got {
        value: seen.value(),
        version: seen.version,
        expires_at_ms: seen.expires_at_ms,
        flags: seen.flags,
        hint,
    })
}

/// Reads the record that the hint names and, if it was superseded, its successor; no further. `None` sends the
/// operation the cold way, also after a lost READ.
#[inline]
pub(super) async fn warm<I: Io>(io: &mut I, table: &Table, op: &Op<'_>, hint: Hint) -> Option<(Seen, Hint)> {
    let since_ns = io.now();
    if !table.admits(io, &hint) {
        return None;
    }
    let seen = read_own(io, table, op, hint.locator, hint.len as usize).await.ok()??;
    if seen.life() != hint.life() {
        return None;
    }
    let (seen, mut hint) = match seen.link {
        Link::End(_) => (seen, hint),
        // Rule T7: the successor's block may be in another life if this hint is old.
        Link::NextBlind(next) | Link::NextOther(next) if table.is_recent(io, hint.seen_ns) => {
            let (_, len) = table.geometry.extent(next)?;
            let seen = read_own(io, table, op, next, len).await.ok()??;
            if !matches!(seen.link, Link::End(_)) {
                return None;
            }
            (seen, hint_to(&seen, hint.slot, since_ns))
        }
        _ => return None,
    };
    // A hint in use is kept young, though not written again for each GET.
    if since_ns.saturating_sub(hint.seen_ns) > table.quarantine_ns * 64 {
        hint.seen_ns = since_ns;
    }
    // Linearized when the link was read as END; the rest belongs to it, since nothing read within the quarantine
    // can have been written anew meanwhile (T1, T2).
    table.is_fresh(io, since_ns).then_some((seen, hint))
}

/// Reads `len` bytes of the record at `locator`; `None` unless it verifies and is `op`'s key's.
#[inline]
async fn read_own<I: Io>(
    io: &mut I,
    table: &Table,
    op: &Op<'_>,
    locator: Locator,
    len: usize,
) -> Result<Option<Seen>, Lost> {
    let Some((at, size)) = table.geometry.extent(locator) else { return Ok(None) };
    let len = len.min(size);
    read_bytes(io, at, len).await?;
    let Some(view) = RecordView::verify(&io.incoming()[..len], locator) else { return Ok(None) };
    Ok(Owner::of(op).owns(view.key).then(|| Seen::of(&view, locator)))
}
