//! The heap's invariants, for tests.

use super::Heap;
use super::chunk::{Chunk, State};
use super::lease::is_leased;
use super::usage::{Blocks, Usage};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use farside_protocol::limits::LEASE_COUNT_MAX;
use farside_protocol::{Class, Life};

impl Heap {
    /// Whether `life` is out, leased or published: only then may anything in the index lead to its record.
    pub fn is_out(&self, life: Life) -> bool {
        matches!(self.chunks.current(life), Some((_, State::Leased { .. } | State::Published { .. })))
    }

    /// Checks that the books agree with the state of each block. It visits all of them: this is for tests and
    /// debugging.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn check_invariants(&self) {
        let chunks = self.check_memory();
        self.check_blocks(&chunks);
        self.check_quarantine();
        self.check_sessions(&chunks);
        let Usage { capacity, leased, published, quarantined, free, unusable } = self.usage();
        assert_eq!(leased + published + quarantined + free + unusable, capacity);
    }

    /// Chunks and pool cover the heap, each byte once; units know their chunk. Returns the chunks by first unit.
    fn check_memory(&self) -> Vec<(u32, &Chunk)> {
        let ids = 0..self.chunks.chunks.len() as u32;
        let chunks: Vec<_> = ids.filter_map(|id| Some((id, self.chunks.starting_at(id).0?))).collect();
        let mut extents: Vec<_> = self.chunks.pool.iter().collect();
        for (id, chunk) in &chunks {
            let extent = self.chunks.extent(chunk);
            assert!((chunk.capacity * chunk.class.size()) as u64 <= chunk.span);
            for unit in self.chunks.units_of(&extent) {
                assert_eq!(self.chunks.units[unit].chunk(), Some(*id));
                assert!(self.chunks.units[unit].floor <= chunk.floor);
            }
            extents.push(extent);
        }
        extents.sort_by_key(|extent| extent.start);
        let end = extents.iter().fold(0, |at, extent| {
            assert_eq!(at, extent.start, "no gap and no overlap");
            extent.end
        });
        assert_eq!(end, self.chunks.capacity());
        for extent in self.chunks.pool.iter() {
            assert!(
                self.chunks.units[self.chunks.units_of(&extent)].iter().all(|unit| unit.chunk().is_none())
            );
        }
        chunks
    }

    /// Counts of states, lists of free blocks, chunks with a free block and chunks with nothing else.
    fn check_blocks(&self, chunks: &[(u32, &Chunk)]) {
        let mut blocks = [Blocks::default(); Class::COUNT];
        let (mut available, mut empty) = (BTreeSet::new(), BTreeSet::new());
        for (id, chunk) in chunks {
            let blocks = &mut blocks[chunk.class.index()];
            blocks.free += (chunk.capacity - chunk.entries.len()) as u64;
            let mut highest = chunk.floor;
            for entry in &chunk.entries {
                *blocks.of(entry.state) += 1;
                assert!(entry.count > 0 && u64::from(entry.count) <= LEASE_COUNT_MAX);
                assert!(entry.state != State::Worn || u64::from(entry.count) == LEASE_COUNT_MAX);
                highest = highest.max(entry.count);
            }
            assert_eq!(highest, chunk.highest);
            let free = chunk.entries.iter().filter(|entry| matches!(entry.state, State::Free { .. })).count();
            assert_eq!(chunk.listed().take(chunk.entries.len() + 1).count(), free);
            assert_eq!(chunk.out, chunk.entries.len() - free);
            if chunk.is_available() {
                available.insert((chunk.class, *id));
            }
            if chunk.out == 0 {
                assert!(chunk.empty_since_ns <= self.now_ns);
                empty.insert((chunk.empty_since_ns, *id));
            }
        }
        assert_eq!(empty, self.chunks.empty);
        for class in Class::all() {
            assert_eq!(blocks[class.index()], self.blocks(class), "{class:?}");
            let listed = &self.chunks.supplies[class.index()].available;
            assert!(listed.iter().all(|&id| available.remove(&(class, id))));
        }
        assert_eq!(available, BTreeSet::new());
    }

    /// Each resting life is in quarantine, queued once and in order.
    fn check_quarantine(&self) {
        let mut seen = BTreeSet::new();
        for class in Class::all() {
            let queue = self.quarantine.of(class);
            assert!(queue.len() as u64 <= self.blocks(class).quarantined);
            assert!(queue.iter().map(|resting| resting.until_ns).is_sorted());
            for resting in queue {
                assert!(resting.until_ns <= self.now_ns.saturating_add(self.quarantine.rest_ns()));
                let (place, state) = self.chunks.current(resting.life).expect("resting lives are current");
                assert_eq!((state, self.chunks.chunk(place.chunk).class), (State::Quarantined, class));
                assert!(seen.insert(resting.life));
            }
        }
    }

    /// Each leased block's session knows it, and each published one is marked when no sweep is under way.
    fn check_sessions(&self, chunks: &[(u32, &Chunk)]) {
        let mut leased = 0;
        for (slot, session) in self.sessions.iter() {
            let lives: Vec<_> = session.log.iter().filter(|&&life| is_leased(&self.chunks, life)).collect();
            for &&life in &lives {
                let (_, state) = self.chunks.current(life).expect("a leased life is current");
                assert_eq!(state, State::Leased { by: slot });
            }
            assert_eq!(lives.iter().collect::<BTreeSet<_>>().len(), lives.len(), "each once");
            assert_eq!(lives.len(), session.blocks);
            assert!(!session.ended || session.blocks > 0);
            let bytes = lives.iter().map(|life| {
                let place = self.chunks.locate(life.block).expect("a leased block has an entry");
                self.chunks.chunk(place.chunk).class.size() as u64
            });
            assert_eq!(bytes.sum::<u64>(), session.bytes);
            leased += session.blocks as u64;
        }
        assert_eq!(leased, Class::all().map(|class| self.blocks(class).leased).sum());
        let entries = chunks.iter().flat_map(|(_, chunk)| &chunk.entries);
        for entry in entries.filter(|_| self.sweep.is_idle()) {
            assert!(!matches!(entry.state, State::Published { mark } if mark != self.sweep.mark()));
        }
    }
}
