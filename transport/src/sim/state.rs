//! Memory, clock and the chains under way, and how they move.

use super::event::Log;
use super::flight::{Fate, Flight, Piece, Turn};
use super::{ClientId, Conduct, Event, Rng, What};
use farside_hashtable::{Chain, Lost, Step};
use farside_protocol::Geometry;
use farside_protocol::geometry::INDEX_AT;

pub(super) struct Shard {
    pub(super) words: Vec<u64>,
    pub(super) geometry: Geometry,
}

impl Shard {
    pub(super) fn index(at: u64) -> usize {
        (at / 8) as usize
    }
}

pub(super) struct Fence {
    pub(super) ends_at: u64,
    pub(super) fails: bool,
}

pub(super) struct Client {
    pub(super) severed: bool,
    pub(super) fences: Vec<Option<Fence>>,
    pub(super) executed: u64,
}

pub(super) struct State {
    pub(super) conduct: Conduct,
    pub(super) rng: Rng,
    pub(super) shards: Vec<Shard>,
    pub(super) clients: Vec<Client>,
    pub(super) flights: Vec<Flight>,
    pub(super) posted: u64,
    pub(super) steps: u64,
    pub(super) now_ns: u64,
    pub(super) favourite: ClientId,
    pub(super) changes: u64,
    pub(super) refused: u64,
    pub(super) log: Log,
}

impl State {
    pub(super) fn new(seed: u64, conduct: Conduct, shards: &[Geometry]) -> Self {
        let shard = |geometry: &Geometry| Shard {
            words: vec![0; Shard::index(geometry.region_len())],
            geometry: *geometry,
        };
        Self {
            conduct,
            rng: Rng::new(seed),
            shards: shards.iter().map(shard).collect(),
            clients: Vec::new(),
            flights: Vec::new(),
            posted: 0,
            steps: 0,
            // Later than any span that a plan may look back.
            now_ns: 1 << 40,
            favourite: ClientId(0),
            changes: 0,
            refused: 0,
            log: Log::default(),
        }
    }

    pub(super) fn log(&mut self, client: ClientId, what: impl FnOnce() -> What) {
        if self.log.is_on() {
            self.log.push(Event { step: self.steps, at_ns: self.now_ns, client, what: what() });
        }
    }

    /// READ anywhere in the region, CAS in index and heap, WRITE in the heap, all of whole words.
    pub(super) fn may_post(
        &self,
        shard: usize,
        chain: &Chain,
        incoming_len: usize,
        outgoing_len: usize,
    ) -> bool {
        let Some(Shard { geometry, .. }) = self.shards.get(shard) else { return false };
        let fits = |at: u64, len: u64, from: u64| {
            at >= from
                && at.checked_add(len).is_some_and(|end| end <= geometry.region_len())
                && (at | len).is_multiple_of(8)
        };
        chain.iter().all(|step| match *step {
            Step::Read { at, len, to } => {
                fits(at, len.into(), 0) && to as usize + len as usize <= incoming_len
            }
            Step::Write { at, len } => {
                fits(at, len.into(), geometry.heap_at()) && len as usize <= outgoing_len
            }
            Step::CompareSwap { at, .. } => fits(at, 8, INDEX_AT),
        })
    }

    /// Decides for how long the next piece of a chain is held back.
    pub(super) fn hold(&mut self, flight: usize) {
        let flight = &mut self.flights[flight];
        let is_cas = flight
            .pieces
            .get(flight.next)
            .is_some_and(|piece| matches!(flight.chain[piece.step], Step::CompareSwap { .. }));
        let one_in = if is_cas { self.conduct.hold_cas_one_in } else { self.conduct.hold_one_in };
        if self.rng.one_in(one_in) {
            flight.held_until = self.steps + self.rng.magnitude(self.conduct.hold_steps_max);
        }
    }

    /// Drops what these chains have not executed; those that are awaited end with an error.
    pub(super) fn end_flights(&mut self, which: impl Fn(&Flight) -> bool) {
        for flight in self.flights.iter_mut().filter(|flight| which(flight)) {
            flight.cut();
            flight.outcome.get_or_insert(Err(Lost));
        }
        self.flights.retain(|flight| !flight.is_over());
    }

    /// Decides whether what a chain has not executed may still execute, now that nobody will be told.
    pub(super) fn give_up(&mut self, flight: usize) {
        if self.conduct.late && self.rng.one_in(2) {
            self.flights[flight].held_until = self.steps + self.rng.magnitude(self.conduct.hold_steps_max);
        } else {
            self.flights[flight].cut();
        }
    }

    pub(super) fn step(&mut self) {
        self.steps += 1;
        self.now_ns += 1 + self.rng.below(self.conduct.step_ns_max);
        if self.rng.one_in(self.conduct.leap_one_in) {
            self.now_ns += self.rng.magnitude(self.conduct.leap_ns_max);
        }
        let Some(at) = self.choose() else {
            if self.flights.iter().all(|flight| flight.turn().is_none()) {
                // Everybody waits for the clock.
                self.now_ns += self.rng.below(self.conduct.idle_ns_max);
            }
            return;
        };
        let flight = &mut self.flights[at];
        let client = flight.client;
        match flight.turn().expect("it was chosen for it") {
            Turn::Execute(piece) => {
                flight.next += 1;
                self.clients[client.0].executed += 1;
                self.execute(at, piece);
                self.hold(at);
            }
            Turn::Complete => flight.outcome = Some(Ok(())),
            Turn::Fail => {
                flight.outcome = Some(Err(Lost));
                self.give_up(at);
                self.log(client, || What::Lost);
            }
            Turn::FallSilent => {
                flight.fate = Fate::SilentAfter(usize::MAX);
                self.give_up(at);
                self.log(client, || What::Lost);
            }
        }
        if self.flights[at].is_over() {
            self.flights.remove(at);
        }
    }

    /// The flight whose turn it is: one that is not held back, of the favourite client if there is one.
    fn choose(&mut self) -> Option<usize> {
        if self.rng.one_in(self.conduct.burst_steps) {
            self.favourite = ClientId(self.rng.index(self.clients.len()));
        }
        let favourite = (self.conduct.burst_steps != 0).then_some(self.favourite);
        let now = self.steps;
        let (mut ready, mut chosen) = (0, None);
        for (at, flight) in self.flights.iter().enumerate() {
            if flight.held_until > now || flight.turn().is_none() {
                continue;
            }
            if Some(flight.client) == favourite {
                return Some(at);
            }
            // Each of those that are ready with the same chance, in one pass.
            ready += 1;
            if self.rng.below(ready) == 0 {
                chosen = Some(at);
            }
        }
        chosen
    }

    fn execute(&mut self, at: usize, piece: Piece) {
        let Self { flights, shards, changes, .. } = self;
        let flight = &mut flights[at];
        let shard = &mut shards[flight.shard];
        let client = flight.client;
        let what = match flight.chain[piece.step] {
            Step::Read { at, to, .. } => {
                let (from, to) = (at + piece.from as u64 * 8, to as usize + piece.from * 8);
                let source = &shard.words[Shard::index(from)..][..piece.words];
                let target = flight.incoming[to..].chunks_exact_mut(8);
                for (word, bytes) in source.iter().zip(target) {
                    let kept = u64::from_le_bytes((&*bytes).try_into().expect("eight bytes")) & !piece.mask;
                    bytes.copy_from_slice(&(word & piece.mask | kept).to_le_bytes());
                }
                let is_index = from < shard.geometry.heap_at();
                let shown =
                    source.iter().enumerate().filter(|(i, word)| **word != 0 && (is_index || *i == 0));
                let saw = if self.log.is_on() {
                    shown.map(|(i, word)| (from + i as u64 * 8, *word)).collect()
                } else {
                    Vec::new()
                };
                What::Read { at: from, words: piece.words as u32, saw }
            }
            Step::Write { at, .. } => {
                let from = at + piece.from as u64 * 8;
                let source = flight.outgoing[piece.from * 8..].chunks_exact(8);
                for (word, bytes) in shard.words[Shard::index(from)..][..piece.words].iter_mut().zip(source) {
                    *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
                }
                *changes += 1;
                What::Write { at: from, words: piece.words as u32 }
            }
            Step::CompareSwap { at, expect, new, .. } => {
                let word = &mut shard.words[Shard::index(at)];
                let seen = *word;
                if seen == expect {
                    *word = new;
                    *changes += 1;
                }
                if let Step::CompareSwap { found, .. } = &mut flight.chain[piece.step] {
                    *found = seen;
                }
                What::CompareSwap { at, expect, new, found: seen }
            }
        };
        self.log(client, || what);
    }
}
