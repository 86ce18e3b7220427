//! What must hold of the table's memory at every moment, and what at the end. The auditor sees all words at once, as
//! no client can.

use super::shared::Shared;
use crate::linearizability::KeyFailure;
use farside_hashtable::plan::Failure;
use farside_protocol::geometry::INDEX_AT;
use farside_protocol::{Class, KeyHash, Life, Link, Locator, RecordView, SlotIndex, SlotState, SlotWord};
use std::collections::{BTreeMap, BTreeSet};

/// Something that must not be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Breach {
    /// Clients were told what no order of the operations explains.
    #[error("{0}")]
    History(Box<KeyFailure<usize, u64>>),
    /// A committed slot leads to bytes that are no record of its chain.
    #[error("slot {} leads to block {} in life tag {}, where there is no such record", slot.0, locator.block().granule(), locator.tag())]
    Unverifiable {
        /// The slot.
        slot: SlotIndex,
        /// What does not verify.
        locator: Locator,
    },
    /// A committed slot leads to a record of a key that does not belong there.
    #[error("slot {} leads to a record of a foreign key", slot.0)]
    Foreign {
        /// The slot.
        slot: SlotIndex,
    },
    /// A committed slot leads to a block that the server takes for free.
    #[error("slot {} leads to block {} in life {}, which is retired", slot.0, life.block.granule(), life.count)]
    Retired {
        /// The slot.
        slot: SlotIndex,
        /// The record's life.
        life: Life,
    },
    /// A key is live in two slots.
    #[error("a key is live in slots {} and {}", first.0, second.0)]
    Duplicate {
        /// One slot.
        first: SlotIndex,
        /// The other.
        second: SlotIndex,
    },
    /// A chain leads in a circle.
    #[error("the chain of slot {} does not end", slot.0)]
    Circle {
        /// The slot.
        slot: SlotIndex,
    },
    /// A slot holds a word that nothing writes.
    #[error("slot {} holds {:#018x}, which is no word of this table", slot.0, word.to_bits())]
    Word {
        /// The slot.
        slot: SlotIndex,
        /// Its word.
        word: SlotWord,
    },
    /// At the end a slot is tentative, or lags behind its chain.
    #[error("slot {} is left {state} when all is done", slot.0)]
    LeftOver {
        /// The slot.
        slot: SlotIndex,
        /// How it was left.
        state: &'static str,
    },
    /// At the end a block is neither free nor in use.
    #[error("{leaked} blocks of {} bytes are neither free nor reachable when all is done", class.size())]
    Leaked {
        /// Their class.
        class: Class,
        /// How many.
        leaked: i64,
    },
    /// A block was leased a second time in the same life.
    #[error("block {} was leased twice in life {}", life.block.granule(), life.count)]
    LifeTwice {
        /// The life.
        life: Life,
    },
    /// Blocks were lost although nobody died and nothing failed.
    #[error("{0} blocks had to be found by sweeps although no client died and no chain was lost")]
    LostInPeace(u64),
    /// A value is none that was stored.
    #[error("a GET returned bytes that nobody stored")]
    TornValue,
    /// An operation failed as none may on an undamaged table.
    #[error("an operation failed: {0}")]
    Failed(Failure),
    /// The server dropped a record as damaged.
    #[error("a sweep took a record for damaged")]
    Dropped,
    /// A chain asked for memory that is none of its business.
    #[error("{0} chains asked for memory outside the region or not theirs to change")]
    Refused(u64),
    /// The run does not end.
    #[error("the run has not ended after {0} steps")]
    Endless(u64),
}

/// A chain as it is in memory.
struct Walk {
    lives: Vec<Life>,
    key: Vec<u8>,
    end: Link,
}

/// Longest chain that can be: each block is in it once.
fn hops_max(shared: &Shared) -> u64 {
    shared.setup.heap_len / 64
}

fn slots(shared: &Shared, words: &[u64]) -> impl Iterator<Item = (SlotIndex, SlotWord)> {
    let first = (INDEX_AT / 8) as usize;
    let words = words[first..][..shared.table.geometry.slots() as usize].to_vec();
    (0..).map(SlotIndex).zip(words.into_iter().map(SlotWord::from_bits))
}

fn walk(shared: &Shared, words: &[u64], slot: SlotIndex, word: SlotWord) -> Result<Walk, Breach> {
    let mut found = Walk { lives: Vec::new(), key: Vec::new(), end: Link::End(0) };
    let mut locator = word.locator();
    for _ in 0..=hops_max(shared) {
        let unverifiable = Breach::Unverifiable { slot, locator };
        let Some((at, len)) = shared.table.geometry.extent(locator) else { return Err(unverifiable) };
        let bytes: Vec<u8> =
            words[at as usize / 8..][..len / 8].iter().flat_map(|word| word.to_le_bytes()).collect();
        let Some(view) = RecordView::verify(&bytes, locator) else { return Err(unverifiable) };
        if found.lives.is_empty() {
            found.key = view.key.to_vec();
        } else if found.key != view.key {
            return Err(Breach::Foreign { slot });
        }
        let life = view.version.life();
        if !shared.heap.borrow().is_out(life) {
            return Err(Breach::Retired { slot, life });
        }
        found.lives.push(life);
        found.end = view.link;
        match view.link.next() {
            Some(next) => locator = next,
            None => return Ok(found),
        }
    }
    Err(Breach::Circle { slot })
}

/// Where the records are that slots lead to without detour, and how long they are: offset and bytes.
pub(super) fn records(shared: &Shared) -> Vec<(u64, u64)> {
    shared.world.inspect(0, |words| {
        let committed = slots(shared, words).filter(|(_, word)| word.state() == SlotState::Committed);
        committed
            .filter_map(|(_, word)| {
                let (at, len) = shared.table.geometry.extent(word.locator())?;
                let bytes: Vec<u8> =
                    words[at as usize / 8..][..len / 8].iter().flat_map(|word| word.to_le_bytes()).collect();
                Some((at, RecordView::verify(&bytes, word.locator())?.len() as u64))
            })
            .collect()
    })
}

/// Checks what holds at every moment: each committed slot leads through verified records of one key, all of them in
/// use, and no key is live twice.
pub(super) fn audit(shared: &Shared) -> Result<(), Breach> {
    shared.world.inspect(0, |words| {
        let mut live: BTreeMap<Vec<u8>, SlotIndex> = BTreeMap::new();
        for (slot, word) in slots(shared, words) {
            match word.state() {
                SlotState::Empty if word == SlotWord::EMPTY => {}
                SlotState::Tentative => {}
                SlotState::Empty | SlotState::Growing => return Err(Breach::Word { slot, word }),
                SlotState::Committed => {
                    let chain = walk(shared, words, slot, word)?;
                    let hash = KeyHash::of(&chain.key, shared.table.seed);
                    let home = shared.table.geometry.window(hash.home_line(shared.setup.lines));
                    let in_window = (home.0..home.0 + 32).contains(&slot.0);
                    if !in_window || hash.fingerprint() != word.locator().fingerprint() {
                        return Err(Breach::Foreign { slot });
                    }
                    if let Link::End(_) = chain.end
                        && let Some(first) = live.insert(chain.key, slot)
                    {
                        return Err(Breach::Duplicate { first, second: slot });
                    }
                }
            }
        }
        Ok(())
    })
}

/// Checks what holds when all clients are gone and the server has swept: nothing is tentative, nothing lags, each
/// block is free or in use.
pub(super) fn audit_end(shared: &Shared) -> Result<(), Breach> {
    audit(shared)?;
    shared.world.inspect(0, |words| {
        let mut reachable: BTreeMap<Class, BTreeSet<Life>> = BTreeMap::new();
        for (slot, word) in slots(shared, words) {
            match word.state() {
                SlotState::Tentative => return Err(Breach::LeftOver { slot, state: "tentative" }),
                SlotState::Committed => {
                    let chain = walk(shared, words, slot, word)?;
                    if chain.lives.len() > 1 || !matches!(chain.end, Link::End(_)) {
                        return Err(Breach::LeftOver { slot, state: "lagging" });
                    }
                    let class = word.locator().class().expect("it verified");
                    reachable.entry(class).or_default().extend(chain.lives);
                }
                SlotState::Empty | SlotState::Growing => {}
            }
        }
        let heap = shared.heap.borrow();
        for class in Class::all() {
            let blocks = heap.blocks(class);
            let out = (blocks.leased + blocks.published) as i64;
            let leaked = out - reachable.get(&class).map_or(0, BTreeSet::len) as i64;
            if leaked != 0 {
                return Err(Breach::Leaked { class, leaked });
            }
        }
        heap.check_invariants();
        Ok(())
    })?;
    match shared.world.refused() {
        0 => Ok(()),
        refused => Err(Breach::Refused(refused)),
    }
}
