//! The handle to a world: what its users, its server and whoever watches may do.

use super::flight::{Fate, Flight, break_up};
use super::state::{Client, Fence, Shard, State};
use super::{Conduct, Event, Sim, What};
use farside_hashtable::{Chain, Lost, Step};
use farside_protocol::Geometry;
use std::cell::RefCell;
use std::rc::Rc;

/// A connection to a world, numbered from 0 in the order of [`World::connect`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientId(pub usize);

/// What an epoch's milliseconds begin at, so that expiries look like real ones.
const WALL_EPOCH_MS: u64 = 1_700_000_000_000;

/// Longest a fence takes, steps.
const FENCE_STEPS_MAX: u64 = 40;

/// A simulated server's memory and everybody's way to it. Cloning it gives another handle to the same world.
#[derive(Clone)]
pub struct World(Rc<RefCell<State>>);

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.0.borrow();
        f.debug_struct("World").field("step", &state.steps).field("in_flight", &state.flights.len()).finish()
    }
}

impl World {
    /// Zeroed shards with these measures, behind a fabric with this conduct; `seed` decides everything else.
    pub fn new(seed: u64, conduct: Conduct, shards: &[Geometry]) -> Self {
        Self(Rc::new(RefCell::new(State::new(seed, conduct, shards))))
    }

    /// A new connection to all shards.
    pub fn connect(&self) -> Sim {
        let mut state = self.0.borrow_mut();
        let fences = state.shards.iter().map(|_| None).collect();
        state.clients.push(Client { severed: false, fences, executed: 0 });
        Sim::new(self.clone(), ClientId(state.clients.len() - 1))
    }

    /// Destroys a client's connection from the server's side: nothing it posted executes any more, and nothing it
    /// posts from now on will.
    pub fn sever(&self, client: ClientId) {
        let mut state = self.0.borrow_mut();
        state.clients[client.0].severed = true;
        state.end_flights(|flight| flight.client == client);
        state.log(client, || What::Severed);
    }

    /// Ends every chain under way with an error, as transports do when their retries are over: what of it has not
    /// executed never will.
    pub fn break_connections(&self) {
        self.0.borrow_mut().end_flights(|_| true);
    }

    /// Lets one thing happen: a piece of some chain executes, or its user is to be told of its end. Time passes also
    /// if there is nothing left to happen.
    pub fn step(&self) {
        self.0.borrow_mut().step();
    }

    /// Lets `ns` nanoseconds pass.
    pub fn leap(&self, ns: u64) {
        self.0.borrow_mut().now_ns += ns;
    }

    /// True time, nanoseconds, from an arbitrary start.
    pub fn now_ns(&self) -> u64 {
        self.0.borrow().now_ns
    }

    /// Time as the coarse clock that all users share shows it: never ahead of [`World::now_ns`], at most a tick
    /// behind.
    pub fn coarse_ns(&self) -> u64 {
        let state = self.0.borrow();
        state.now_ns / state.conduct.tick_ns * state.conduct.tick_ns
    }

    /// Milliseconds of the Unix epoch.
    pub fn wall_ms(&self) -> u64 {
        WALL_EPOCH_MS + self.now_ns() / 1_000_000
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.0.borrow().steps
    }

    /// How often memory was changed so far.
    pub fn changes(&self) -> u64 {
        self.0.borrow().changes
    }

    /// Pieces executed for `client` so far.
    pub fn executed(&self, client: ClientId) -> u64 {
        self.0.borrow().clients[client.0].executed
    }

    /// Whether anything posted by `client` may still execute.
    pub fn is_in_flight(&self, client: ClientId) -> bool {
        self.0.borrow().flights.iter().any(|flight| flight.client == client)
    }

    /// Chains so far that asked for memory outside the region, or to change what only the server may. Each is a
    /// defect of whoever posted it.
    pub fn refused(&self) -> u64 {
        self.0.borrow().refused
    }

    /// Shows the words of a shard as they are now to `look`.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn inspect<T>(&self, shard: usize, look: impl FnOnce(&[u64]) -> T) -> T {
        look(&self.0.borrow().shards[shard].words)
    }

    /// Flips bit `bit` of the word at offset `at` of a shard, as failing memory does.
    ///
    /// # Panics
    /// If there is no such word, or no such bit.
    pub fn flip(&self, shard: usize, at: u64, bit: u64) {
        assert!(bit < 64, "a word has 64 bits");
        self.0.borrow_mut().shards[shard].words[Shard::index(at)] ^= 1 << bit;
    }

    /// Changes how the fabric behaves to chains posted from now on.
    pub fn set_conduct(&self, conduct: Conduct) {
        self.0.borrow_mut().conduct = conduct;
    }

    /// Keeps the last `capacity` events from now on.
    pub fn keep_events(&self, capacity: usize) {
        self.0.borrow_mut().log.keep(capacity);
    }

    /// Adds a remark to the events, if they are kept.
    pub fn note(&self, client: ClientId, remark: impl FnOnce() -> String) {
        self.0.borrow_mut().log(client, || What::Note(remark()));
    }

    /// The events that were kept, oldest first.
    pub fn events(&self) -> Vec<Event> {
        self.0.borrow().log.events().cloned().collect()
    }

    pub(super) fn conduct(&self) -> Conduct {
        self.0.borrow().conduct
    }

    /// Takes a chain on; `Err` if it is refused at once.
    pub(super) fn post(
        &self,
        client: ClientId,
        shard: usize,
        chain: &Chain,
        incoming_len: usize,
        outgoing: &[u8],
    ) -> Result<u64, Lost> {
        let state = &mut *self.0.borrow_mut();
        if state.clients[client.0].severed {
            return Err(Lost);
        }
        if !state.may_post(shard, chain, incoming_len, outgoing.len()) {
            state.refused += 1;
            return Err(Lost);
        }
        let pieces = break_up(chain, &state.conduct, &mut state.rng);
        let (conduct, rng) = (&state.conduct, &mut state.rng);
        let fate = match () {
            () if rng.one_in(conduct.fail_one_in) => Fate::FailsAfter(rng.index(pieces.len() + 1)),
            () if rng.one_in(conduct.silence_one_in) => Fate::SilentAfter(rng.index(pieces.len() + 1)),
            () => Fate::Completes,
        };
        let id = state.posted;
        state.posted += 1;
        state.flights.push(Flight {
            id,
            client,
            shard,
            chain: chain.clone(),
            pieces,
            next: 0,
            held_until: 0,
            fate,
            outcome: None,
            awaited: true,
            incoming: vec![0; incoming_len],
            outgoing: outgoing.to_vec(),
        });
        state.hold(state.flights.len() - 1);
        Ok(id)
    }

    /// What a chain came to, with its words found and what it read; `None` while it is under way.
    pub(super) fn take_outcome(
        &self,
        flight: u64,
        chain: &mut Chain,
        incoming: &mut [u8],
    ) -> Option<Result<(), Lost>> {
        let state = &mut *self.0.borrow_mut();
        let at = state.flights.iter().position(|other| other.id == flight).expect("it is awaited");
        let flight = &mut state.flights[at];
        let outcome = flight.outcome?;
        flight.awaited = false;
        if outcome.is_ok() {
            chain.clone_from(&flight.chain);
            for step in chain.iter() {
                if let Step::Read { len, to, .. } = *step {
                    let range = to as usize..to as usize + len as usize;
                    incoming[range.clone()].copy_from_slice(&flight.incoming[range]);
                }
            }
        }
        if flight.is_over() {
            state.flights.remove(at);
        }
        Some(outcome)
    }

    pub(super) fn abandon(&self, flight: u64) {
        let state = &mut *self.0.borrow_mut();
        let at = state.flights.iter().position(|other| other.id == flight).expect("it is awaited");
        state.flights[at].awaited = false;
        state.flights[at].fate = Fate::Completes;
        let client = state.flights[at].client;
        state.give_up(at);
        state.flights.retain(|flight| !flight.is_over());
        state.log(client, || What::Abandoned);
    }

    /// Moves the fence of `client` on.
    pub(super) fn poll_fence(&self, client: ClientId, shard: usize) -> Option<Result<(), Lost>> {
        let state = &mut *self.0.borrow_mut();
        if state.clients[client.0].severed {
            return Some(Err(Lost));
        }
        let now = state.steps;
        let Some(fence) = state.clients[client.0].fences[shard].take_if(|fence| fence.ends_at <= now) else {
            if state.clients[client.0].fences[shard].is_none() {
                let ends_at = now + 1 + state.rng.magnitude(FENCE_STEPS_MAX);
                let fails = state.rng.one_in(state.conduct.fence_fails_one_in);
                state.clients[client.0].fences[shard] = Some(Fence { ends_at, fails });
            }
            state.step();
            return None;
        };
        if fence.fails {
            return Some(Err(Lost));
        }
        state.end_flights(|flight| flight.client == client && flight.shard == shard);
        state.log(client, || What::Fenced);
        Some(Ok(()))
    }
}
