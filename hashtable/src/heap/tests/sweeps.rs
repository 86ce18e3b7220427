//! Mark and sweep.

use super::*;

impl Heap {
    fn published(&mut self, blocks: usize, now: u64) -> Vec<Life> {
        let lives = self.lease_for(ME, 64, blocks, now).unwrap();
        self.publish_all(&lives, now);
        lives
    }

    /// Finishes in pieces of `blocks_max` blocks; returns how many pieces, and how many lives were retired.
    fn finish(&mut self, now: u64, blocks_max: usize) -> (usize, u64) {
        for pieces in 1.. {
            let progress = self.finish_mark(now, blocks_max);
            self.check_invariants();
            if let SweepProgress::Done { retired } = progress {
                return (pieces, retired);
            }
        }
        unreachable!("each piece covers at least a unit")
    }
}

#[test]
fn what_the_walk_does_not_reach_rests_from_the_end_of_the_sweep() {
    let mut heap = heap(1 << 16);
    let lives = heap.published(10, 0);
    heap.begin_mark();
    lives[..7].iter().for_each(|&life| heap.mark(life));
    assert_eq!(heap.finish(50, usize::MAX), (1, 3));
    assert_eq!(heap.due_at(50 + Q - 1), []);
    assert_eq!(heap.due_at(50 + Q), lives[7..]);
    heap.retire_all(&lives[6..8], 50);
    assert_eq!(heap.ignored().retired, 1, "the winner's late report of what the sweep found first");
    assert_eq!(heap.blocks(class(64)).published, 6);
}

#[test]
fn what_is_published_while_the_walk_goes_on_is_spared() {
    let mut heap = heap(128);
    let [old, leased] = heap.lease_for(ME, 64, 2, 0).unwrap()[..] else { panic!("two blocks") };
    heap.publish_all(&[old], 0);
    heap.begin_mark();
    heap.publish_all(&[leased], 0);
    heap.retire_all(&[old], 0);
    heap.free_due(Q);
    let anew = heap.lease_one(64, Q).unwrap();
    assert_eq!(anew.block, old.block);
    heap.publish_all(&[anew], Q);
    assert_eq!(heap.finish(Q, usize::MAX).1, 0);
    assert_eq!(heap.blocks(class(64)).published, 2);
    heap.begin_mark();
    assert_eq!(heap.finish(Q, usize::MAX).1, 2, "by the next sweep they are like all others");
}

#[test]
fn a_mark_of_an_earlier_life_marks_nothing() {
    let mut heap = heap(64);
    let old = heap.published(1, 0)[0];
    heap.retire_all(&[old], 0);
    heap.free_due(Q);
    heap.published(1, Q);
    heap.begin_mark();
    heap.mark(old);
    assert_eq!(heap.finish(Q, usize::MAX).1, 1);
}

#[test]
fn leased_blocks_and_orphans_are_not_swept_and_resolved_ones_are_spared_once() {
    let mut heap = heap(1 << 16);
    let lives = heap.lease_for(ME, 64, 3, 0).unwrap();
    heap.end_session(ME);
    heap.begin_mark();
    assert!(heap.resolve(lives[0], Finding::Reachable, 0));
    assert_eq!(heap.finish(0, usize::MAX).1, 0);
    heap.begin_mark();
    assert_eq!(heap.finish(0, usize::MAX).1, 1);
    assert_eq!(heap.blocks(class(64)).leased, 2);
}

#[test]
fn a_sweep_ends_in_pieces_and_spares_what_is_published_between_them() {
    let mut heap = heap(1 << 16);
    let lives = heap.published(1000, 0);
    let late = heap.lease_for(ME, 64, 8, 0).unwrap();
    heap.begin_mark();
    lives.iter().step_by(2).for_each(|&life| heap.mark(life));
    assert_eq!(heap.finish_mark(0, 1), SweepProgress::More);
    heap.publish_all(&late, 0);
    let (pieces, retired) = heap.finish(0, 1);
    assert!(pieces > 60, "at least one for each chunk: {pieces}");
    assert_eq!(retired, 500);
    assert_eq!(heap.blocks(class(64)).published, 508);
}

#[test]
fn without_a_beginning_there_is_nothing_to_finish() {
    let mut heap = heap(64);
    heap.published(1, 0);
    assert_eq!(heap.finish_mark(0, 0), SweepProgress::Done { retired: 0 });
    heap.begin_mark();
    assert_eq!(heap.finish(0, 0).1, 1);
    assert_eq!(heap.finish_mark(0, 0), SweepProgress::Done { retired: 0 });
}

#[test]
fn a_sweep_that_is_given_up_frees_nothing_and_the_one_after_next_finds_all() {
    let mut heap = heap(1 << 16);
    let lives = heap.published(4, 0);
    let [kept, also_kept, lost, also_lost] = lives[..] else { panic!("four blocks") };
    heap.begin_mark();
    heap.mark(kept);
    heap.mark(lost);
    heap.begin_mark();
    heap.mark(kept);
    heap.mark(also_kept);
    assert_eq!(heap.finish(0, usize::MAX).1, 1, "`lost` was reachable when it was marked");
    heap.begin_mark();
    heap.mark(kept);
    heap.mark(also_kept);
    assert_eq!(heap.finish(0, usize::MAX).1, 1);
    assert_eq!(heap.due_at(Q).len(), 2);
    heap.retire_all(&[lost, also_lost], Q);
    assert_eq!(heap.ignored().retired, 2);
}
