//! A heap made anew from its ledger.

extern crate std;

use super::*;
use std::sync::Mutex;

const HEAP: u64 = 64 << 10;

fn with_ledger() -> (Heap, Words) {
    let words = Words::of(geometry(HEAP));
    let mut heap = Heap::new(geometry(HEAP), Q).with_ledger(words.boxed());
    heap.open_session(ME).unwrap();
    heap.open_session(OTHER).unwrap();
    (heap, words)
}

fn again(words: &Words, kept: &[(Life, usize)]) -> Heap {
    let mut recovery = words.recover(geometry(HEAP)).unwrap();
    assert!(kept.iter().all(|&(life, len)| recovery.keep(life, class(len))));
    let mut heap = recovery.finish(words.boxed());
    heap.open_session(ME).unwrap();
    heap.check_invariants();
    heap
}

#[test]
fn a_lease_that_nobody_ever_used_is_counted() {
    let (mut heap, words) = with_ledger();
    let before = heap.lease_for(ME, 100, 3, 0).unwrap();
    let mut heap = again(&words, &[]);
    assert_eq!(heap.usage().free, heap.usage().capacity);
    let after = heap.lease_for(ME, 100, usize::MAX, 0).unwrap();
    for old in before {
        let new = after.iter().find(|life| life.block == old.block).unwrap();
        assert!(new.count > old.count, "{new:?} after {old:?}");
    }
}

#[test]
fn what_is_reachable_stays_and_all_else_is_free_at_once() {
    let (mut heap, words) = with_ledger();
    let lives = heap.lease_for(ME, 100, 4, 0).unwrap();
    heap.publish_all(&lives[..3], 0);
    heap.retire_all(&lives[..1], 0);
    let mut heap = again(&words, &[(lives[1], 100), (lives[3], 100)]);
    assert_eq!(heap.usage().published, 2 * class(100).size() as u64);
    assert_eq!((heap.usage().leased, heap.usage().quarantined), (0, 0));
    let all = heap.lease_for(ME, 100, usize::MAX, 0).unwrap();
    assert!(all.iter().all(|life| life.block != lives[1].block && life.block != lives[3].block));
    assert!(all.iter().any(|life| life.block == lives[0].block));
}

#[test]
fn a_record_in_no_block_is_not_kept() {
    let (mut heap, words) = with_ledger();
    let life = heap.lease_one(100, 0).unwrap();
    let mut recovery = words.recover(geometry(HEAP)).unwrap();
    let inside = Life { block: Block::new(life.block.granule() + 1).unwrap(), ..life };
    for (life, len) in [
        (life, 200),
        (inside, 100),
        (Life { count: life.count + 1, ..life }, 100),
        (Life { count: 0, ..life }, 100),
        (Life { block: Block::new(1).unwrap(), ..life }, 100),
        (Life { block: Block::new(1 << 33).unwrap(), ..life }, 100),
    ] {
        assert!(!recovery.keep(life, class(len)), "{life:?} of {len}");
    }
    assert!(recovery.keep(life, class(100)));
}

#[test]
fn a_ledger_that_makes_no_sense_is_refused() {
    let (mut heap, words) = with_ledger();
    heap.lease_one(100, 0).unwrap();
    let chunk = words.0[0].load(Ordering::Relaxed);
    let units = words.0.len();
    let endless = Entry::Chunk { class: class(100), span: units as u32 + 1, highest: 1 };
    let tiny = Entry::Chunk { class: class(5000), span: 1, highest: 1 };
    for word in [0, chunk ^ 1 << 30, endless.encode(0), tiny.encode(0), blank(1)] {
        words.0[0].store(word, Ordering::Relaxed);
        assert_eq!(words.recover(geometry(HEAP)).unwrap_err(), LedgerError { unit: 0 }, "{word:#x}");
    }
    words.0[0].store(chunk, Ordering::Relaxed);
    assert!(words.recover(geometry(HEAP)).is_ok());
}

/// A ledger that remembers in which order it was written.
#[derive(Clone, Default, Debug)]
struct Log(Arc<Mutex<Vec<(usize, u64)>>>);

impl Ledger for Log {
    fn note(&mut self, unit: usize, word: u64) {
        self.0.lock().unwrap().push((unit, word));
    }
}

#[test]
fn counts_go_on_wherever_the_ledger_is_cut_off() {
    let log = Log::default();
    let mut heap = Heap::new(geometry(HEAP), Q).with_ledger(Box::new(log.clone()));
    heap.open_session(ME).unwrap();
    let small = heap.lease_for(ME, 64, usize::MAX, 0).unwrap();
    heap.report(ME, &Report { returned: &small, ..Report::default() }, 0);
    heap.free_due(Q);
    let issued = log.0.lock().unwrap().len();
    // Chunks of small blocks go back to the pool for it.
    heap.lease_one(30_000, Q + 1024 * Q).unwrap();
    let log = log.0.lock().unwrap();
    assert!(log.len() > issued + 100);
    for cut in issued..=log.len() {
        let words = Words::of(geometry(HEAP));
        log[..cut].iter().for_each(|&(unit, word)| words.0[unit].store(word, Ordering::Relaxed));
        let mut heap = again(&words, &[]);
        assert_eq!(heap.usage().free, heap.usage().capacity);
        for life in heap.lease_for(ME, 64, usize::MAX, 0).unwrap() {
            assert!(life.count > small[0].count, "cut at {cut}: {life:?}");
        }
    }
}
