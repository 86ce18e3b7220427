//! Leases, reports, sessions.

use super::*;

#[test]
fn a_heap_of_exactly_some_blocks_leases_them_all_whatever_the_class() {
    for class in Class::all() {
        // Blocks of the largest class do not fill whole units.
        let most = if class.index() + 1 == Class::COUNT { 1 } else { 3 };
        for blocks in 1..=most {
            let mut heap = heap(blocks * class.size() as u64);
            let lives = heap.lease_for(ME, class.size(), 10, 0).unwrap();
            assert_eq!(lives.len() as u64, blocks, "{} bytes", class.size());
            assert_eq!(heap.lease_one(class.size(), 0), Err(LeaseError::Full));
            assert_eq!(heap.usage().leased, heap.usage().capacity);
        }
    }
}

#[test]
fn the_smallest_heap_has_one_block_and_no_room_for_a_larger_one() {
    let mut heap = heap(64);
    assert_eq!(heap.lease_one(65, 0), Err(LeaseError::Full));
    let life = heap.lease_one(64, 0).unwrap();
    assert_eq!(life, Life { block: Block::new(8192 / 64).unwrap(), count: 1 });
}

#[test]
fn a_small_heap_serves_many_classes() {
    let mut heap = heap(1 << 20);
    for class in Class::all().take_while(|class| class.size() <= 64 << 10) {
        heap.lease_one(class.size(), 0).unwrap();
    }
}

#[test]
fn large_blocks_keep_to_the_high_end_so_that_they_fit_beside_small_ones() {
    let largest = Class::all().next_back().unwrap().size();
    let mut heap = heap(34 << 20);
    let first = heap.lease_one(largest, 0).unwrap();
    let small = heap.lease_for(ME, 100, 10_000, 0).unwrap();
    let second = heap.lease_one(largest, 0).unwrap();
    assert!(small.iter().all(|life| life.block < second.block) && second.block < first.block);
    assert_eq!(heap.lease_one(largest, 0), Err(LeaseError::Full));
}

#[test]
fn nothing_asked_is_nothing_leased_and_no_error() {
    assert_eq!(heap(64).lease_for(ME, 1 << 20, 0, 0), Ok(Vec::new()));
}

#[test]
fn leases_fill_the_lowest_chunk_first_so_that_others_become_empty() {
    let mut heap = heap(1 << 20);
    let lives = heap.lease_for(ME, 64, 1000, 0).unwrap();
    assert!(lives.is_sorted());
    heap.retire_all(&lives, 0);
    heap.free_due(Q);
    let mut again = heap.lease_for(ME, 64, 256, Q).unwrap();
    again.sort();
    let same_blocks = again.iter().zip(&lives).all(|(new, old)| new.block == old.block && new.count == 2);
    assert!(same_blocks, "the first chunk's 256 blocks, each in its second life");
}

#[test]
fn used_up_memory_says_when_to_ask_again() {
    let mut heap = heap(64);
    let life = heap.lease_one(64, 10).unwrap();
    assert_eq!(heap.lease_one(64, 20), Err(LeaseError::Full), "leased to someone");
    heap.publish_all(&[life], 30);
    assert_eq!(heap.lease_one(64, 40), Err(LeaseError::Full), "published");
    heap.retire_all(&[life], 50);
    assert_eq!(heap.lease_one(64, 60), Err(LeaseError::Quarantined { until_ns: 50 + Q }));
    assert_eq!(heap.lease_one(128, 60), Err(LeaseError::Full), "nothing of this class is on its way");
    assert_eq!(heap.next_due_ns(), Some(50 + Q));
    assert_eq!(heap.due_at(50 + Q - 1), []);
    assert_eq!(heap.due_at(50 + Q), [life]);
    assert_eq!(heap.next_due_ns(), None);
    let waits_for_free = Err(LeaseError::Quarantined { until_ns: 50 + Q });
    assert_eq!(heap.lease_one(64, 50 + Q), waits_for_free);
    assert_eq!(heap.due_at(50 + 9 * Q), [], "handed out once");
    heap.free(&[life]);
    assert_eq!(heap.lease_one(64, 0), Ok(Life { count: 2, ..life }));
}

#[test]
fn a_clock_that_goes_back_shortens_no_quarantine() {
    let mut heap = heap(64);
    let life = heap.lease_one(64, 1000).unwrap();
    heap.retire_all(&[life], 500);
    assert_eq!(heap.due_at(1000 + Q - 1), []);
    assert_eq!(heap.due_at(1000 + Q), [life]);
}

#[test]
fn due_lives_come_in_batches_from_all_classes() {
    let mut heap = heap(1 << 16);
    let mut lives = heap.lease_for(ME, 64, 40, 0).unwrap();
    lives.extend(heap.lease_for(ME, 4096, 5, 0).unwrap());
    heap.retire_all(&lives, 0);
    let mut due = Vec::new();
    for expected in [20, 40, 45, 45] {
        heap.due(Q, 20, &mut due);
        heap.check_invariants();
        assert_eq!(due.len(), expected);
    }
    due.sort();
    lives.sort();
    assert_eq!(due, lives);
}

#[test]
fn free_leaves_alone_what_due_did_not_hand_out() {
    let mut heap = heap(256);
    let lives = heap.lease_for(ME, 64, 4, 0).unwrap();
    heap.publish_all(&lives[..2], 0);
    heap.retire_all(&lives[..1], 0);
    heap.free(&lives);
    heap.check_invariants();
    let blocks = Blocks { leased: 2, published: 1, quarantined: 1, ..Blocks::default() };
    assert_eq!(heap.blocks(class(64)), blocks);
    let due = heap.due_at(Q);
    heap.free(&[due.clone(), due].concat());
    heap.check_invariants();
    assert_eq!(heap.blocks(class(64)).free, 1);
}

#[test]
fn the_books_tell_where_each_byte_is() {
    let mut heap = heap(1000 * 64);
    let lives = heap.lease_for(ME, 192, 10, 0).unwrap();
    assert_eq!(heap.leased_bytes(ME), 1920);
    heap.publish_all(&lives[..4], 0);
    heap.retire_all(&lives[3..6], 0);
    let usage = heap.usage();
    assert_eq!((usage.capacity, usage.leased, usage.published), (64_000, 4 * 192, 3 * 192));
    assert_eq!((usage.quarantined, usage.used(), usage.unusable), (3 * 192, 7 * 192, 0));
    assert_eq!(usage.free, 64_000 - 10 * 192);
    assert_eq!((heap.leased_bytes(ME), heap.leased_bytes(99)), (4 * 192, 0));
}

#[test]
fn a_report_is_believed_once() {
    let mut heap = heap(256);
    let lives = heap.lease_for(ME, 64, 4, 0).unwrap();
    let report = Report { published: &lives[..2], returned: &lives[2..3], retired: &lives[1..2] };
    heap.report(ME, &report, 0);
    let blocks = Blocks { leased: 1, published: 1, quarantined: 2, ..Blocks::default() };
    assert_eq!(heap.blocks(class(64)), blocks);
    assert_eq!(heap.ignored(), Ignored::default());
    heap.report(ME, &report, 0);
    assert_eq!(heap.blocks(class(64)), blocks);
    assert_eq!(heap.ignored(), Ignored { published: 2, retired: 1, returned: 1 });
}

#[test]
fn only_the_lessee_publishes_and_returns_and_anyone_retires() {
    let mut heap = heap(64);
    let life = heap.lease_one(64, 0).unwrap();
    for stranger in [OTHER, 99] {
        heap.report(stranger, &Report { published: &[life], returned: &[life], retired: &[] }, 0);
    }
    assert_eq!(heap.ignored(), Ignored { published: 2, returned: 2, retired: 0 });
    assert_eq!(heap.leased_bytes(ME), 64);
    heap.report(99, &Report { retired: &[life], ..Report::default() }, 0);
    assert_eq!(heap.leased_bytes(ME), 0);
    heap.publish_all(&[life], 0);
    assert_eq!(heap.blocks(class(64)).quarantined, 1, "its writer's report came after its retirement");
}

#[test]
fn a_report_on_another_life_of_the_block_is_ignored() {
    let mut heap = heap(64);
    let old = heap.lease_one(64, 0).unwrap();
    heap.retire_all(&[old], 0);
    heap.free_due(Q);
    heap.retire_all(&[old], Q);
    let new = heap.lease_one(64, Q).unwrap();
    heap.retire_all(&[old, Life { count: 3, ..new }], Q);
    heap.publish_all(&[old], Q);
    assert_eq!(heap.blocks(class(64)).leased, 1);
    assert_eq!(heap.ignored(), Ignored { published: 1, retired: 3, returned: 0 });
}

#[test]
fn lives_that_never_were_are_ignored() {
    let mut heap = heap(1 << 16);
    let life = heap.lease_one(256, 0).unwrap();
    let at = |granule| Block::new(granule).unwrap();
    let first = life.block.granule();
    let blocks = [0, 1, first - 1, first + 1, first + 3, first + 4, 8192 / 64 + 1024, (1 << 34) - 1];
    let mut lives: Vec<_> = blocks.map(|granule| Life { block: at(granule), count: 1 }).into();
    lives.extend([0, 2, 1 << 32 | 1, u64::MAX].map(|count| Life { count, ..life }));
    heap.report(ME, &Report { published: &lives, retired: &lives, returned: &lives }, 0);
    heap.free(&lives);
    lives.iter().for_each(|&life| heap.mark(life));
    assert!(lives.iter().all(|&life| !heap.resolve(life, Finding::Unreachable, 0)));
    heap.check_invariants();
    assert_eq!(heap.leased_bytes(ME), 256);
    assert_eq!(heap.ignored(), Ignored { published: 12, retired: 12, returned: 12 });
}

#[test]
fn a_session_must_be_open_to_lease() {
    let mut heap = heap(64);
    assert_eq!(heap.lease_for(99, 64, 1, 0), Err(LeaseError::NoSession));
    assert_eq!(heap.open_session(ME), Err(SessionError::InUse(ME)));
    assert_eq!(heap.end_session(ME), []);
    assert_eq!(heap.lease_for(ME, 64, 1, 0), Err(LeaseError::NoSession));
    assert_eq!(heap.end_session(ME), []);
    heap.open_session(ME).unwrap();
    heap.lease_one(64, 0).unwrap();
}

#[test]
fn orphans_stay_until_they_are_resolved() {
    let mut heap = heap(1 << 16);
    let lives = heap.lease_for(ME, 100, 5, 0).unwrap();
    heap.lease_for(OTHER, 100, 5, 0).unwrap();
    heap.publish_all(&lives[..1], 0);
    assert!(!heap.resolve(lives[1], Finding::Unreachable, 0), "its session is alive");
    let orphans = heap.end_session(ME);
    assert_eq!(orphans.iter().map(|orphan| orphan.life).collect::<Vec<_>>(), lives[1..]);
    assert!(orphans.iter().all(|orphan| orphan.class == class(100)));
    heap.report(ME, &Report { published: &lives[1..2], returned: &lives[2..3], retired: &[] }, 0);
    assert_eq!(heap.ignored(), Ignored { published: 1, returned: 1, retired: 0 }, "too late");

    assert!(heap.resolve(lives[1], Finding::Reachable, 1000));
    assert!(heap.resolve(lives[2], Finding::Unreachable, 1000));
    heap.retire_all(&lives[3..4], 1000);
    assert!(!heap.resolve(lives[3], Finding::Reachable, 1000), "retired while it was looked for");
    assert_eq!(heap.open_session(ME), Err(SessionError::InUse(ME)));
    let rest = heap.end_session(ME);
    assert_eq!(rest.iter().map(|orphan| orphan.life).collect::<Vec<_>>(), lives[4..]);
    assert_eq!(heap.leased_bytes(ME), class(100).size() as u64);
    assert!(heap.resolve(lives[4], Finding::Unreachable, 1000));
    assert!(!heap.resolve(lives[4], Finding::Unreachable, 1000), "once");
    heap.check_invariants();
    let blocks = heap.blocks(class(100));
    assert_eq!((blocks.leased, blocks.published, blocks.quarantined), (5, 2, 3));
    assert_eq!(heap.due_at(1000 + Q - 1), [], "what was found unreachable rests from the check on");
    assert_eq!(heap.due_at(1000 + Q).len(), 3);
    heap.open_session(ME).unwrap();
}

#[test]
fn a_long_session_remembers_what_it_holds_and_little_else() {
    let mut heap = heap(1 << 16);
    let mut kept = heap.lease_for(ME, 64, 10, 0).unwrap();
    for round in 0..1000 {
        let now = round * Q;
        heap.free_due(now);
        let lives = heap.lease_for(ME, 64, 7, now).unwrap();
        if round == 500 {
            kept.extend(lives);
        } else {
            heap.retire_all(&lives, now);
        }
    }
    let slot = heap.sessions.find(ME).unwrap();
    assert!(heap.sessions.get(slot).log.len() <= 200);
    let orphans: Vec<_> = heap.end_session(ME).iter().map(|orphan| orphan.life).collect();
    assert_eq!(orphans, kept);
}
