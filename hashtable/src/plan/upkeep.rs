//! What the server does for the table: tending lines in its sweep, and finding out what a dead client left behind.

use super::chain::{End, Owner, compare_swap, read_bytes, read_record, walk};
use super::forward::{Help, settle};
use super::lookup::{Suspect, read_window};
use super::supersede::{Superseded, supersede};
use super::{Failure, Op, Table};
use crate::duties::{Duties, Forward};
use crate::io::{Io, Lost};
use farside_protocol::limits::SLOTS_PER_LINE;
use farside_protocol::{
    Class, Death, Key, KeyHash, Life, Link, Locator, RecordView, SlotIndex, SlotState, SlotWord, record,
};

/// How often a slot that keeps changing is looked at before it is left to the next sweep.
const SLOT_ROUNDS: u32 = 8;

/// What was found in the slots of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Live keys.
    pub keys: u32,
    /// Keys deleted because they had expired for longer than the grace.
    pub expired: u32,
    /// When the first of the keys that are left expires, milliseconds of the Unix epoch; `None`: none of them does.
    pub expires_first_ms: Option<u64>,
    /// Slots brought forward.
    pub forwarded: u32,
    /// Slots emptied because their record is damaged: the key is lost.
    pub damaged: u32,
    /// Slots that changed so often that they were left. Then not every reachable record was visited, and the
    /// visits of this sweep must not be taken for a proof that any record is unreachable.
    pub unsettled: u32,
}

/// Tends the line whose first slot is `first`: brings lagging slots forward, deletes records that expired more than
/// `grace_ms` ago, empties slots whose record is damaged. Tells `visit` the life of every record that is reachable
/// from the line.
pub async fn tend_line<I: Io>(
    io: &mut I,
    table: &Table,
    first: SlotIndex,
    grace_ms: u64,
    duties: &mut Duties,
    mut visit: impl FnMut(Life),
) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    // Counted as unsettled until it is not.
    for slot in (first.0..).take(SLOTS_PER_LINE).map(SlotIndex) {
        let mut suspect = Suspect::default();
        tally.unsettled += 1;
        for attempt in 0..SLOT_ROUNDS {
            match tend_slot(io, table, slot, grace_ms, duties, &mut visit, &mut suspect, &mut tally).await? {
                Tended::Again if !suspect.is_damaged() => {
                    io.pause(attempt).await;
                    continue;
                }
                Tended::Again => {
                    drop_damaged(io, slot, &suspect).await?;
                    tally.damaged += 1;
                }
                Tended::Done => {}
            }
            tally.unsettled -= 1;
            break;
        }
    }
    Ok(tally)
}

enum Tended {
    Done,
    Again,
}

#[expect(clippy::too_many_arguments, reason = "the sweep's state, borrowed piece by piece")]
async fn tend_slot<I: Io>(
    io: &mut I,
    table: &Table,
    slot: SlotIndex,
    grace_ms: u64,
    duties: &mut Duties,
    visit: &mut impl FnMut(Life),
    suspect: &mut Suspect,
    tally: &mut Tally,
) -> Result<Tended, Failure> {
    let since_ns = io.now();
    let word = read_slot(io, slot).await.map_err(unreachable_memory)?;
    if word.state() != SlotState::Committed {
        return Ok(Tended::Done);
    }
    let Some(seen) = read_record(io, table, word.locator()).await.map_err(unreachable_memory)? else {
        suspect.note(word, word.locator());
        return Ok(Tended::Again);
    };
    let hash = KeyHash::of(seen.key(io.incoming()), table.seed);
    let owner = Owner::Hash(hash, table.seed);
    let mut forward = Forward::from(slot, word, hash, since_ns);
    let end = walk(io, table, owner, &mut forward, &mut *visit).await.map_err(unreachable_memory)?;
    let expired = match end {
        End::Current(seen) if seen.expires_at_ms != 0 && seen.expires_at_ms + grace_ms <= io.wall_ms() => {
            // Linearized here as a delete by the server, after every client saw the key expire (skew < grace).
            let link = Link::Dead(Death::Expired);
            match supersede(io, table, seen.locator, seen.life(), link, None).await? {
                Superseded::Won => tally.expired += 1,
                Superseded::Beaten(_) => {}
            }
            true
        }
        End::Current(seen) => {
            tally.keys += 1;
            let expires_ms = (seen.expires_at_ms != 0).then_some(seen.expires_at_ms);
            tally.expires_first_ms = tally.expires_first_ms.into_iter().chain(expires_ms).min();
            false
        }
        End::Dead => false,
        End::OtherKey | End::Overrun => return Ok(Tended::Again),
        End::Unsettled(locator) => {
            suspect.note(word, locator);
            return Ok(Tended::Again);
        }
    };
    if !forward.is_idle() || expired {
        let mut again = Forward::from(slot, word, hash, io.now());
        match settle(io, table, hash, &mut again, duties).await.map_err(unreachable_memory)? {
            Help::Settled => tally.forwarded += u32::from(!expired),
            Help::Elsewhere | Help::Again => {}
        }
    }
    Ok(Tended::Done)
}

async fn read_slot<I: Io>(io: &mut I, slot: SlotIndex) -> Result<SlotWord, Lost> {
    read_bytes(io, slot.offset(), 8).await?;
    Ok(SlotWord::from_bits(u64::from_le_bytes(io.incoming()[..8].try_into().expect("eight bytes"))))
}

/// A damaged record is never served; its slot is emptied so that the key can be written again. Its block is found
/// by the sweep's marks.
async fn drop_damaged<I: Io>(io: &mut I, slot: SlotIndex, suspect: &Suspect) -> Result<(), Failure> {
    let Some(word) = suspect.word() else { return Ok(()) };
    compare_swap(io, slot.offset(), word.to_bits(), SlotWord::EMPTY.to_bits())
        .await
        .map(|_| ())
        .map_err(unreachable_memory)
}

fn unreachable_memory(_: Lost) -> Failure {
    Failure::Deadline
}

/// Whether something leads to a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// The record is in the chain of a committed slot.
    Reachable,
    /// Nothing leads to the block, nor can anything any more.
    Unreachable,
}

/// Finds out whether the block leased as `life` to a session that is fenced was published, clearing the tentative
/// word that may lead to it.
pub async fn reclaim<I: Io>(
    io: &mut I,
    table: &Table,
    life: Life,
    class: Class,
    deadline_ns: u64,
) -> Result<Reach, Failure> {
    read_bytes(io, life.block.offset(), class.size()).await.map_err(unreachable_memory)?;
    // A record is complete before the first word that leads to it is placed: one that does not verify was never
    // reachable.
    let Some(key) = record::peek_key(io.incoming()) else { return Ok(Reach::Unreachable) };
    let hash = KeyHash::of(key.as_bytes(), table.seed);
    let locator = Locator::new(hash.fingerprint(), class, life);
    match RecordView::verify(&io.incoming()[..class.size()], locator) {
        Some(view) if view.version.life() == life => {}
        _ => return Ok(Reach::Unreachable),
    }
    let key = alloc::vec::Vec::from(key.as_bytes());
    let op = Op { key: Key::new(&key).expect("it was a key"), hash, began_ns: io.now(), deadline_ns };
    for attempt in 0.. {
        op.check_deadline(io)?;
        let since_ns = io.now();
        if let Ok(Some(reach)) = reach_once(io, table, &op, life, locator, since_ns).await
            && table.is_fresh(io, since_ns)
        {
            return Ok(reach);
        }
        io.pause(attempt).await;
    }
    unreachable!("the attempts end by the deadline")
}

async fn reach_once<I: Io>(
    io: &mut I,
    table: &Table,
    op: &Op<'_>,
    life: Life,
    locator: Locator,
    since_ns: u64,
) -> Result<Option<Reach>, Lost> {
    let window = read_window(io, table, op.hash).await?;
    for (slot, word) in window.slots() {
        if word == SlotWord::tentative(locator) {
            let _ = compare_swap(io, slot.offset(), word.to_bits(), SlotWord::EMPTY.to_bits()).await?;
        } else if word.is_committed_for(op.hash.fingerprint()) {
            let mut found = false;
            let mut forward = Forward::from(slot, word, op.hash, since_ns);
            let end = walk(io, table, Owner::of(op), &mut forward, |seen| found |= seen == life).await?;
            if found {
                return Ok(Some(Reach::Reachable));
            }
            if let End::Unsettled(_) | End::Overrun = end {
                return Ok(None);
            }
        }
    }
    Ok(Some(Reach::Unreachable))
}
