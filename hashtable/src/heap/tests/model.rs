//! Random sequences of operations against a map from each life to its state, kept by the rules of the design and
//! nothing else: it knows no chunks, lists or queues.

use super::*;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use core::ops::Range;
use farside_protocol::limits::{LEASE_COUNT_MAX, TAG_PERIOD};
use proptest::prelude::*;
use proptest::sample::Index;

const PERIOD: u64 = TAG_PERIOD * Q;
const SESSIONS: u64 = 3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Truth {
    Leased(u64),
    Published,
    Resting { until: u64 },
    Draining,
}

#[derive(Clone, Debug)]
enum Operation {
    Advance(u64),
    Open(u64),
    End(u64),
    Lease {
        session: u64,
        len: usize,
        max: usize,
    },
    Report {
        session: u64,
        published: Vec<Pick>,
        retired: Vec<Pick>,
        returned: Vec<Pick>,
    },
    /// The most common end of a life, so that blocks come round often.
    RetireAll,
    Resolve {
        pick: Pick,
        reachable: bool,
    },
    Due {
        max: usize,
    },
    Free(Vec<Pick>),
    BeginMark,
    Mark(Vec<Pick>),
    FinishMark {
        blocks_max: usize,
    },
    /// Another heap goes on from the ledger, with what is published, and these of what is leased.
    Restart(Vec<Pick>),
}

/// A life to name: one that is out or resting, one that was ever issued, perhaps with another count, or any.
#[derive(Clone, Debug)]
enum Pick {
    Known(Index),
    Issued(Index, u64),
    Any(u64, u64),
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![
        8 => any::<Index>().prop_map(Pick::Known),
        2 => (any::<Index>(), 0..3u64).prop_map(|(index, later)| Pick::Issued(index, later)),
        1 => (0..1u64 << 34, any::<u64>()).prop_map(|(granule, count)| Pick::Any(granule, count)),
        1 => (128..1200u64, 0..5u64).prop_map(|(granule, count)| Pick::Any(granule, count)),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let picks = || prop::collection::vec(pick(), 0..8);
    let session = || 0..SESSIONS;
    let len = prop::sample::select(vec![1usize, 65, 129, 200, 257, 1000, 5000, 33_000]);
    prop_oneof![
        4 => prop_oneof![0..2 * Q, Just(Q), 0..PERIOD, Just(PERIOD)].prop_map(Operation::Advance),
        1 => session().prop_map(Operation::Open),
        1 => session().prop_map(Operation::End),
        8 => (session(), len, 1..20usize)
            .prop_map(|(session, len, max)| Operation::Lease { session, len, max }),
        5 => (session(), picks(), picks(), picks()).prop_map(|(session, published, retired, returned)| {
            Operation::Report { session, published, retired, returned }
        }),
        2 => Just(Operation::RetireAll),
        2 => (pick(), any::<bool>()).prop_map(|(pick, reachable)| Operation::Resolve { pick, reachable }),
        4 => (1..50usize).prop_map(|max| Operation::Due { max }),
        4 => prop::collection::vec(pick(), 0..30).prop_map(Operation::Free),
        1 => Just(Operation::BeginMark),
        2 => picks().prop_map(Operation::Mark),
        1 => (0..40usize).prop_map(|blocks_max| Operation::FinishMark { blocks_max }),
        1 => picks().prop_map(Operation::Restart),
    ]
}

/// A block in the past: which bytes, of which class, until when.
struct Past {
    bytes: Range<u64>,
    class: Class,
    retired_at: u64,
}

struct Model {
    geometry: Geometry,
    ledger: Words,
    heap: Heap,
    bounds: Range<u64>,
    now: u64,
    open: BTreeSet<u64>,
    /// Sessions that ended and hold lives.
    ended: BTreeSet<u64>,
    /// Lives that are out or on their way to be free, with their class.
    truth: BTreeMap<Life, (Class, Truth)>,
    issued: BTreeSet<Life>,
    /// By block, class and tag.
    past: BTreeMap<(Block, Class, u64), Past>,
    /// Published lives that the sweep under way will retire unless they are marked.
    suspects: BTreeSet<Life>,
    ignored: Ignored,
}

impl Model {
    fn new(bytes: u64, aged: u64) -> Self {
        let geometry = geometry(bytes);
        let ledger = Words::of(geometry);
        let mut heap = Heap::new(geometry, Q).with_ledger(ledger.boxed());
        heap.age_to(aged);
        Self {
            geometry,
            ledger,
            heap,
            bounds: geometry.heap_at()..geometry.region_len(),
            now: 0,
            open: BTreeSet::new(),
            ended: BTreeSet::new(),
            truth: BTreeMap::new(),
            issued: BTreeSet::new(),
            past: BTreeMap::new(),
            suspects: BTreeSet::new(),
            ignored: Ignored::default(),
        }
    }

    fn life(&self, pick: &Pick) -> Life {
        let any = |granule, count| Life { block: Block::new(granule).unwrap(), count };
        match pick {
            Pick::Known(index) if !self.truth.is_empty() => {
                *self.truth.keys().nth(index.index(self.truth.len())).unwrap()
            }
            Pick::Issued(index, later) if !self.issued.is_empty() => {
                let life = *self.issued.iter().nth(index.index(self.issued.len())).unwrap();
                Life { count: life.count + later, ..life }
            }
            Pick::Known(_) | Pick::Issued(..) => any(0, 0),
            Pick::Any(granule, count) => any(*granule, *count),
        }
    }

    fn lives(&self, picks: &[Pick]) -> Vec<Life> {
        picks.iter().map(|pick| self.life(pick)).collect()
    }

    fn set(&mut self, life: Life, to: Truth) {
        self.suspects.remove(&life);
        self.truth.get_mut(&life).unwrap().1 = to;
    }

    fn retire(&mut self, life: Life) {
        self.set(life, Truth::Resting { until: self.now + Q });
        let class = self.truth[&life].0;
        let bytes = bytes(life, class);
        let word = (life.block, class, life.count % TAG_PERIOD);
        self.past.insert(word, Past { bytes, class, retired_at: self.now });
    }

    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Advance(by) => self.now += by,
            Operation::Open(session) => {
                let expected = match self.open.contains(session) || self.ended.contains(session) {
                    true => Err(SessionError::InUse(*session)),
                    false => Ok(()),
                };
                assert_eq!(self.heap.open_session(*session), expected);
                if expected.is_ok() {
                    self.open.insert(*session);
                }
            }
            Operation::End(session) => self.end(*session),
            Operation::Lease { session, len, max } => self.lease(*session, class(*len), *max),
            Operation::Report { session, published, retired, returned } => {
                let lives = [published, retired, returned].map(|picks| self.lives(picks));
                self.report(*session, &lives[0], &lives[1], &lives[2]);
            }
            Operation::RetireAll => {
                let is_out = |truth| matches!(truth, Truth::Leased(_) | Truth::Published);
                let all: Vec<_> = self
                    .truth
                    .iter()
                    .filter(|(_, (_, truth))| is_out(*truth))
                    .map(|(&life, _)| life)
                    .collect();
                self.report(SESSIONS, &[], &all, &[]);
            }
            Operation::Resolve { pick, reachable } => self.resolve(self.life(pick), *reachable),
            Operation::Due { max } => self.due(*max),
            Operation::Free(picks) => {
                let lives = self.lives(picks);
                self.heap.free(&lives);
                for life in lives {
                    if matches!(self.truth.get(&life), Some((_, Truth::Draining))) {
                        self.truth.remove(&life);
                    }
                }
            }
            Operation::BeginMark => {
                self.heap.begin_mark();
                let spared = core::mem::take(&mut self.suspects);
                let published = self.truth.iter().filter(|(_, (_, truth))| *truth == Truth::Published);
                self.suspects =
                    published.map(|(&life, _)| life).filter(|life| !spared.contains(life)).collect();
            }
            Operation::Mark(picks) => {
                for life in self.lives(picks) {
                    self.heap.mark(life);
                    self.suspects.remove(&life);
                }
            }
            Operation::FinishMark { blocks_max } => self.finish_mark(*blocks_max),
            Operation::Restart(picks) => self.restart(&self.lives(picks)),
        }
    }

    fn restart(&mut self, published: &[Life]) {
        let mut recovery = self.ledger.recover(self.geometry).unwrap();
        self.truth.retain(|life, (class, truth)| {
            let is_kept = match truth {
                Truth::Published => true,
                Truth::Leased(_) => published.contains(life),
                Truth::Resting { .. } | Truth::Draining => false,
            };
            if is_kept {
                *truth = Truth::Published;
                assert!(recovery.keep(*life, *class));
                assert!(!recovery.keep(*life, *class), "another record has it");
                assert!(!recovery.keep(Life { count: LEASE_COUNT_MAX + 1, ..*life }, *class));
            }
            is_kept
        });
        self.heap = recovery.finish(self.ledger.boxed());
        (self.open, self.ended) = (BTreeSet::new(), BTreeSet::new());
        // Nobody remembers anything.
        (self.past, self.suspects) = (BTreeMap::new(), BTreeSet::new());
        self.ignored = Ignored::default();
        (0..SESSIONS).for_each(|session| self.apply(&Operation::Open(session)));
    }

    fn end(&mut self, session: u64) {
        let mut orphans = self.heap.end_session(session);
        orphans.sort_by_key(|orphan| orphan.life);
        let held = self.truth.iter().filter(|(_, (_, truth))| *truth == Truth::Leased(session));
        let held: Vec<_> = held.map(|(&life, &(class, _))| Orphan { life, class }).collect();
        assert_eq!(orphans, held);
        self.open.remove(&session);
        if !held.is_empty() {
            self.ended.insert(session);
        }
    }

    fn lease(&mut self, session: u64, class: Class, max: usize) {
        let mut lives = Vec::new();
        let outcome = self.heap.lease(session, class, max, self.now, &mut lives);
        if !self.open.contains(&session) {
            assert_eq!((outcome, lives), (Err(LeaseError::NoSession), Vec::new()));
            return;
        }
        let on_the_way =
            self.truth.values().filter(|(of, _)| *of == class).filter_map(|(_, truth)| match truth {
                Truth::Resting { until } => Some(*until),
                Truth::Draining => Some(0),
                Truth::Leased(_) | Truth::Published => None,
            });
        if let Err(error) = outcome {
            let expected = on_the_way.min().map_or(LeaseError::Full, |until| LeaseError::Quarantined {
                until_ns: if until == 0 { self.now } else { until },
            });
            assert_eq!((error, lives.len()), (expected, 0));
            assert_eq!(self.heap.blocks(class).free, 0);
            assert!(self.heap.chunks.pool.largest() < class.size() as u64, "the pool had room");
            let mut empty = self.heap.chunks.empty.iter();
            assert!(empty.all(|(since, _)| self.now - since < PERIOD), "a chunk was ripe");
            return;
        }
        assert!((1..=max).contains(&lives.len()));
        for life in lives {
            assert!(self.issued.insert(life), "{life:?} was issued before");
            assert!((1..=LEASE_COUNT_MAX).contains(&life.count));
            let bytes = bytes(life, class);
            assert!(self.bounds.start <= bytes.start && bytes.end <= self.bounds.end);
            for (word, past) in &self.past {
                let same_word = *word == (life.block, class, life.count % TAG_PERIOD);
                let overlaps = past.bytes.start < bytes.end && bytes.start < past.bytes.end;
                let moved = overlaps && (past.bytes.start, past.class) != (bytes.start, class);
                if same_word || moved {
                    assert!(self.now - past.retired_at >= PERIOD, "{life:?} too soon after {word:?}");
                }
            }
            self.truth.insert(life, (class, Truth::Leased(session)));
        }
    }

    fn report(&mut self, session: u64, published: &[Life], retired: &[Life], returned: &[Life]) {
        self.heap.report(session, &Report { published, retired, returned }, self.now);
        let state = |model: &Self, life| model.truth.get(life).map(|(_, truth)| *truth);
        let mine = self.open.contains(&session).then_some(Truth::Leased(session));
        for life in published {
            match state(self, life) {
                truth if truth.is_some() && truth == mine => self.set(*life, Truth::Published),
                _ => self.ignored.published += 1,
            }
        }
        for life in returned {
            match state(self, life) {
                truth if truth.is_some() && truth == mine => self.retire(*life),
                _ => self.ignored.returned += 1,
            }
        }
        for life in retired {
            match state(self, life) {
                Some(Truth::Leased(_) | Truth::Published) => self.retire(*life),
                _ => self.ignored.retired += 1,
            }
        }
    }

    fn resolve(&mut self, life: Life, reachable: bool) {
        let finding = if reachable { Finding::Reachable } else { Finding::Unreachable };
        let truth = self.truth.get(&life).map(|(_, truth)| *truth);
        let is_orphan = matches!(truth, Some(Truth::Leased(by)) if self.ended.contains(&by));
        assert_eq!(self.heap.resolve(life, finding, self.now), is_orphan);
        match (is_orphan, finding) {
            (false, _) => (),
            (true, Finding::Reachable) => self.set(life, Truth::Published),
            (true, Finding::Unreachable) => self.retire(life),
        }
    }

    fn due(&mut self, max: usize) {
        let mut lives = Vec::new();
        self.heap.due(self.now, max, &mut lives);
        let ready = self.truth.values().filter(|(_, truth)| match truth {
            Truth::Resting { until } => *until <= self.now,
            _ => false,
        });
        assert_eq!(lives.len(), ready.count().min(max));
        for life in lives {
            assert!(matches!(self.truth[&life].1, Truth::Resting { until } if until <= self.now));
            self.set(life, Truth::Draining);
        }
    }

    fn finish_mark(&mut self, blocks_max: usize) {
        let progress = self.heap.finish_mark(self.now, blocks_max);
        for life in self.suspects.clone() {
            if matches!(self.heap.chunks.current(life), Some((_, State::Quarantined))) {
                self.retire(life);
            }
        }
        assert!(progress == SweepProgress::More || self.suspects.is_empty(), "{:?} left", self.suspects);
    }

    /// Everything the heap says against everything the model knows.
    fn check(&mut self) {
        self.heap.check_invariants();
        let leased = |by: u64| self.truth.values().filter(move |(_, truth)| *truth == Truth::Leased(by));
        self.ended = self.ended.iter().copied().filter(|&session| leased(session).count() > 0).collect();
        for session in 0..SESSIONS {
            let bytes = leased(session).map(|(class, _)| class.size() as u64).sum::<u64>();
            assert_eq!(self.heap.leased_bytes(session), bytes);
        }
        let mut usage = Usage::default();
        let mut end = 0;
        for (&life, &(class, truth)) in &self.truth {
            let bytes = bytes(life, class);
            assert!(bytes.start >= end, "{life:?} overlaps the block before it");
            end = bytes.end;
            let (_, state) = self.heap.chunks.current(life).expect("the model's lives are current");
            let (agrees, count) = match truth {
                Truth::Leased(_) => (matches!(state, State::Leased { .. }), &mut usage.leased),
                Truth::Published => (matches!(state, State::Published { .. }), &mut usage.published),
                Truth::Resting { .. } => (state == State::Quarantined, &mut usage.quarantined),
                Truth::Draining => (state == State::Draining, &mut usage.quarantined),
            };
            assert!(agrees, "{life:?} is {truth:?} in the model and {state:?} in the heap");
            *count += class.size() as u64;
        }
        let Usage { capacity, free, unusable, .. } = self.heap.usage();
        assert_eq!(self.heap.usage(), Usage { capacity, free, unusable, ..usage });
        let next_due = self.truth.values().filter_map(|(_, truth)| match truth {
            Truth::Resting { until } => Some(*until),
            _ => None,
        });
        assert_eq!(self.heap.next_due_ns(), next_due.min());
        assert_eq!(self.heap.ignored(), self.ignored);
    }
}

fn bytes(life: Life, class: Class) -> Range<u64> {
    let start = life.block.offset();
    start..start + class.size() as u64
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn the_heap_does_what_the_rules_say(
        granules in prop_oneof![1..8u64, 8..64u64, 64..1100u64],
        aged in prop_oneof![3 => Just(0), 1 => Just(TAG_PERIOD - 2), 2 => Just(LEASE_COUNT_MAX - 2)],
        operations in prop::collection::vec(operation(), 0..120),
    ) {
        let mut model = Model::new(granules * 64, aged);
        (0..SESSIONS).for_each(|session| model.apply(&Operation::Open(session)));
        for operation in &operations {
            model.apply(operation);
            model.check();
        }
    }
}
