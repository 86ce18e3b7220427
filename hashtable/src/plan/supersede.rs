//! Superseding a record: one compare-and-swap on its link.

use super::chain::read_record;
use super::{Failure, Table};
use crate::io::{Chain, Io, Lost, Step};
use farside_protocol::mutation::{self, Mutation};
use farside_protocol::{Life, Link, Locator};

/// A record that waits in [`Io::outgoing`] to be published.
pub(super) struct Draft {
    pub(super) locator: Locator,
    pub(super) life: Life,
    pub(super) len: usize,
    /// Whether it was written to its block already. It stays as written for as long as the lease is not spent.
    pub(super) written: bool,
}

impl Draft {
    /// Begins a chain with the record's WRITE, unless it is written.
    pub(super) fn begin_chain(&self) -> Chain {
        let mut chain = Chain::new();
        if !self.written {
            chain.push(Step::write(self.locator.block().offset(), self.len));
        }
        chain
    }
}

/// What became of the attempt to change a link.
pub(super) enum Superseded {
    /// It is changed, by this operation.
    Won,
    /// Something else is there: this word, returned whole by the compare-and-swap, if it was that which told.
    Beaten(Option<Link>),
}

/// Changes the link of the record at `old`, in its life `life`, from END to `new`, writing `draft` first if there is
/// one. **The linearization point of UPDATE and DELETE is the compare-and-swap in here.** Since END names the life,
/// it cannot hit another record; and the knowledge of `old` is young enough (T7) that it does not hit a value.
pub(super) async fn supersede<I: Io>(
    io: &mut I,
    table: &Table,
    old: Locator,
    life: Life,
    new: Link,
    draft: Option<&mut Draft>,
) -> Result<Superseded, Failure> {
    let mut chain = draft.as_ref().map_or_else(Chain::new, |draft| draft.begin_chain());
    chain.push(Step::compare_swap(old.block().offset(), Link::end_of(life).to_bits(), new.to_bits()));
    match io.run(&mut chain).await {
        Ok(()) => {
            if let Some(draft) = draft {
                draft.written = true;
            }
            Ok(match chain[chain.len() - 1].outcome() {
                Ok(()) => Superseded::Won,
                Err(found) => Superseded::Beaten(Link::from_bits(found)),
            })
        }
        Err(Lost) => judge_lost(io, table, old, life, new).await,
    }
}

/// A lost completion: once nothing posted before can execute any more, the link tells whether the CAS did.
async fn judge_lost<I: Io>(
    io: &mut I,
    table: &Table,
    old: Locator,
    life: Life,
    new: Link,
) -> Result<Superseded, Failure> {
    let since_ns = io.now();
    if !mutation::is(Mutation::NoFence) {
        io.fence().await.map_err(|Lost| Failure::Indeterminate)?;
    }
    let Ok(Some(seen)) = read_record(io, table, old).await else { return Err(Failure::Indeterminate) };
    // The record's life is unchanged (its version says so), hence so is the meaning of its link.
    if seen.life() != life || !table.is_recent(io, since_ns) {
        return Err(Failure::Indeterminate);
    }
    match seen.link {
        link if link == Link::end_of(life) => Ok(Superseded::Beaten(None)),
        // A DEAD tells nothing about who set it.
        Link::NextBlind(_) | Link::NextOther(_) if seen.link == new => Ok(Superseded::Won),
        _ => Err(Failure::Indeterminate),
    }
}
