//! Bringing a slot forward to the end of its chain, off the caller's path.
//!
//! Whoever wins the compare-and-swap past a record retires that record, and no one else. Losing it does not end the
//! duty: the loser goes on from what it finds, so a writer that died never leaves a chain growing.

use super::chain::{End, Owner, compare_swap, read_bytes, read_record, walk};
use super::lookup::read_window;
use super::{Failure, Table};
use crate::duties::{Duties, Forward};
use crate::io::{Chain, Io, Lost, Step};
use farside_protocol::mutation::{self, Mutation};
use farside_protocol::{KeyHash, Link, Locator, SlotState, SlotWord};

/// How often a slot that keeps changing is helped: each change was another's forward or a new operation, whose own
/// duty the rest is.
const HELP_ROUNDS: u32 = 8;

/// Makes `forward`, or what has become due in its place. Adds the records it moved past to `duties.retired`.
pub async fn bring_forward<I: Io>(
    io: &mut I,
    table: &Table,
    forward: Forward,
    deadline_ns: u64,
    duties: &mut Duties,
) -> Result<(), Failure> {
    // Rule T4: an older word might be in its slot again, for another life of its block.
    if !forward.is_idle() && table.is_recent(io, forward.evidence_ns) {
        match jump(io, table, &forward, duties).await {
            Ok(Jump::Settled) => return Ok(()),
            Ok(Jump::Unsettled) => {}
            // Won or not, nobody knows: what it skipped is left to the server's sweep, the slot is helped below.
            Err(Lost) => io.fence().await.map_err(|Lost| Failure::Deadline)?,
        }
    }
    help(io, table, &forward, deadline_ns, duties).await
}

enum Jump {
    /// The slot leads to a current record, or is empty.
    Settled,
    Unsettled,
}

/// `[CAS slot, READ the target's link]`.
async fn jump<I: Io>(
    io: &mut I,
    table: &Table,
    forward: &Forward,
    duties: &mut Duties,
) -> Result<Jump, Lost> {
    let mut chain = Chain::new();
    chain.push(Step::compare_swap(
        forward.slot.offset(),
        forward.expect.to_bits(),
        forward.target().to_bits(),
    ));
    let target = forward.to.and_then(|to| table.geometry.extent(to));
    if let Some((at, _)) = target {
        io.reserve_incoming(8);
        chain.push(Step::read(at, 8, 0));
    }
    io.run(&mut chain).await?;
    let won = chain[0].outcome().is_ok();
    if (won && !mutation::is(Mutation::ForwardWithoutRetire)) || mutation::is(Mutation::RetireWithoutWinning)
    {
        duties.retired.extend(forward.skipped.iter().copied());
    }
    let settled = match target {
        None => true,
        // Only whether the duty ends depends on this word: were it torn, another would bring the slot forward.
        Some(_) => matches!(
            io.incoming()[..8].try_into().map(u64::from_le_bytes).map(Link::from_bits),
            Ok(Some(Link::End(_)))
        ),
    };
    Ok(if won && settled { Jump::Settled } else { Jump::Unsettled })
}

/// Goes on from whatever is in the slot now; if that is no chain, from the key's chain elsewhere in its window.
async fn help<I: Io>(
    io: &mut I,
    table: &Table,
    lost: &Forward,
    deadline_ns: u64,
    duties: &mut Duties,
) -> Result<(), Failure> {
    let mut slot = Some(lost.slot);
    for attempt in 0..HELP_ROUNDS {
        if io.now() >= deadline_ns {
            return Err(Failure::Deadline);
        }
        let since_ns = io.now();
        match help_once(io, table, lost.hash, slot, since_ns, duties).await {
            Ok(Help::Settled) => return Ok(()),
            Ok(Help::Elsewhere) if slot.is_none() => return Ok(()),
            Ok(Help::Elsewhere) => slot = None,
            Ok(Help::Again) | Err(Lost) => io.pause(attempt).await,
        }
    }
    Ok(())
}

pub(super) enum Help {
    Settled,
    /// The slot leads to no chain of the key.
    Elsewhere,
    Again,
}

/// Helps the key's chain at `slot`, or, if that is `None`, wherever in its window it is.
async fn help_once<I: Io>(
    io: &mut I,
    table: &Table,
    hash: KeyHash,
    slot: Option<farside_protocol::SlotIndex>,
    since_ns: u64,
    duties: &mut Duties,
) -> Result<Help, Lost> {
    let Some(slot) = slot else {
        let window = read_window(io, table, hash).await?;
        for (slot, word) in window.slots().filter(|(_, word)| word.is_committed_for(hash.fingerprint())) {
            let mut forward = Forward::from(slot, word, hash, since_ns);
            match settle(io, table, hash, &mut forward, duties).await? {
                Help::Elsewhere => {}
                outcome => return Ok(outcome),
            }
        }
        return Ok(Help::Elsewhere);
    };
    read_bytes(io, slot.offset(), 8).await?;
    let word = SlotWord::from_bits(u64::from_le_bytes(io.incoming()[..8].try_into().expect("eight bytes")));
    if word.state() != SlotState::Committed {
        return Ok(Help::Elsewhere);
    }
    settle(io, table, hash, &mut Forward::from(slot, word, hash, since_ns), duties).await
}

/// Follows the chain of a slot that was just read and moves the slot to its end.
pub(super) async fn settle<I: Io>(
    io: &mut I,
    table: &Table,
    hash: KeyHash,
    forward: &mut Forward,
    duties: &mut Duties,
) -> Result<Help, Lost> {
    match walk(io, table, Owner::Hash(hash, table.seed), forward, |_| ()).await? {
        End::Current(_) if forward.is_idle() => return Ok(Help::Settled),
        End::Current(_) | End::Dead => {}
        End::OtherKey => return Ok(Help::Elsewhere),
        End::Unsettled(_) | End::Overrun => return Ok(Help::Again),
    }
    // A link obtained by READ may be torn; the record it leads to was verified in the walk, unless the forward
    // ends before the chain does: then that record is read for it.
    let complete = move_slot(io, table, forward, duties).await?;
    Ok(if complete { Help::Settled } else { Help::Again })
}

/// The compare-and-swap on the slot; the winner retires what it skipped. `true` if it was won and led to the end.
async fn move_slot<I: Io>(
    io: &mut I,
    table: &Table,
    forward: &Forward,
    duties: &mut Duties,
) -> Result<bool, Lost> {
    if !table.is_fresh(io, forward.evidence_ns) {
        return Ok(false);
    }
    let (expect, target) = (forward.expect.to_bits(), forward.target().to_bits());
    if compare_swap(io, forward.slot.offset(), expect, target).await?.is_err() {
        return Ok(false);
    }
    duties.retired.extend(forward.skipped.iter().copied());
    match forward.to {
        None => Ok(true),
        Some(to) => Ok(is_current(io, table, to).await?),
    }
}

async fn is_current<I: Io>(io: &mut I, table: &Table, locator: Locator) -> Result<bool, Lost> {
    let seen = read_record(io, table, locator).await?;
    Ok(seen.is_some_and(|seen| matches!(seen.link, Link::End(_))))
}
