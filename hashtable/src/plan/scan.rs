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

/// Slots whose words one READ brings: a run of them begins at each multiple of this.
pub const SCAN_RUN: u32 = 128;

/// Hands each live key from slot `from` to the end of its run to `take`, until that has no room for one. Returns the slot
/// to go on from: that key's, or the next run's first, or that at which the deadline passed. Ends by the deadline: each
/// further look at a slot means that it moved on meanwhile, that is, that another operation took effect. A record that is
/// damaged is passed over; the server's sweep drops it.
///
/// Linearized key by key, when a record's link is read as END.
pub async fn scan_run<I: Io>(
    io: &mut I,
    table: &Table,
    from: SlotIndex,
    deadline_ns: u64,
    mut take: impl FnMut(Scanned<'_>) -> bool,
) -> Result<SlotIndex, Failure> {
    let end = ((from.0 / SCAN_RUN + 1) * SCAN_RUN).min(table.geometry.slots());
    let run_ns = io.now();
    let mut words = [SlotWord::EMPTY; SCAN_RUN as usize];
    read_slots(io, from, &mut words[..(end - from.0) as usize]).await?;
    for (slot, word) in (from.0..end).map(SlotIndex).zip(words) {
        let (mut word, mut since_ns, mut suspect) = (word, run_ns, Suspect::default());
        for attempt in 0.. {
            if let Ok(Found::Settled(found)) = look(io, table, slot, word, since_ns, &mut suspect).await
                && table.is_fresh(io, since_ns)
            {
                if let Some(seen) = found
                    && !take(scanned(&seen, io.incoming()))
                {
                    return Ok(slot);
                }
                break;
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
                Err(_) if slot > from => return Ok(slot),
                Err(failure) => return Err(failure),
            }
        }
    }
    Ok(SlotIndex(end))
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
