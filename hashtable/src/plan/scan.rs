//! SCAN: the live keys of the index, run of slots after run, in no order but that of the slots.
//!
//! **What a scan of all slots returns.** A key that is live from the scan's beginning to its end is returned: it stays in
//! its slot until it is deleted, so it is found there whenever that is read. A key that was deleted before the scan
//! began is not, for each record is verified in this scan to be the current one. Keys that come or go meanwhile are
//! returned or not, and one that goes and comes again in another slot perhaps twice.

use super::chain::{End, Owner, Seen, read_bytes, read_record, walk};
use super::lookup::Suspect;
use super::{Failure, Table};
use crate::duties::Forward;
use crate::io::{Io, Lost};
use farside_protocol::{KeyHash, Link, SlotIndex, SlotState, SlotWord, Version};

/// A live key, as it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scanned<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// Its version.
    pub version: Version,
    /// When it expires, milliseconds of the Unix epoch; 0: never.
    pub expires_at_ms: u64,
    /// The record's flags.
    pub flags: u16,
}

/// Slots of a run that is passed by one plan.
pub const SCAN_RUN: usize = 128;

/// What became of a key that was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// It was taken, or is none of those that are looked for; the next one is welcome.
    GoOn,
    /// It was taken as the last one.
    Last,
    /// There is no room for it.
    Not,
}

/// Slots side by side whose words were read together.
#[derive(Clone, Copy, Debug)]
pub struct Run<'w> {
    first: SlotIndex,
    words: &'w [SlotWord],
    /// Before the READ was posted.
    since_ns: u64,
}

impl<'w> Run<'w> {
    /// Reads the words of the slots from `first` on, which the table has, to `words`: as many as that holds, or up to the
    /// last slot.
    pub async fn read<I: Io>(
        io: &mut I,
        table: &Table,
        first: SlotIndex,
        words: &'w mut [SlotWord],
    ) -> Result<Self, Failure> {
        let len = words.len().min((table.geometry.slots() - first.0) as usize);
        let (words, since_ns) = (&mut words[..len], io.now());
        read_slots(io, first, words).await?;
        Ok(Self { first, words, since_ns })
    }

    /// The slot behind its last.
    pub fn end(&self) -> SlotIndex {
        SlotIndex(self.first.0 + self.words.len() as u32)
    }

    /// Cuts it behind the slot that is the `keys`th to lead to a key, if it has so many.
    pub fn split_after(self, keys: usize) -> (Self, Self) {
        let mut leading =
            self.words.iter().enumerate().filter(|(_, word)| word.state() == SlotState::Committed);
        let len = leading.nth(keys - 1).map_or(self.words.len(), |(position, _)| position + 1);
        let (front, back) = self.words.split_at(len);
        (
            Self { words: front, ..self },
            Self { first: SlotIndex(self.first.0 + len as u32), words: back, ..self },
        )
    }

    /// Whether it has no slots.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Hands each live key to `take`, until that has enough. Returns the slot to go on from: that behind the last key taken,
    /// or that of the one for which there was no room, or at which the deadline passed, or the end. Ends by the deadline:
    /// each further look at a slot means that it moved on meanwhile, that is, that another operation took effect. A record
    /// that is damaged is passed over; the server's sweep drops it.
    ///
    /// Linearized key by key, when a record's link is read as END.
    pub async fn pass<I: Io>(
        self,
        io: &mut I,
        table: &Table,
        deadline_ns: u64,
        mut take: impl FnMut(Scanned<'_>) -> Taken,
    ) -> Result<SlotIndex, Failure> {
        for (slot, &word) in (self.first.0..).map(SlotIndex).zip(self.words) {
            let (mut word, mut since_ns, mut suspect) = (word, self.since_ns, Suspect::default());
            for attempt in 0.. {
                if let Ok(Found::Settled(found)) = look(io, table, slot, word, since_ns, &mut suspect).await
                    && table.is_fresh(io, since_ns)
                {
                    match found.map_or(Taken::GoOn, |seen| take(scanned(&seen, io.incoming()))) {
                        Taken::GoOn => break,
                        Taken::Last => return Ok(SlotIndex(slot.0 + 1)),
                        Taken::Not => return Ok(slot),
                    }
                }
                if suspect.is_damaged() {
                    break;
                }
                let again = if io.now() < deadline_ns {
                    io.pause(attempt).await;
                    since_ns = io.now();
                    read_slots(io, slot, core::slice::from_mut(&mut word)).await
                } else {
                    Err(Failure::Deadline)
                };
                match again {
                    Ok(()) => {}
                    // What was taken is not to be taken again.
                    Err(_) if slot > self.first => return Ok(slot),
                    Err(failure) => return Err(failure),
                }
            }
        }
        Ok(self.end())
    }
}

/// The words of the slots from `first` on.
async fn read_slots<I: Io>(io: &mut I, first: SlotIndex, into: &mut [SlotWord]) -> Result<(), Failure> {
    read_bytes(io, first.offset(), into.len() * 8).await.map_err(|Lost| Failure::Deadline)?;
    for (word, bytes) in into.iter_mut().zip(io.incoming().as_chunks::<8>().0) {
        *word = SlotWord::from_bits(u64::from_le_bytes(*bytes));
    }
    Ok(())
}

enum Found {
    Settled(Option<Seen>),
    Unsettled,
}

/// Follows the chain of `word`, which was read in `slot` at `since_ns` or later, to a key that is live.
async fn look<I: Io>(
    io: &mut I,
    table: &Table,
    slot: SlotIndex,
    word: SlotWord,
    since_ns: u64,
    suspect: &mut Suspect,
) -> Result<Found, Lost> {
    if word.state() != SlotState::Committed {
        return Ok(Found::Settled(None));
    }
    let wall_ms = io.wall_ms();
    let Some(first) = read_record(io, table, word.locator()).await? else {
        suspect.note(word, word.locator());
        return Ok(Found::Unsettled);
    };
    // Whose slot it is its first record says. Mostly that is the current one.
    let end = if let Link::End(_) = first.link {
        End::Current(first)
    } else {
        let hash = KeyHash::of(first.key(io.incoming()), table.seed);
        let mut forward = Forward::from(slot, word, hash, since_ns);
        walk(io, table, Owner::Hash(hash, table.seed), &mut forward, |_| ()).await?
    };
    Ok(match end {
        End::Current(seen) => Found::Settled((!seen.is_expired(wall_ms)).then_some(seen)),
        End::Dead => Found::Settled(None),
        End::Unsettled(locator) => {
            suspect.note(word, locator);
            Found::Unsettled
        }
        End::OtherKey | End::Overrun => Found::Unsettled,
    })
}

fn scanned<'a>(seen: &Seen, bytes: &'a [u8]) -> Scanned<'a> {
    Scanned {
        key: seen.key(bytes),
        value: &bytes[seen.value()],
        version: seen.version,
        expires_at_ms: seen.expires_at_ms,
        flags: seen.flags,
    }
}
