//! PUT, put-if-absent and compare-exchange: one round trip with a hint, three to insert.

use super::insert::{Inserted, insert};
use super::lookup::{Found, Lookup, lookup};
use super::supersede::{Draft, Superseded, supersede};
use super::{Failure, Lease, Op, Table};
use crate::duties::{Duties, Forward};
use crate::hints::Hint;
use crate::io::Io;
use farside_protocol::mutation::{self, Mutation};
use farside_protocol::wire::Condition;
use farside_protocol::{Death, Life, Link, Locator, Record, SlotIndex, SlotWord, Version};

/// How often an insertion that others kill is begun anew before the server is asked.
pub(super) const INSERT_ROUNDS: u32 = 8;

/// What a PUT came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// The record was published; its lease is spent.
    Stored {
        /// Its version.
        version: Version,
        /// How to find it.
        hint: Hint,
    },
    /// Another blind write took effect meanwhile and this one is ordered just before it. Nothing was published.
    Absorbed,
    /// The condition does not hold.
    Mismatch {
        /// The key's current version; `None`: absent.
        current: Option<Version>,
    },
}

impl Put {
    /// Whether the lease went into a publication, or may have: then it must not be used again.
    pub fn spends_lease(outcome: &Result<Self, Failure>) -> bool {
        matches!(outcome, Ok(Self::Stored { .. }) | Err(Failure::Indeterminate))
    }
}

/// Puts `record` into the block of `lease` and publishes it under `condition`.
/// See [`Put::spends_lease`] for what becomes of the lease.
#[expect(clippy::too_many_arguments, reason = "each is one part of the operation, and all are borrowed")]
pub async fn put<I: Io>(
    io: &mut I,
    table: &Table,
    op: &Op<'_>,
    record: &Record<'_>,
    condition: Condition,
    lease: Lease,
    hint: Option<Hint>,
    duties: &mut Duties,
) -> Result<Put, Failure> {
    let mut publication = Publication::new(io, op, record, lease);
    let link = publication.link(condition);
    if let Some(hint) = hint.filter(|hint| table.admits(op.began_ns, hint) && serves(condition, hint)) {
        match publication.replace(io, table, Target::hinted(op, &hint), link, duties).await? {
            Superseded::Won => return Ok(publication.stored(op, hint.slot)),
            // The hint was old. What the CAS returned is not verified, so nothing may be concluded from it.
            Superseded::Beaten(link)
                if mutation::is(Mutation::AbsorbUnverified) && absorbs(condition, link) =>
            {
                return Ok(Put::Absorbed);
            }
            Superseded::Beaten(_) => {}
        }
    }
    let mut insertions = 0;
    loop {
        match lookup(io, table, op).await? {
            Lookup::Found(found) => {
                let expired = found.expired;
                match condition {
                    Condition::Absent if !expired => {
                        return Ok(Put::Mismatch { current: Some(found.seen.version) });
                    }
                    Condition::Version(_) if expired => return Ok(Put::Mismatch { current: None }),
                    Condition::Version(version) if version != found.seen.version => {
                        return Ok(Put::Mismatch { current: Some(found.seen.version) });
                    }
                    _ => {}
                }
                let target = Target::found(&found);
                match publication.replace(io, table, target, link, duties).await? {
                    Superseded::Won => return Ok(publication.stored(op, found.slot)),
                    // Between this operation's verified read and its CAS another blind write took effect: this one
                    // is ordered just before it. Void past the quarantine, when the word may be of another life.
                    Superseded::Beaten(link)
                        if absorbs(condition, link) && !expired && table.is_fresh(io, found.since_ns) =>
                    {
                        return Ok(Put::Absorbed);
                    }
                    // Ends: each time another operation on the key took effect.
                    Superseded::Beaten(_) => op.check_deadline(io)?,
                }
            }
            Lookup::Absent { dead, .. } if matches!(condition, Condition::Version(_)) => {
                dead.into_iter().for_each(|forward| duties.push_forward(forward));
                return Ok(Put::Mismatch { current: None });
            }
            Lookup::Absent { dead: Some(forward), .. } => {
                // A dead word is never replaced in place: first its slot is emptied.
                super::bring_forward(io, table, forward, op.deadline_ns, duties).await?;
            }
            Lookup::Absent { window, dead: None } => {
                if insertions == INSERT_ROUNDS {
                    return Err(Failure::Contended);
                }
                if let Inserted::Committed(slot) =
                    insert(io, table, op, &window, &mut publication.draft, insertions).await?
                {
                    duties.published.push(lease.life);
                    return Ok(publication.stored(op, slot));
                }
                insertions += 1;
            }
        }
    }
}

/// Whether a hint alone is enough to try: the condition must follow from the record's being current.
fn serves(condition: Condition, hint: &Hint) -> bool {
    match condition {
        Condition::Always => true,
        Condition::Absent => false,
        // An expired record would have to be answered with "mismatch".
        Condition::Version(version) => !hint.expires && version == Version::of(hint.life()),
    }
}

/// Whether a blind PUT may count itself as ordered just before what set `link`: another blind write, which took no
/// notice of what it replaced.
fn absorbs(condition: Condition, link: Option<Link>) -> bool {
    let blind = matches!(link, Some(Link::NextBlind(_) | Link::Dead(Death::Blind)))
        || (mutation::is(Mutation::AbsorbNextToCompareExchange) && matches!(link, Some(Link::NextOther(_))));
    condition == Condition::Always && blind
}

/// The record that a publication supersedes.
pub(super) struct Target {
    locator: Locator,
    life: Life,
    forward: Forward,
}

impl Target {
    /// A record known by a hint: if its slot lags, whoever makes the forward will find out.
    pub(super) fn hinted(op: &Op<'_>, hint: &Hint) -> Self {
        let word = SlotWord::committed(hint.locator);
        let forward = Forward::from(hint.slot, word, op.hash, op.began_ns);
        Self { locator: hint.locator, life: hint.life(), forward }
    }

    /// The slot from which its chain starts.
    pub(super) fn slot(&self) -> SlotIndex {
        self.forward.slot
    }

    /// A record that was looked up.
    pub(super) fn found(found: &Found) -> Self {
        Self { locator: found.seen.locator, life: found.seen.life(), forward: found.forward.clone() }
    }
}

/// A record on its way to being published.
pub(super) struct Publication {
    pub(super) draft: Draft,
    expires: bool,
}

impl Publication {
    /// Encodes `record` for `lease` into [`Io::outgoing`].
    pub(super) fn new<I: Io>(io: &mut I, op: &Op<'_>, record: &Record<'_>, lease: Lease) -> Self {
        let len = record.len();
        let outgoing = io.outgoing(len.next_multiple_of(8));
        outgoing[len..len.next_multiple_of(8)].fill(0);
        let Lease { life, class } = lease;
        let locator = record.encode(op.hash.fingerprint(), class, life, outgoing);
        let draft = Draft { locator, life, len, written: false };
        Self { draft, expires: record.expires_at_ms != 0 }
    }

    fn link(&self, condition: Condition) -> Link {
        if condition == Condition::Always {
            Link::NextBlind(self.draft.locator)
        } else {
            Link::NextOther(self.draft.locator)
        }
    }

    /// Supersedes `target` by this record, and notes what is owed afterwards.
    pub(super) async fn replace<I: Io>(
        &mut self,
        io: &mut I,
        table: &Table,
        target: Target,
        link: Link,
        duties: &mut Duties,
    ) -> Result<Superseded, Failure> {
        let outcome = supersede(io, table, target.locator, target.life, link, Some(&mut self.draft)).await?;
        if matches!(outcome, Superseded::Won) {
            duties.published.push(self.draft.life);
            let mut forward = target.forward;
            forward.lead_past(target.locator, target.life, Some(self.draft.locator));
            if mutation::is(Mutation::RetireAtTheLink) {
                duties.retired.extend(forward.skipped.iter().copied());
            }
            duties.push_forward(forward);
        }
        Ok(outcome)
    }

    /// The answer after the record was published from `slot`.
    pub(super) fn stored(&self, op: &Op<'_>, slot: SlotIndex) -> Put {
        Put::Stored { version: Version::of(self.draft.life), hint: self.hint(op, slot) }
    }

    /// How to find the record. It was seen later than the operation began, which costs no look at the clock.
    pub(super) fn hint(&self, op: &Op<'_>, slot: SlotIndex) -> Hint {
        Hint {
            locator: self.draft.locator,
            count: self.draft.life.count,
            len: self.draft.len as u32,
            slot,
            expires: self.expires,
            seen_ns: op.began_ns,
        }
    }
}
