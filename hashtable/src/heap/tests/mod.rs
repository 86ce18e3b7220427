//! The heap's edges, one by one; `model` has random sequences.

mod leases;
mod model;
mod recovery;
mod reuse;
mod sweeps;

use super::ledger::Entry;
use super::*;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use farside_protocol::Block;

const Q: u64 = 100;
/// The session that most tests use.
const ME: u64 = 7;
const OTHER: u64 = 8;

fn class(len: usize) -> Class {
    Class::holding(len).unwrap()
}

/// A geometry with a heap of `bytes`.
fn geometry(bytes: u64) -> Geometry {
    let geometry = Geometry::new(8192 + bytes, 1).unwrap();
    assert_eq!(geometry.region_len() - geometry.heap_at(), bytes);
    geometry
}

/// A heap of `bytes` with the sessions `ME` and `OTHER`.
fn heap(bytes: u64) -> Heap {
    let mut heap = Heap::new(geometry(bytes), Q);
    heap.open_session(ME).unwrap();
    heap.open_session(OTHER).unwrap();
    heap
}

impl Heap {
    fn lease_for(&mut self, session: u64, len: usize, max: usize, now: u64) -> Result<Vec<Life>, LeaseError> {
        let mut lives = Vec::new();
        self.lease(session, class(len), max, now, &mut lives)?;
        self.check_invariants();
        Ok(lives)
    }

    fn lease_one(&mut self, len: usize, now: u64) -> Result<Life, LeaseError> {
        self.lease_for(ME, len, 1, now).map(|lives| lives[0])
    }

    fn publish_all(&mut self, lives: &[Life], now: u64) {
        self.report(ME, &Report { published: lives, ..Report::default() }, now);
        self.check_invariants();
    }

    fn retire_all(&mut self, lives: &[Life], now: u64) {
        self.report(OTHER, &Report { retired: lives, ..Report::default() }, now);
        self.check_invariants();
    }

    fn due_at(&mut self, now: u64) -> Vec<Life> {
        let mut lives = Vec::new();
        self.due(now, usize::MAX, &mut lives);
        self.check_invariants();
        lives
    }

    /// Frees all whose quarantine is over and returns how many those are.
    fn free_due(&mut self, now: u64) -> usize {
        let lives = self.due_at(now);
        self.free(&lives);
        self.check_invariants();
        lives.len()
    }

    /// As if each block of the heap had been leased `count` times before.
    fn age_to(&mut self, count: u64) {
        for (number, unit) in self.chunks.units.iter_mut().enumerate() {
            unit.floor = count as u32;
            if let Some(ledger) = &mut self.chunks.ledger {
                ledger.note(number, Entry::Pooled { floor: unit.floor }.encode(number));
            }
        }
    }
}

/// A ledger in memory.
#[derive(Clone, Debug)]
struct Words(Arc<[AtomicU64]>);

impl Words {
    fn of(geometry: Geometry) -> Self {
        Self((0..Heap::ledger_len(geometry)).map(|unit| AtomicU64::new(blank(unit))).collect())
    }

    fn boxed(&self) -> Box<dyn Ledger> {
        Box::new(self.clone())
    }

    fn recover(&self, geometry: Geometry) -> Result<Recovery, LedgerError> {
        Heap::recover(geometry, Q, |unit| self.0[unit].load(Ordering::Relaxed))
    }
}

impl Ledger for Words {
    fn note(&mut self, unit: usize, word: u64) {
        self.0[unit].store(word, Ordering::Relaxed);
    }
}
