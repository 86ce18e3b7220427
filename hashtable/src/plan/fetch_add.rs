//! fetch-add: a fresh read, then a conditional publication.

use super::get::warm;
use super::insert::{Inserted, insert};
use super::lookup::{Lookup, lookup};
use super::put::{INSERT_ROUNDS, Publication, Target};
use super::supersede::Superseded;
use super::{Failure, Lease, Op, Table};
use crate::duties::Duties;
use crate::hints::Hint;
use crate::io::Io;
use farside_protocol::record::FLAG_COUNTER;
use farside_protocol::{Link, Record, SlotIndex, Version};

/// What a fetch-add came to; its lease is spent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Added {
    /// The counter after the addition.
    pub value: i64,
    /// Its version.
    pub version: Version,
    /// How to find it.
    pub hint: Hint,
}

/// Adds `delta` to a counter; an absent key counts from 0. A counter keeps its expiry. The lease is spent on `Ok` and
/// on [`Failure::Indeterminate`].
pub async fn fetch_add<I: Io>(
    io: &mut I,
    table: &Table,
    op: &Op<'_>,
    delta: i64,
    lease: Lease,
    mut hint: Option<Hint>,
    duties: &mut Duties,
) -> Result<Added, Failure> {
    let mut insertions = 0;
    loop {
        // The record to supersede, and what is in it unless it has expired.
        let (target, seen) = match hint.take() {
            Some(hint) => {
                let Some((seen, learned)) = warm(io, table, op, &hint).await else { continue };
                (Ok(Target::hinted(op, &learned.unwrap_or(hint))), Some(seen))
            }
            None => match lookup(io, table, op).await? {
                Lookup::Found(found) => (Ok(Target::found(&found)), (!found.expired).then_some(found.seen)),
                Lookup::Absent { dead: Some(forward), .. } => {
                    super::bring_forward(io, table, forward, op.deadline_ns, duties).await?;
                    continue;
                }
                Lookup::Absent { window, dead: None } => (Err(window), None),
            },
        };
        let (old, expires_at_ms) = match seen {
            Some(seen) => (seen.counter(io.incoming()).ok_or(Failure::NotACounter)?, seen.expires_at_ms),
            None => (0, 0),
        };
        let value = old.checked_add(delta).ok_or(Failure::Overflow)?;
        let bytes = value.to_le_bytes();
        let record = Record { key: op.key, value: &bytes, expires_at_ms, flags: FLAG_COUNTER };
        let mut publication = Publication::new(io, op, &record, lease);
        let added = |publication: &Publication, slot: SlotIndex| Added {
            value,
            version: Version::of(lease.life),
            hint: publication.hint(op, slot),
        };
        match target {
            Ok(target) => {
                let link = Link::NextOther(publication.draft.locator);
                let slot = target.slot();
                if let Superseded::Won = publication.replace(io, table, target, link, duties).await? {
                    return Ok(added(&publication, slot));
                }
                // Ends: each time another operation on the key took effect.
                op.check_deadline(io)?;
            }
            Err(window) => {
                if insertions == INSERT_ROUNDS {
                    return Err(Failure::Contended);
                }
                let draft = &mut publication.draft;
                if let Inserted::Committed(slot) = insert(io, table, op, &window, draft, insertions).await? {
                    duties.published.push(lease.life);
                    return Ok(added(&publication, slot));
                }
                insertions += 1;
            }
        }
    }
}
