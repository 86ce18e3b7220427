//! The cold way to a key: READ its window, then the records of the slots with its fingerprint.

use super::chain::{End, Owner, Seen, read_bytes, walk};
use super::{Failure, Op, Table};
use crate::duties::Forward;
use crate::io::{Io, Lost};
use farside_protocol::limits::{SLOTS_PER_WINDOW, WINDOW_LEN};
use farside_protocol::{KeyHash, Locator, SlotIndex, SlotState, SlotWord};

/// A window as it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    first: SlotIndex,
    words: [SlotWord; SLOTS_PER_WINDOW],
}

impl Window {
    /// The first slot of `hash`'s window.
    pub(super) fn first_slot(table: &Table, hash: KeyHash) -> SlotIndex {
        table.geometry.window(hash.home_line(table.geometry.lines()))
    }

    /// Decodes the window at `first` from the start of `bytes`.
    pub(super) fn decode(first: SlotIndex, bytes: &[u8]) -> Self {
        let (words, _) = bytes[..WINDOW_LEN].as_chunks::<8>();
        Self { first, words: core::array::from_fn(|i| SlotWord::from_bits(u64::from_le_bytes(words[i]))) }
    }

    /// The slots with their words.
    pub(super) fn slots(&self) -> impl Iterator<Item = (SlotIndex, SlotWord)> {
        (self.first.0..).map(SlotIndex).zip(self.words)
    }

    /// The words, in the order of the slots.
    pub(super) fn words(&self) -> &[SlotWord; SLOTS_PER_WINDOW] {
        &self.words
    }

    /// The slot that holds the `index`th word.
    pub(super) fn slot(&self, index: usize) -> SlotIndex {
        SlotIndex(self.first.0 + index as u32)
    }

    /// The word in `slot`.
    pub(super) fn word(&self, slot: SlotIndex) -> SlotWord {
        self.words[(slot.0 - self.first.0) as usize]
    }

    /// Whether some slot holds a tentative word with `fingerprint`.
    pub(super) fn has_tentative(&self, fingerprint: u16) -> bool {
        self.words.iter().any(|word| word.is_tentative_for(fingerprint))
    }

    /// Some slot with a tentative word of any key.
    pub(super) fn any_tentative(&self) -> Option<(SlotIndex, SlotWord)> {
        self.slots().find(|(_, word)| word.state() == SlotState::Tentative)
    }
}

/// READs the window of `hash`.
pub(super) async fn read_window<I: Io>(io: &mut I, table: &Table, hash: KeyHash) -> Result<Window, Lost> {
    let first = Window::first_slot(table, hash);
    read_bytes(io, first.offset(), WINDOW_LEN).await?;
    Ok(Window::decode(first, io.incoming()))
}

/// A key's current record, verified in this operation; its bytes are in [`Io::incoming`].
pub(super) struct Found {
    /// The slot from which its chain starts.
    pub(super) slot: SlotIndex,
    /// The record, its link END.
    pub(super) seen: Seen,
    /// Whether it had expired when it was read.
    pub(super) expired: bool,
    /// From the slot, as it was read, to the record: idle unless the slot lags.
    pub(super) forward: Forward,
    /// When the first READ this rests on was posted: rule T2 counts from here.
    pub(super) since_ns: u64,
}

/// What a lookup came to.
pub(super) enum Lookup {
    Found(Found),
    /// The key was absent at a moment within the lookup.
    Absent {
        window: Window,
        /// The key's dead chain, if one still holds its slot.
        dead: Option<Forward>,
    },
}

/// Looks `op`'s key up. Ends by the deadline; each further round means that a slot moved on meanwhile, that is,
/// that another operation took effect.
pub(super) async fn lookup<I: Io>(io: &mut I, table: &Table, op: &Op<'_>) -> Result<Lookup, Failure> {
    let mut suspect = Suspect::default();
    for attempt in 0.. {
        op.check_deadline(io)?;
        let (since_ns, wall_ms) = (io.now(), io.wall_ms());
        if let Ok(Round::Settled(lookup)) = round(io, table, op, since_ns, wall_ms, &mut suspect).await
            && table.is_fresh(io, since_ns)
        {
            return Ok(lookup);
        }
        if suspect.is_damaged() {
            return Err(Failure::Corrupt);
        }
        io.pause(attempt).await;
    }
    unreachable!("the attempts end by the deadline")
}

#[expect(
    clippy::large_enum_variant,
    reason = "lives on the stack of one operation and is taken apart at once"
)]
enum Round {
    Settled(Lookup),
    Unsettled,
}

async fn round<I: Io>(
    io: &mut I,
    table: &Table,
    op: &Op<'_>,
    since_ns: u64,
    wall_ms: u64,
    suspect: &mut Suspect,
) -> Result<Round, Lost> {
    let window = read_window(io, table, op.hash).await?;
    let mut dead = None;
    for (slot, word) in window.slots() {
        if !word.is_committed_for(op.hash.fingerprint()) && !taken_for_committed(word, op.hash) {
            continue;
        }
        let mut forward = Forward::from(slot, word, op.hash, since_ns);
        match walk(io, table, Owner::of(op), &mut forward, |_| ()).await? {
            End::Current(seen) => {
                let expired = seen.is_expired(wall_ms);
                return Ok(Round::Settled(Lookup::Found(Found { slot, seen, expired, forward, since_ns })));
            }
            End::Dead => dead = Some(forward),
            End::OtherKey => {}
            End::Unsettled(locator) => {
                suspect.note(word, locator);
                return Ok(Round::Unsettled);
            }
            End::Overrun => return Ok(Round::Unsettled),
        }
    }
    Ok(Round::Settled(Lookup::Absent { window, dead }))
}

#[inline]
fn taken_for_committed(word: SlotWord, hash: KeyHash) -> bool {
    use farside_protocol::mutation::{self, Mutation};
    mutation::is(Mutation::ReadTentative) && word.is_tentative_for(hash.fingerprint())
}

/// A record that did not verify. Found so under the same, unchanged committed word in three reads it is damaged:
/// had its slot moved on, the word would have changed.
#[derive(Default)]
pub(super) struct Suspect {
    seen: Option<(SlotWord, Locator)>,
    times: u32,
}

impl Suspect {
    pub(super) fn note(&mut self, word: SlotWord, locator: Locator) {
        if self.seen == Some((word, locator)) {
            self.times += 1;
        } else {
            (self.seen, self.times) = (Some((word, locator)), 1);
        }
    }

    /// The slot word under which it was found last.
    pub(super) fn word(&self) -> Option<SlotWord> {
        self.seen.map(|(word, _)| word)
    }

    pub(super) fn is_damaged(&self) -> bool {
        self.times >= 3
    }
}
