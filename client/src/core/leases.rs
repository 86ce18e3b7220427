//! Blocks leased from a shard and not yet written to, kept by class so that a PUT need not ask for one.
//!
//! A class asks anew when it runs low, and for twice as many each time up to a bound: who stores one value takes
//! few, who stores many asks the server once in 256.

use crate::error::{Error, Result};
use farside_protocol::{Class, Life};
use std::time::Duration;

/// Blocks of the first lease of a class.
const BATCH_FIRST: u16 = 8;
/// Blocks of the largest lease.
const BATCH_MAX: u16 = 256;
/// Bytes of the largest lease: idle blocks are memory that nobody can use.
const BATCH_BYTES_MAX: u64 = 256 << 10;
/// A lease takes at most one part of so many of a shard's heap, for there may be many cores.
const HEAP_PARTS: u64 = 256;

/// The unused leases of one core in one shard.
#[derive(Debug)]
pub(crate) struct Leases {
    classes: Box<[ClassLeases]>,
    batch_bytes: u64,
}

#[derive(Clone, Default, Debug)]
struct ClassLeases {
    free: Vec<Life>,
    /// Blocks to ask for next, 0 before the first time.
    batch: u16,
    /// Whether a request is under way.
    asked: bool,
    /// Whether an operation waits for its answer.
    awaited: bool,
    /// Why no block came of an awaited request, until the one that waited hears it.
    refusal: Option<Refusal>,
}

/// Why no block came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The server has none to give now.
    Later(Duration),
    /// This session has too many already: what it does not need must be given back first.
    TooMany,
    /// It has none of this class, nor will have: only the server knows whether a larger one would do.
    Full,
    /// There will be none.
    Failed(Error),
}

impl Leases {
    /// For a shard whose heap has `heap_bytes`.
    pub(crate) fn new(heap_bytes: u64) -> Self {
        let batch_bytes = (heap_bytes / HEAP_PARTS).min(BATCH_BYTES_MAX);
        Self { classes: vec![ClassLeases::default(); Class::COUNT].into(), batch_bytes }
    }

    /// A block to write a record of `class` into. `Err(None)`: one is asked for, or has to be, by who asks
    /// [`Leases::wanted`].
    #[inline]
    pub(crate) fn take(&mut self, class: Class) -> Result<Life, Option<Refusal>> {
        let leases = &mut self.classes[class.index()];
        leases.free.pop().ok_or_else(|| {
            leases.awaited = true;
            leases.refusal.take()
        })
    }

    /// Puts back a block that [`Leases::take`] gave and that was not spent.
    #[inline]
    pub(crate) fn put_back(&mut self, class: Class, life: Life) {
        self.classes[class.index()].free.push(life);
    }

    /// How many blocks to ask the server for, if `class` runs low and has not asked yet. Who is told must ask,
    /// and report with [`Leases::arrived`].
    #[inline]
    pub(crate) fn wanted(&mut self, class: Class) -> Option<u16> {
        let leases = &mut self.classes[class.index()];
        let low = usize::from(leases.batch / 4);
        // A large block, of which a batch has less than four, is a good part of the memory: none is asked for ahead
        // of need.
        if leases.asked || leases.free.len() > low || !leases.awaited && low == 0 {
            return None;
        }
        leases.asked = true;
        let batch_max = (self.batch_bytes / class.size() as u64).clamp(1, BATCH_MAX.into()) as u16;
        leases.batch = match leases.batch {
            0 => BATCH_FIRST,
            batch => batch * 2,
        }
        .min(batch_max);
        Some(leases.batch)
    }

    /// Takes in what the server gave.
    pub(crate) fn arrived(&mut self, class: Class, lives: Result<Vec<Life>, Refusal>) {
        let leases = &mut self.classes[class.index()];
        leases.asked = false;
        let awaited = std::mem::take(&mut leases.awaited);
        match lives {
            Ok(lives) => {
                // Where memory is short it is asked for in small portions.
                leases.batch = leases.batch.min(lives.len() as u16);
                if leases.free.is_empty() {
                    leases.free = lives;
                } else {
                    leases.free.extend(lives);
                }
            }
            Err(refusal) => {
                leases.batch = 0;
                // If it was asked ahead of need, who needs a block asks again.
                leases.refusal = Some(refusal).filter(|_| awaited);
            }
        }
    }

    /// All of them, to be given back.
    pub(crate) fn drain(&mut self) -> Vec<Life> {
        self.classes.iter_mut().flat_map(|leases| leases.free.drain(..)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farside_protocol::Block;

    fn lives(count: u16) -> Vec<Life> {
        (0..u64::from(count))
            .map(|block| Life { block: Block::new(100 + block).unwrap(), count: 1 })
            .collect()
    }

    /// How many blocks an operation in need asks for.
    fn needed(leases: &mut Leases, class: Class) -> Option<u16> {
        assert_eq!(leases.take(class), Err(None));
        leases.wanted(class)
    }

    fn class(len: usize) -> Class {
        Class::holding(len).unwrap()
    }

    #[test]
    fn batches_double_to_their_bound_and_one_request_is_under_way_at_a_time() {
        let (mut leases, small) = (Leases::new(1 << 30), class(64));
        assert_eq!(leases.take(small), Err(None));
        for batch in [8, 16, 32, 64, 128, 256, 256] {
            assert_eq!(leases.wanted(small), Some(batch));
            assert_eq!(leases.wanted(small), None, "asked already");
            leases.arrived(small, Ok(lives(batch)));
            assert_eq!(leases.wanted(small), None, "plenty");
            while leases.take(small).is_ok() {}
        }
    }

    #[test]
    fn a_class_asks_again_before_it_is_empty() {
        let (mut leases, small) = (Leases::new(1 << 30), class(64));
        let batch = needed(&mut leases, small).unwrap();
        leases.arrived(small, Ok(lives(batch)));
        let used = (0..).take_while(|_| leases.wanted(small).is_none() && leases.take(small).is_ok()).count();
        assert_eq!(used, usize::from(batch) - usize::from(batch) / 4);
        assert!(leases.take(small).is_ok());
    }

    #[test]
    fn large_blocks_come_one_at_a_time() {
        let mut leases = Leases::new(1 << 30);
        for (len, batches) in [(256 << 10, [1, 1]), (100 << 10, [2, 2]), (16 << 10, [8, 16])] {
            assert_eq!(leases.take(class(len)), Err(None));
            for batch in batches {
                assert_eq!(leases.wanted(class(len)), Some(batch));
                leases.arrived(class(len), Ok(lives(batch)));
                while leases.take(class(len)).is_ok() {
                    assert!(batch > 2 || leases.wanted(class(len)).is_none(), "none ahead of need");
                }
            }
        }
        let small_heap = &mut Leases::new(1 << 20);
        assert_eq!(needed(small_heap, class(4096)), Some(1), "and all blocks, from a small heap");
    }

    #[test]
    fn a_server_short_of_memory_is_not_asked_for_each_block() {
        let (mut leases, small) = (Leases::new(1 << 30), class(64));
        needed(&mut leases, small).unwrap();
        leases.arrived(small, Ok(lives(5)));
        assert_eq!(leases.wanted(small), None, "five of eight came: they will do for a while");
        while leases.take(small).is_ok() {}
        assert_eq!(leases.wanted(small), Some(10));
    }

    #[test]
    fn what_is_left_can_be_given_back() {
        let mut leases = Leases::new(1 << 30);
        leases.arrived(class(64), Ok(lives(3)));
        leases.arrived(class(1000), Ok(lives(2)));
        let life = leases.take(class(64)).unwrap();
        assert_eq!(leases.drain().len(), 4);
        leases.put_back(class(64), life);
        assert_eq!(leases.drain(), [life]);
    }

    #[test]
    fn only_who_waited_for_a_request_hears_that_it_was_refused() {
        let (mut leases, small) = (Leases::new(1 << 30), class(64));
        let refusal = Refusal::Full;
        let batch = needed(&mut leases, small).unwrap();
        leases.arrived(small, Ok(lives(batch)));
        while leases.wanted(small).is_none() {
            leases.take(small).unwrap();
        }
        leases.arrived(small, Err(refusal.clone()));
        while leases.take(small).is_ok() {}
        assert_eq!(leases.wanted(small), Some(8), "an old refusal, of what was asked ahead: ask again");
        leases.arrived(small, Err(refusal.clone()));
        assert_eq!(leases.take(small), Err(Some(refusal.clone())));
        assert_eq!(leases.take(small), Err(None), "it was told once");
    }
}
