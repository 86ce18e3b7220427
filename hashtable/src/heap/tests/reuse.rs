//! Rule T3: lives, tags, and chunks that change their class.

use super::*;
use farside_protocol::limits::{LEASE_COUNT_MAX, TAG_PERIOD};

const PERIOD: u64 = TAG_PERIOD * Q;

#[test]
fn a_tag_recurs_after_a_whole_period_and_no_sooner() {
    let mut heap = heap(64);
    let mut leased_at = [None; TAG_PERIOD as usize];
    let mut now = 0;
    for count in 1..3 * TAG_PERIOD {
        let life = heap.lease_one(64, now).unwrap();
        assert_eq!(life.count, count);
        let before = leased_at[(count % TAG_PERIOD) as usize].replace(now);
        assert!(before.is_none_or(|before| now - before >= PERIOD));
        heap.retire_all(&[life], now);
        while heap.free_due(now) == 0 {
            now = heap.next_due_ns().unwrap();
        }
    }
}

#[test]
fn a_block_whose_counts_are_used_up_is_never_leased_again() {
    let mut heap = heap(128);
    heap.age_to(LEASE_COUNT_MAX - 2);
    let first = heap.lease_for(ME, 64, 2, 0).unwrap();
    heap.retire_all(&first[..1], 0);
    heap.free_due(Q);
    let last = heap.lease_one(64, Q).unwrap();
    assert_eq!(last, Life { block: first[0].block, count: LEASE_COUNT_MAX });
    heap.retire_all(&[last, first[1]], Q);
    heap.free_due(2 * Q);
    assert_eq!(heap.usage().unusable, 64);
    let other = heap.lease_one(64, 2 * Q).unwrap();
    assert_eq!(other, Life { block: first[1].block, count: LEASE_COUNT_MAX });
    heap.retire_all(&[other], 2 * Q);
    heap.free_due(3 * Q);
    for len in [64, 128] {
        assert_eq!(heap.lease_one(len, 9 * PERIOD), Err(LeaseError::Full), "a chunk with worn blocks stays");
    }
    assert_eq!((heap.blocks(class(64)).worn, heap.usage().unusable), (2, 128));
}

#[test]
fn an_empty_chunk_changes_its_class_after_a_whole_period_and_counts_on() {
    let mut heap = heap(128);
    let [busy, calm] = heap.lease_for(ME, 64, 2, 0).unwrap()[..] else { panic!("two blocks") };
    for count in 1..=5 {
        heap.retire_all(&[Life { count, ..busy }], count * Q);
        heap.free_due((count + 1) * Q);
        assert_eq!(heap.lease_one(64, (count + 1) * Q), Ok(Life { count: count + 1, ..busy }));
    }
    heap.retire_all(&[Life { count: 6, ..busy }, calm], 7 * Q);
    assert_eq!(heap.lease_one(128, 2 * PERIOD), Err(LeaseError::Full), "its blocks are not free yet");
    let freed = 3 * PERIOD;
    heap.free_due(freed);
    assert_eq!(heap.lease_one(128, freed + PERIOD - 1), Err(LeaseError::Full));
    let large = heap.lease_one(128, freed + PERIOD).unwrap();
    assert_eq!(large, Life { count: 7, ..busy }, "above every count issued in these bytes");
    heap.retire_all(&[Life { count: 6, ..busy }, calm], freed + PERIOD);
    assert_eq!(heap.blocks(class(128)).leased, 1, "the old blocks are no more");

    heap.retire_all(&[large], freed + PERIOD);
    let freed = freed + PERIOD + Q;
    heap.free_due(freed);
    let back = heap.lease_for(ME, 64, 2, freed + PERIOD).unwrap();
    assert_eq!(back, [Life { count: 8, ..busy }, Life { count: 8, ..calm }]);
}

#[test]
fn a_lease_begins_the_wait_for_a_class_change_anew() {
    let mut heap = heap(128);
    let life = heap.lease_one(64, 0).unwrap();
    heap.retire_all(&[life], 0);
    heap.free_due(Q);
    let life = heap.lease_one(64, Q + PERIOD - 1).unwrap();
    assert_eq!(heap.lease_one(128, 5 * PERIOD), Err(LeaseError::Full), "leased again just in time");
    heap.retire_all(&[life], 5 * PERIOD);
    heap.free_due(5 * PERIOD + Q);
    assert_eq!(heap.lease_one(128, 6 * PERIOD + Q - 1), Err(LeaseError::Full));
    heap.lease_one(128, 6 * PERIOD + Q).unwrap();
}

#[test]
fn a_class_keeps_its_empty_chunks_while_there_is_other_memory() {
    let mut heap = heap(1 << 16);
    let life = heap.lease_one(64, 0).unwrap();
    heap.retire_all(&[life], 0);
    heap.free_due(Q);
    heap.lease_one(128, 2 * PERIOD).unwrap();
    assert!(heap.blocks(class(64)).free > 0);
}

#[test]
fn small_chunks_join_for_a_large_block() {
    let mut heap = heap(1 << 20);
    let lives: Vec<_> = Class::all()
        .take(20)
        .flat_map(|class| heap.lease_for(ME, class.size(), 100_000, 0).unwrap_or_default())
        .collect();
    assert_eq!(heap.lease_one(1 << 20, 0), Err(LeaseError::Full));
    heap.retire_all(&lives, 0);
    assert_eq!(heap.free_due(Q), lives.len());
    assert_eq!(heap.lease_one(1 << 20, Q + PERIOD - 1), Err(LeaseError::Full));
    let large = heap.lease_one(1 << 20, Q + PERIOD).unwrap();
    assert_eq!((large.block.offset(), large.count), (8192, 2));
    assert_eq!(heap.usage().free, 0);
}
