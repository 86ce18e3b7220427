//! DELETE: one round trip with a hint.

use super::lookup::{Lookup, lookup};
use super::supersede::{Superseded, supersede};
use super::{Failure, Op, Table};
use crate::duties::{Duties, Forward};
use crate::hints::Hint;
use crate::io::Io;
use farside_protocol::mutation::{self, Mutation};
use farside_protocol::wire::Condition;
use farside_protocol::{Death, Life, Link, Locator, SlotWord, Version};

/// What a DELETE came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delete {
    /// This operation deleted the key.
    Deleted,
    /// There was nothing to delete.
    Absent,
    /// The key does not have the version on which the deletion depends.
    Mismatch {
        /// The key's current version; `None`: absent.
        current: Option<Version>,
    },
}

/// Deletes a key, unconditionally or if it has a certain version.
///
/// # Panics
/// On [`Condition::Absent`], which makes no sense here and which no decoder lets through.
pub async fn delete<I: Io>(
    io: &mut I,
    table: &Table,
    op: &Op<'_>,
    condition: Condition,
    hint: Option<Hint>,
    duties: &mut Duties,
) -> Result<Delete, Failure> {
    let (death, wanted) = match condition {
        Condition::Always => (Death::Blind, None),
        Condition::Version(version) => (Death::Conditional, Some(version)),
        Condition::Absent => panic!("a DELETE cannot depend on the key's absence"),
    };
    // An expired record must be answered with "absent", so a hint to one that can expire is not enough.
    let serves = |hint: &Hint| {
        let is_wanted = wanted.is_none_or(|version| version == Version::of(hint.life()));
        table.admits(op.began_ns, hint) && !hint.expires && is_wanted
    };
    let hint = hint.filter(serves);
    if let Some(hint) = hint {
        let forward = Forward::from(hint.slot, SlotWord::committed(hint.locator), op.hash, op.began_ns);
        if kill(io, table, hint.locator, hint.life(), death, forward, duties).await? {
            return Ok(Delete::Deleted);
        }
    }
    loop {
        match lookup(io, table, op).await? {
            Lookup::Found(found) if found.expired => return Ok(missing(wanted)),
            Lookup::Found(found) => {
                if wanted.is_some_and(|version| version != found.seen.version) {
                    return Ok(Delete::Mismatch { current: Some(found.seen.version) });
                }
                let (locator, life) = (found.seen.locator, found.seen.life());
                if kill(io, table, locator, life, death, found.forward, duties).await? {
                    return Ok(Delete::Deleted);
                }
                // Ends: each time another operation on the key took effect.
                op.check_deadline(io)?;
            }
            Lookup::Absent { dead, .. } => {
                dead.into_iter().for_each(|forward| duties.push_forward(forward));
                return Ok(missing(wanted));
            }
        }
    }
}

fn missing(wanted: Option<Version>) -> Delete {
    if wanted.is_some() { Delete::Mismatch { current: None } } else { Delete::Absent }
}

/// Sets the link of the record at `locator` to DEAD. Only the winner of that compare-and-swap has deleted the key.
async fn kill<I: Io>(
    io: &mut I,
    table: &Table,
    locator: Locator,
    life: Life,
    death: Death,
    mut forward: Forward,
    duties: &mut Duties,
) -> Result<bool, Failure> {
    if mutation::is(Mutation::DeleteAtTheSlot) {
        let (at, word) = (forward.slot.offset(), forward.expect.to_bits());
        let outcome = super::chain::compare_swap(io, at, word, SlotWord::EMPTY.to_bits()).await;
        return Ok(outcome == Ok(Ok(())));
    }
    match supersede(io, table, locator, life, Link::Dead(death), None).await? {
        Superseded::Won => {
            forward.lead_past(locator, life, None);
            duties.push_forward(forward);
            Ok(true)
        }
        Superseded::Beaten(_) => Ok(mutation::is(Mutation::DeleteAbsorbed)),
    }
}
