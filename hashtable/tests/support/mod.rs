//! One shard in ordinary memory, with a clock that only the test moves, for plans that run alone.

use farside_hashtable::duties::{Duties, Forward};
use farside_hashtable::plan::{Lease, Op, Table, bring_forward};
use farside_hashtable::{Chain, Io, Lost, Step};
use farside_protocol::wire::Condition;
use farside_protocol::{
    Block, Class, Geometry, Key, KeyHash, Life, Record, RecordView, SlotIndex, SlotState, SlotWord, TableSeed,
};
use std::collections::VecDeque;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The deadline of operations that are not about deadlines.
pub(crate) const LATER: u64 = u64::MAX;

/// A shard, and the one client that works on it.
pub(crate) struct World {
    pub(crate) table: Table,
    pub(crate) io: Memory,
    pub(crate) duties: Duties,
    next_block: u64,
}

/// Another client: acts on the memory before the chain with a certain number.
pub(crate) type Rival = Box<dyn FnMut(u32, &mut Vec<u64>)>;

/// An [`Io`] over a vector of words.
pub(crate) struct Memory {
    pub(crate) words: Vec<u64>,
    pub(crate) now_ns: u64,
    pub(crate) wall_ms: u64,
    /// Chains run, the operation's round trips.
    pub(crate) round_trips: u32,
    /// Steps that read.
    pub(crate) reads: u32,
    /// How long the next chains take from their execution to their completion, nanoseconds; the others take none.
    pub(crate) delays_ns: VecDeque<u64>,
    /// Called before each chain with its number.
    pub(crate) before: Option<Rival>,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
}

impl Io for Memory {
    async fn run(&mut self, chain: &mut Chain) -> Result<(), Lost> {
        if let Some(mut before) = self.before.take() {
            before(self.round_trips, &mut self.words);
            self.before = Some(before);
        }
        self.round_trips += 1;
        for step in chain {
            match step {
                Step::Read { at, len, to } => {
                    self.reads += 1;
                    for i in 0..(*len / 8) as usize {
                        let word = self.words[*at as usize / 8 + i].to_le_bytes();
                        self.incoming[*to as usize + i * 8..][..8].copy_from_slice(&word);
                    }
                }
                Step::Write { at, len } => {
                    for i in 0..(*len / 8) as usize {
                        let word = u64::from_le_bytes(self.outgoing[i * 8..][..8].try_into().unwrap());
                        self.words[*at as usize / 8 + i] = word;
                    }
                }
                Step::CompareSwap { at, expect, new, found } => {
                    let word = &mut self.words[*at as usize / 8];
                    *found = *word;
                    if *word == *expect {
                        *word = *new;
                    }
                }
            }
        }
        let delay_ns = self.delays_ns.pop_front().unwrap_or(0);
        self.now_ns += delay_ns;
        self.wall_ms += delay_ns / 1_000_000;
        Ok(())
    }

    async fn fence(&mut self) -> Result<(), Lost> {
        Ok(())
    }

    async fn pause(&mut self, _attempt: u32) {
        self.now_ns += 1000;
    }

    fn now(&self) -> u64 {
        self.now_ns
    }

    fn wall_ms(&self) -> u64 {
        self.wall_ms
    }

    fn reserve_incoming(&mut self, len: usize) {
        if self.incoming.len() < len {
            self.incoming.resize(len, 0);
        }
    }

    fn incoming(&self) -> &[u8] {
        &self.incoming
    }

    fn outgoing(&mut self, len: usize) -> &mut [u8] {
        if self.outgoing.len() < len {
            self.outgoing.resize(len, 0);
        }
        &mut self.outgoing
    }
}

/// Runs a plan that never waits for anything but its own steps.
pub(crate) fn run<T>(plan: impl Future<Output = T>) -> T {
    match pin!(plan).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a plan over plain memory never waits"),
    }
}

impl World {
    /// A shard of 1 MiB with `lines` lines.
    pub(crate) fn new(lines: u64) -> Self {
        let geometry = Geometry::new(1 << 20, lines).unwrap();
        Self {
            table: Table { geometry, seed: TableSeed(1), quarantine_ns: 100_000_000 },
            io: Memory {
                words: vec![0; (1 << 20) / 8],
                now_ns: 1 << 40,
                wall_ms: 1_000_000,
                round_trips: 0,
                reads: 0,
                delays_ns: VecDeque::new(),
                before: None,
                incoming: Vec::new(),
                outgoing: Vec::new(),
            },
            duties: Duties::default(),
            next_block: geometry.heap_at() / 64,
        }
    }

    /// A block that was never leased before, for a record of `len` bytes.
    pub(crate) fn lease(&mut self, len: usize) -> Lease {
        let block = Block::new(self.next_block).unwrap();
        let class = Class::holding(len).unwrap();
        self.next_block += class.size() as u64 / 64;
        Lease { life: Life { block, count: 1 }, class }
    }

    pub(crate) fn op<'a>(&self, key: &'a [u8]) -> Op<'a> {
        Op::new(&self.table, Key::new(key).unwrap(), self.io.now(), LATER)
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> farside_hashtable::plan::Put {
        self.put_with(key, value, Condition::Always, None, 0)
    }

    pub(crate) fn put_with(
        &mut self,
        key: &[u8],
        value: &[u8],
        condition: Condition,
        hint: Option<farside_hashtable::hints::Hint>,
        expires_at_ms: u64,
    ) -> farside_hashtable::plan::Put {
        let record = Record { expires_at_ms, ..Record::new(Key::new(key).unwrap(), value).unwrap() };
        let lease = self.lease(record.len());
        let op = self.op(key);
        let plan = farside_hashtable::plan::put(
            &mut self.io,
            &self.table,
            &op,
            &record,
            condition,
            lease,
            hint,
            &mut self.duties,
        );
        run(plan).unwrap()
    }

    pub(crate) fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let op = self.op(key);
        let got = run(farside_hashtable::plan::get_cold(&mut self.io, &self.table, &op, None)).unwrap();
        got.map(|got| self.io.incoming()[got.value].to_vec())
    }

    /// Makes all forwards that are due.
    pub(crate) fn bring_forward(&mut self) {
        for forward in std::mem::take(&mut self.duties.forwards) {
            self.forward(forward);
        }
    }

    pub(crate) fn forward(&mut self, forward: Forward) {
        run(bring_forward(&mut self.io, &self.table, forward, LATER, &mut self.duties)).unwrap();
    }

    /// Round trips since the last call.
    pub(crate) fn round_trips(&mut self) -> u32 {
        std::mem::take(&mut self.io.round_trips)
    }

    /// The slots in use.
    pub(crate) fn slots(&self) -> Vec<(SlotIndex, SlotWord)> {
        (0..self.table.geometry.slots())
            .map(|slot| {
                (SlotIndex(slot), SlotWord::from_bits(self.io.words[SlotIndex(slot).offset() as usize / 8]))
            })
            .filter(|(_, word)| word.state() != SlotState::Empty)
            .collect()
    }

    /// The record to which the only used slot leads, its key and value.
    pub(crate) fn only_record(&self) -> (Vec<u8>, Vec<u8>) {
        let [(_, word)] = self.slots()[..] else { panic!("not one slot: {:?}", self.slots()) };
        let (at, len) = self.table.geometry.extent(word.locator()).unwrap();
        let bytes: Vec<u8> =
            self.io.words[at as usize / 8..][..len / 8].iter().flat_map(|word| word.to_le_bytes()).collect();
        let view = RecordView::verify(&bytes, word.locator()).unwrap();
        (view.key.to_vec(), view.value.to_vec())
    }

    /// `count` keys with the same window and fingerprint.
    pub(crate) fn colliding_keys(&self, count: usize) -> Vec<Vec<u8>> {
        let place = |key: &[u8]| {
            let hash = KeyHash::of(key, self.table.seed);
            (hash.home_line(self.table.geometry.lines()), hash.fingerprint())
        };
        let wanted = place(b"0");
        (0u64..).map(|i| i.to_string().into_bytes()).filter(|key| place(key) == wanted).take(count).collect()
    }
}
