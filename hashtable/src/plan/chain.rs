//! Reading records and following the chain of a key from its slot to its end.

use super::{Op, Table};
use crate::duties::Forward;
use crate::io::{Chain, Io, Lost, Step};
use core::ops::Range;
use farside_protocol::mutation::{self, Mutation};
use farside_protocol::{Key, KeyHash, Life, Link, Locator, RecordView, TableSeed, Version, record};

/// A record that was read with identity, its bytes left in [`Io::incoming`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) locator: Locator,
    pub(super) link: Link,
    pub(super) version: Version,
    pub(super) expires_at_ms: u64,
    pub(super) flags: u16,
    key_len: usize,
    value_len: usize,
}

impl Seen {
    #[inline]
    pub(super) fn of(view: &RecordView<'_>, locator: Locator) -> Self {
        Self {
            locator,
            link: view.link,
            version: view.version,
            expires_at_ms: view.expires_at_ms,
            flags: view.flags,
            key_len: view.key.len(),
            value_len: view.value.len(),
        }
    }

    pub(super) fn life(&self) -> Life {
        self.version.life()
    }

    pub(super) fn len(&self) -> usize {
        record::len(self.key_len, self.value_len)
    }

    /// The key within `bytes`, in which the record was seen.
    #[inline]
    pub(super) fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[record::HEADER_LEN..record::HEADER_LEN + self.key_len]
    }

    /// The counter within `bytes`, in which the record was seen, if it is one.
    pub(super) fn counter(&self, bytes: &[u8]) -> Option<i64> {
        if self.flags & record::FLAG_COUNTER == 0 {
            return None;
        }
        bytes[self.value()].try_into().ok().map(i64::from_le_bytes)
    }

    /// Where the value lies in [`Io::incoming`].
    #[inline]
    pub(super) fn value(&self) -> Range<usize> {
        record::HEADER_LEN + self.key_len..self.len()
    }

    /// Whether it had expired at `wall_ms`.
    ///
    /// "Expired" may be answered only by a time from before the READ: then the record was current and expired at
    /// once, when it was read. By a later one it may have been superseded before it expired.
    #[inline]
    pub(super) fn is_expired(&self, wall_ms: u64) -> bool {
        self.expires_at_ms != 0 && self.expires_at_ms <= wall_ms
    }
}

/// Whose chain is looked for.
#[derive(Clone, Copy)]
pub(super) enum Owner<'a> {
    Key(Key<'a>),
    /// A key of which only the 128-bit hash is known.
    Hash(KeyHash, TableSeed),
}

impl<'a> Owner<'a> {
    pub(super) fn of(op: &Op<'a>) -> Self {
        Self::Key(op.key)
    }

    #[inline(always)]
    pub(super) fn owns(self, key: &[u8]) -> bool {
        match self {
            _ if mutation::is(Mutation::NoKeyCompare) => true,
            Self::Key(own) => own.as_bytes() == key,
            Self::Hash(hash, seed) => KeyHash::of(key, seed) == hash,
        }
    }
}

/// Reads the block that `locator` names, as far as its class goes. `None`: what is there has not the identity
/// that was looked for, because it moved on, was torn, or is damaged.
pub(super) async fn read_record<I: Io>(
    io: &mut I,
    table: &Table,
    locator: Locator,
) -> Result<Option<Seen>, Lost> {
    let Some((at, len)) = table.geometry.extent(locator) else { return Ok(None) };
    read_bytes(io, at, len).await?;
    Ok(RecordView::verify(&io.incoming()[..len], locator).map(|view| Seen::of(&view, locator)))
}

/// READs `len` bytes at `at` to the front of [`Io::incoming`].
#[inline]
pub(super) async fn read_bytes<I: Io>(io: &mut I, at: u64, len: usize) -> Result<(), Lost> {
    io.reserve_incoming(len.next_multiple_of(8));
    let mut chain = Chain::new();
    chain.push(Step::read(at, len, 0));
    io.run(&mut chain).await
}

/// Runs one compare-and-swap by itself: `Ok(Ok)` if it replaced the word, `Ok(Err(found))` if not.
pub(super) async fn compare_swap<I: Io>(
    io: &mut I,
    at: u64,
    expect: u64,
    new: u64,
) -> Result<Result<(), u64>, Lost> {
    let mut chain = Chain::new();
    chain.push(Step::compare_swap(at, expect, new));
    io.run(&mut chain).await?;
    Ok(chain[0].outcome())
}

/// Where the chain from a slot leads.
#[derive(Debug)]
pub(super) enum End {
    /// To a record that was current when its link was read.
    Current(Seen),
    /// To a record whose key was deleted.
    Dead,
    /// The slot belongs to another key with the same fingerprint.
    OtherKey,
    /// To a record, named here, that did not verify: the slot moved on, or the record is damaged.
    Unsettled(Locator),
    /// Nowhere within the quarantine: what was read is void, and says nothing about any record.
    Overrun,
}

/// Follows the chain that starts at the slot and word of `forward`, leading `forward` past each superseded or dead
/// record on the way and telling `visit` the life of each record that belongs to `owner`.
/// Ends because a chain is finite: each of its links was set once, to a record published later.
pub(super) async fn walk<I: Io>(
    io: &mut I,
    table: &Table,
    owner: Owner<'_>,
    forward: &mut Forward,
    mut visit: impl FnMut(Life),
) -> Result<End, Lost> {
    let first = forward.expect.locator();
    let mut at = first;
    let since = io.now();
    let end = loop {
        // A walk that took longer than the quarantine is void anyway (T2); without this bound, words of blocks in
        // their next lives could lead it in a circle.
        if !table.is_fresh(io, since) {
            break End::Overrun;
        }
        let Some(seen) = read_record(io, table, at).await? else { break End::Unsettled(at) };
        if !owner.owns(seen.key(io.incoming())) {
            // A successor always has its predecessor's key, so only a slot's first record can be foreign.
            break if at == first { End::OtherKey } else { End::Unsettled(at) };
        }
        visit(seen.life());
        match seen.link {
            Link::End(_) => break End::Current(seen),
            Link::Dead(_) => {
                forward.lead_past(at, seen.life(), None);
                break End::Dead;
            }
            Link::NextBlind(_) | Link::NextOther(_) if mutation::is(Mutation::IgnoreNext) => {
                break End::Current(seen);
            }
            Link::NextBlind(next) | Link::NextOther(next) => {
                forward.lead_past(at, seen.life(), Some(next));
                at = next;
            }
        }
    };
    Ok(end)
}
