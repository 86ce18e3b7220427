//! Repairing the index of a shard whose server ended in the middle of anything, before anybody else reaches it again.
//!
//! What was acknowledged is reachable from a committed slot and stays. Insertions that were not decided promised nothing to
//! anybody and are dropped; slots that lag are brought forward; what does not verify is dropped. Each repair is one word,
//! and done twice is done once: a repair that is cut off is simply begun anew.

use super::Table;
use super::chain::{Seen, compare_swap, read_bytes, read_record};
use super::lookup::Window;
use crate::io::{Io, Lost};
use farside_protocol::limits::{GRANULE, SLOTS_PER_WINDOW};
use farside_protocol::mutation::{self, Mutation};
use farside_protocol::{Class, KeyHash, Life, Link, SlotIndex, SlotState, SlotWord};

/// Slots whose words one READ brings.
const RUN: u32 = 512;

/// What a repair found.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Repaired {
    /// Keys that are there.
    pub keys: u64,
    /// Of these, keys whose slot lagged behind.
    pub lagging: u64,
    /// Slots of keys that were deleted.
    pub dead: u64,
    /// Insertions that were not decided.
    pub tentative: u64,
    /// Slots whose record is damaged: their keys are lost.
    pub damaged: u64,
}

/// Repairs the index. Each record that is reachable is told to `keep`, which answers whether its block can hold it.
pub async fn repair<I: Io>(
    io: &mut I,
    table: &Table,
    mut keep: impl FnMut(Life, Class) -> bool,
) -> Result<Repaired, Lost> {
    let mut repaired = Repaired::default();
    let mut words = [SlotWord::EMPTY; RUN as usize];
    for first in (0..table.geometry.slots()).step_by(RUN as usize) {
        let words = &mut words[..RUN.min(table.geometry.slots() - first) as usize];
        read_bytes(io, SlotIndex(first).offset(), words.len() * 8).await?;
        for (word, bytes) in words.iter_mut().zip(io.incoming().as_chunks::<8>().0) {
            *word = SlotWord::from_bits(u64::from_le_bytes(*bytes));
        }
        let taken = words.iter().enumerate().filter(|(_, word)| **word != SlotWord::EMPTY);
        for (number, &word) in taken {
            let slot = SlotIndex(first + number as u32);
            let right = match judge(io, table, slot, word).await? {
                Verdict::Live(seen) if keep(seen.life(), seen.locator.class().expect("it verified")) => {
                    repaired.keys += 1;
                    repaired.lagging += u64::from(seen.locator != word.locator());
                    SlotWord::committed(seen.locator)
                }
                Verdict::Live(_) | Verdict::Damaged => {
                    repaired.damaged += 1;
                    SlotWord::EMPTY
                }
                Verdict::Dead => {
                    repaired.dead += 1;
                    SlotWord::EMPTY
                }
                Verdict::Undecided => {
                    repaired.tentative += 1;
                    SlotWord::EMPTY
                }
            };
            if right != word {
                // It succeeds: nobody else changes the word.
                let _ = compare_swap(io, slot.offset(), word.to_bits(), right.to_bits()).await?;
            }
        }
    }
    Ok(repaired)
}

enum Verdict {
    Live(Seen),
    Dead,
    Undecided,
    Damaged,
}

/// What is to become of a slot: follows the chain that starts at its `word` to the end.
async fn judge<I: Io>(io: &mut I, table: &Table, slot: SlotIndex, word: SlotWord) -> Result<Verdict, Lost> {
    match word.state() {
        SlotState::Committed => {}
        SlotState::Tentative if mutation::is(Mutation::RecoverTentative) => {}
        SlotState::Tentative => return Ok(Verdict::Undecided),
        SlotState::Empty | SlotState::Growing => return Ok(Verdict::Damaged),
    }
    let (mut at, mut first) = (word.locator(), None);
    // No chain is longer: each block is in it once. A damaged one may lead in a circle.
    for _ in 0..table.geometry.region_len() / GRANULE {
        let Some(seen) = read_record(io, table, at).await? else { return Ok(Verdict::Damaged) };
        let hash = KeyHash::of(seen.key(io.incoming()), table.seed);
        if *first.get_or_insert(hash) != hash || !belongs(table, hash, slot, word) {
            return Ok(Verdict::Damaged);
        }
        match seen.link {
            Link::NextBlind(next) | Link::NextOther(next) if !mutation::is(Mutation::RecoverAtTheSlot) => {
                at = next;
            }
            Link::Dead(_) => return Ok(Verdict::Dead),
            _ => return Ok(Verdict::Live(seen)),
        }
    }
    Ok(Verdict::Damaged)
}

/// Whether a key with this hash may be in `slot`, under `word`.
fn belongs(table: &Table, hash: KeyHash, slot: SlotIndex, word: SlotWord) -> bool {
    let first = Window::first_slot(table, hash).0;
    (first..first + SLOTS_PER_WINDOW as u32).contains(&slot.0)
        && word.locator().fingerprint() == hash.fingerprint()
}
