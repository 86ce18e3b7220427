//! INSERT of a key that a lookup found absent: `[WRITE record, CAS empty -> tentative, READ window]`, then
//! `CAS tentative -> committed`.
//!
//! Why no key becomes live twice: of two that both commit, whoever placed its tentative word later sees the other's
//! word in its second READ, which executes after its CAS is visible. If that word is committed it withdraws; if it
//! is tentative it has killed it before it commits itself, and the other's commit fails.

use super::chain::{End, Owner, compare_swap, read_record, walk};
use super::lookup::{Window, read_window};
use super::supersede::Draft;
use super::{Failure, Op, Table};
use crate::duties::Forward;
use crate::io::{Io, Lost, Step};
use farside_protocol::limits::{SLOTS_PER_LINE, WINDOW_LEN};
use farside_protocol::mutation::{self, Mutation};
use farside_protocol::{Link, SlotIndex, SlotWord};

/// How often a placed tentative word's window is read again before it is withdrawn.
const CHECK_ROUNDS: u32 = 16;

/// How often a withdrawal whose completion was lost is repeated, each time after a fence. If none comes through, the
/// session's end clears the word.
const WITHDRAW_TRIES: u32 = 3;

/// How often others' tentative words in a full window are waited for before one is killed.
const FULL_PATIENCE: u32 = 2;

/// What an attempt to insert came to.
pub(super) enum Inserted {
    /// The key is live from this slot.
    Committed(SlotIndex),
    /// Nothing happened; the key must be looked up again.
    Again,
}

/// Tries to insert `draft` into an empty slot of `window`. `attempt` counts the tries of the operation.
pub(super) async fn insert<I: Io>(
    io: &mut I,
    table: &Table,
    op: &Op<'_>,
    window: &Window,
    draft: &mut Draft,
    attempt: u32,
) -> Result<Inserted, Failure> {
    if attempt > 0 {
        io.pause(attempt).await;
    } else if window.has_tentative(op.hash.fingerprint()) {
        // Probably the same key: let it commit, then it is an update.
        io.pause(0).await;
    }
    let Some(slot) = choose_slot(window, draft) else {
        return make_room(io, window, attempt).await;
    };
    let tentative = SlotWord::tentative(draft.locator);
    // What the check concludes rests on the window READ: its age counts from before that is posted (T2).
    let mut since_ns = io.now();
    let Some(window) = place(io, table, op, slot, tentative, draft).await? else {
        return Ok(Inserted::Again);
    };
    let mut window = Ok(window);
    let mut suspect = None;
    for round in 0..CHECK_ROUNDS {
        let checked = match &window {
            Ok(window) if window.word(slot) != tentative => return Ok(Inserted::Again),
            Ok(window) => check(io, table, op, window, slot, round, &mut suspect).await,
            Err(Lost) => Err(Lost),
        };
        match checked {
            Ok(Check::Alone) if table.is_fresh(io, since_ns) => return commit(io, table, slot, draft).await,
            Ok(Check::LiveElsewhere) => {
                withdraw(io, slot, tentative).await?;
                return Ok(Inserted::Again);
            }
            Ok(Check::Alone | Check::ReadAgain) | Err(Lost) => {}
        }
        if let Err(failure) = op.check_deadline(io) {
            withdraw(io, slot, tentative).await?;
            return Err(failure);
        }
        io.pause(round).await;
        since_ns = io.now();
        window = read_window(io, table, op.hash).await;
    }
    withdraw(io, slot, tentative).await?;
    Err(Failure::Contended)
}

/// The first empty slot of the least-loaded line, from a start that differs between inserters.
fn choose_slot(window: &Window, draft: &Draft) -> Option<SlotIndex> {
    let lines = window.words().as_chunks::<SLOTS_PER_LINE>().0;
    let load = |line: &[SlotWord]| line.iter().filter(|word| **word != SlotWord::EMPTY).count();
    let (number, line) = lines.iter().enumerate().min_by_key(|(_, line)| load(*line))?;
    let start = draft.life.block.granule() as usize;
    (0..SLOTS_PER_LINE)
        .map(|i| (start + i) % SLOTS_PER_LINE)
        .find(|i| line[*i] == SlotWord::EMPTY)
        .map(|i| window.slot(number * SLOTS_PER_LINE + i))
}

/// A window without an empty slot: full only if all its words were committed in one READ.
async fn make_room<I: Io>(io: &mut I, window: &Window, attempt: u32) -> Result<Inserted, Failure> {
    let Some((slot, word)) = window.any_tentative() else { return Err(Failure::Full) };
    io.pause(attempt).await;
    if attempt >= FULL_PATIENCE {
        // Killing a tentative word is always safe: its inserter finds its commit failed and begins anew.
        let _ = compare_swap(io, slot.offset(), word.to_bits(), SlotWord::EMPTY.to_bits()).await;
    }
    Ok(Inserted::Again)
}

/// Places the tentative word and brings the window as it is after that. `None`: the slot was taken.
async fn place<I: Io>(
    io: &mut I,
    table: &Table,
    op: &Op<'_>,
    slot: SlotIndex,
    tentative: SlotWord,
    draft: &mut Draft,
) -> Result<Option<Window>, Failure> {
    let first = Window::first_slot(table, op.hash);
    let mut chain = draft.begin_chain();
    let cas = chain.len();
    chain.push(Step::compare_swap(slot.offset(), SlotWord::EMPTY.to_bits(), tentative.to_bits()));
    chain.push(Step::read(first.offset(), WINDOW_LEN, 0));
    io.reserve_incoming(WINDOW_LEN);
    match io.run(&mut chain).await {
        Ok(()) => {
            draft.written = true;
            Ok(chain[cas].outcome().is_ok().then(|| Window::decode(first, io.incoming())))
        }
        Err(Lost) => {
            // After the fence the slot tells: with the word in it the insertion goes on, without it nothing
            // happened. The record is written again, for the WRITE may be lost too.
            draft.written = false;
            io.fence().await.map_err(|Lost| Failure::Indeterminate)?;
            let window = read_window(io, table, op.hash).await.map_err(|Lost| Failure::Indeterminate)?;
            if window.word(slot) == tentative {
                withdraw(io, slot, tentative).await?;
            }
            Ok(None)
        }
    }
}

enum Check {
    /// No other slot of the window leads to the key, nor can one any more.
    Alone,
    LiveElsewhere,
    ReadAgain,
}

/// Looks through the window as it is with the own tentative word in it.
async fn check<I: Io>(
    io: &mut I,
    table: &Table,
    op: &Op<'_>,
    window: &Window,
    own: SlotIndex,
    round: u32,
    suspect: &mut Option<(SlotIndex, SlotWord)>,
) -> Result<Check, Lost> {
    if mutation::is(Mutation::NoCheck) {
        return Ok(Check::Alone);
    }
    let fingerprint = op.hash.fingerprint();
    for (slot, word) in window.slots().filter(|(slot, _)| *slot != own) {
        if word.is_committed_for(fingerprint) {
            let mut forward = Forward::from(slot, word, op.hash, 0);
            match walk(io, table, Owner::of(op), &mut forward, |_| ()).await? {
                // Expired or not: an END makes the chain live.
                End::Current(_) if !mutation::is(Mutation::InsertBesideLive) => {
                    return Ok(Check::LiveElsewhere);
                }
                End::Unsettled(_) | End::Overrun => return Ok(Check::ReadAgain),
                End::Current(_) | End::Dead | End::OtherKey => {}
            }
        } else if word.is_tentative_for(fingerprint) && !mutation::is(Mutation::NoKill) {
            // Read only to learn its key: a record behind a tentative word may be of any life.
            let rival = read_record(io, table, word.locator()).await?;
            match rival.map(|seen| Owner::of(op).owns(seen.key(io.incoming()))) {
                Some(false) => continue,
                Some(true) => {
                    // The lower slot goes first, once: two that kill each other would both begin anew.
                    if slot < own && round == 0 {
                        return Ok(Check::ReadAgain);
                    }
                }
                // Unreadable twice under the same word: its inserter is gone, or its block is of another life.
                None => {
                    if *suspect != Some((slot, word)) {
                        *suspect = Some((slot, word));
                        return Ok(Check::ReadAgain);
                    }
                }
            }
            let killed = compare_swap(io, slot.offset(), word.to_bits(), SlotWord::EMPTY.to_bits()).await?;
            if killed.is_err() {
                return Ok(Check::ReadAgain);
            }
        }
    }
    Ok(Check::Alone)
}

/// **The linearization point of INSERT is the compare-and-swap in here.** It fails only if the word was killed.
async fn commit<I: Io>(
    io: &mut I,
    table: &Table,
    slot: SlotIndex,
    draft: &Draft,
) -> Result<Inserted, Failure> {
    let (tentative, committed) = (SlotWord::tentative(draft.locator), SlotWord::committed(draft.locator));
    match compare_swap(io, slot.offset(), tentative.to_bits(), committed.to_bits()).await {
        Ok(Ok(())) => return Ok(Inserted::Committed(slot)),
        Ok(Err(_)) => return Ok(Inserted::Again),
        Err(Lost) => io.fence().await.map_err(|Lost| Failure::Indeterminate)?,
    }
    // The slot is read before the record: had the word been committed and moved on, the record's link, read later,
    // would not be END any more.
    let Ok(()) = super::chain::read_bytes(io, slot.offset(), 8).await else {
        return Err(Failure::Indeterminate);
    };
    let word = u64::from_le_bytes(io.incoming()[..8].try_into().expect("eight bytes"));
    if word == committed.to_bits() {
        return Ok(Inserted::Committed(slot));
    }
    if word == tentative.to_bits() {
        withdraw(io, slot, tentative).await?;
        return Ok(Inserted::Again);
    }
    match read_record(io, table, draft.locator).await {
        Ok(Some(seen)) if seen.life() == draft.life && matches!(seen.link, Link::End(_)) => {
            Ok(Inserted::Again)
        }
        Ok(Some(seen)) if seen.life() == draft.life => Ok(Inserted::Committed(slot)),
        _ => Err(Failure::Indeterminate),
    }
}

/// Takes the own tentative word back. After it, killed or withdrawn, nothing leads to the draft.
async fn withdraw<I: Io>(io: &mut I, slot: SlotIndex, tentative: SlotWord) -> Result<(), Failure> {
    for _ in 0..WITHDRAW_TRIES {
        match compare_swap(io, slot.offset(), tentative.to_bits(), SlotWord::EMPTY.to_bits()).await {
            Ok(_) => return Ok(()),
            Err(Lost) => io.fence().await.map_err(|Lost| Failure::Indeterminate)?,
        }
    }
    Err(Failure::Indeterminate)
}
