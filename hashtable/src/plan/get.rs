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
    /// How to find it again; `None`: by the hint that served, as it is.
    pub hint: Option<Hint>,
}

/// Looks a key up: [`get_warm`] if there is a hint, then [`get_cold`] if need be. Who wants the warm READ to be straight
/// code runs the two apart: the first has a small future, the second one of kilobytes.
pub async fn get<I: Io>(
    io: &mut I,
    table: &Table,
    op: &Op<'_>,
    hint: Option<&Hint>,
    duties: Option<&mut Duties>,
) -> Result<Option<Got>, Failure> {
    if let Some(hint) = hint
        && let Some(got) = get_warm(io, table, op, hint).await
    {
        return Ok(Some(got));
    }
    get_cold(io, table, op, duties).await
}

/// Looks a key up by its hint. `None`: the hint does not serve.
#[inline]
pub async fn get_warm<I: Io>(io: &mut I, table: &Table, op: &Op<'_>, hint: &Hint) -> Option<Got> {
    let (seen, hint) = warm(io, table, op, hint).await?;
    Some(got(&seen, hint))
}

/// Looks a key up without a hint. `None`: absent, or expired. Lagging slots that it meets are added to `duties` for
/// a client that may bring them forward.
pub async fn get_cold<I: Io>(
    io: &mut I,
    table: &Table,
    op: &Op<'_>,
    duties: Option<&mut Duties>,
) -> Result<Option<Got>, Failure> {
    let (forward, answer) = match lookup(io, table, op).await? {
        // Linearized when the link was read as END.
        Lookup::Found(found) => {
            let hint = hint_to(&found.seen, found.slot, found.since_ns);
            (Some(found.forward), (!found.expired).then(|| got(&found.seen, Some(hint))))
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
fn hint_to(seen: &Seen, slot: SlotIndex, seen_ns: u64) -> Hint {
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
fn got(seen: &Seen, hint: Option<Hint>) -> Got {
    Got {
        value: seen.value(),
        version: seen.version,
        expires_at_ms: seen.expires_at_ms,
        flags: seen.flags,
        hint,
    }
}

/// READs the record that `hint` names: the current one, or the successor of the one named; no further. With it
/// comes the hint to it, if that is another or has become younger. `None` sends the operation the cold way, also if
/// the record has expired by now: only a clock that was looked at before the READ can tell whether it already had
/// when it was read.
#[inline]
pub(super) async fn warm<I: Io>(
    io: &mut I,
    table: &Table,
    op: &Op<'_>,
    hint: &Hint,
) -> Option<(Seen, Option<Hint>)> {
    // The operation's beginning stands for the post of the READ: T2 gives up the earlier for it, and past that the
    // hint is not older than T7 allows by more than T2 does.
    let since_ns = op.began_ns;
    if !table.admits(since_ns, hint) {
        return None;
    }
    let (at, size) = table.geometry.extent(hint.locator)?;
    let len = size.min(hint.len as usize);
    io.reserve_incoming(len.next_multiple_of(8));
    let mut chain = Chain::new();
    chain.push(Step::read(at, len, 0));
    io.run(&mut chain).await.ok()?;
    let next = match judge(io, table, op, hint, len)? {
        Judged::Current(seen, hint) => return Some((seen, hint)),
        Judged::Superseded(next) => next,
    };
    let seen = read_successor(io, table, op, next).await?;
    let learned = hint_to(&seen, hint.slot, since_ns);
    read_in_time(io, table, op, seen).map(|seen| (seen, Some(learned)))
}

/// What a hint led to.
enum Judged {
    Current(Seen, Option<Hint>),
    Superseded(Locator),
}

/// Judges the `len` bytes that were read by `hint`. Apart from [`warm`], whose locals live in its future: there the
/// compiler would keep what was seen in memory, and copy it, for the sake of the successor's READ.
#[inline(always)]
fn judge<I: Io>(io: &I, table: &Table, op: &Op<'_>, hint: &Hint, len: usize) -> Option<Judged> {
    let seen = own_record(io, op, hint.locator, len)?;
    if seen.life() != hint.life() {
        return None;
    }
    if let Link::End(_) = seen.link {
        // A hint in use is kept young, though not written again for each GET.
        let aged = op.began_ns.saturating_sub(hint.seen_ns) > table.quarantine_ns * 64;
        let learned = aged.then_some(Hint { seen_ns: op.began_ns, ..*hint });
        return read_in_time(io, table, op, seen).map(|seen| Judged::Current(seen, learned));
    }
    // Rule T7: the successor's block may be in another life if this hint is old.
    seen.link.next().filter(|_| table.is_recent(io, hint.seen_ns)).map(Judged::Superseded)
}

/// `seen`, whose link was END, unless it has expired or took too long to read.
#[inline(always)]
fn read_in_time<I: Io>(io: &I, table: &Table, op: &Op<'_>, seen: Seen) -> Option<Seen> {
    if seen.expires_at_ms != 0 && seen.is_expired(io.wall_ms()) {
        return None;
    }
    // Linearized when the link was read as END; the rest belongs to it, since nothing read within the quarantine
    // can have been written anew meanwhile (T1, T2).
    table.is_fresh(io, op.began_ns).then_some(seen)
}

/// The record at `next`, if it is the current one.
#[cold]
async fn read_successor<I: Io>(io: &mut I, table: &Table, op: &Op<'_>, next: Locator) -> Option<Seen> {
    let (at, len) = table.geometry.extent(next)?;
    read_bytes(io, at, len).await.ok()?;
    own_record(io, op, next, len).filter(|seen| matches!(seen.link, Link::End(_)))
}

/// The record in the `len` bytes that were read, if it is the one at `locator` and `op`'s key's.
#[inline(always)]
fn own_record<I: Io>(io: &I, op: &Op<'_>, locator: Locator, len: usize) -> Option<Seen> {
    let view = RecordView::verify(io.incoming().get(..len)?, locator)?;
    Owner::of(op).owns(view.key).then(|| Seen::of(&view, locator))
}
