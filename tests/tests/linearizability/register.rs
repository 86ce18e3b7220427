//! A register that is linearizable because it executes the model, one operation at a time, at a moment between
//! call and response: histories from it must pass, and are the ground errors are planted in.

use farside_tests::history::{Entry, Response};
use farside_tests::model::KeyState;
use farside_tests::operation::{Operation, Outcome, Time, Version};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// The version a compare-exchange expects as long as none was told; no publication has it.
pub(crate) const NEVER_TOLD: Version = Version(0);

/// What the clients do, and how much of it goes wrong. Shares are in percent.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) clients: u32,
    pub(crate) operations: usize,
    /// Operations that read.
    pub(crate) reads: u32,
    /// Operations of any kind whose response is lost, half of them before they have an effect.
    pub(crate) lost: u32,
    /// Operations that fail without an effect.
    pub(crate) failed: u32,
    /// Publications that do not report their version.
    pub(crate) unreported: u32,
    /// Publications with a time to live.
    pub(crate) expiring: u32,
    /// Whether operations add, and not only store and delete.
    pub(crate) adding: bool,
    /// Each publication stores a number of its own; otherwise one of three.
    pub(crate) unique_values: bool,
}

impl Workload {
    /// Everything the checker must cope with, at once.
    pub(crate) fn hostile(clients: u32, operations: usize) -> Self {
        Self {
            clients,
            operations,
            reads: 40,
            lost: 3,
            failed: 3,
            unreported: 20,
            expiring: 10,
            adding: true,
            unique_values: true,
        }
    }

    /// No response is lost, no value expires: every outcome is told and must fit.
    pub(crate) fn certain(clients: u32, operations: usize) -> Self {
        Self { lost: 0, failed: 0, unreported: 0, expiring: 0, ..Self::hostile(clients, operations) }
    }
}

enum Client {
    Idle,
    Called { entry: usize, fate: Fate },
    Executed { entry: usize, response: Response<u64> },
}

#[derive(Clone, Copy)]
enum Fate {
    Responds,
    Fails,
    /// The client gives up; the operation executes when it likes.
    LostBefore,
    /// As `LostBefore`, but it never executes.
    LostForGood,
}

/// A register with its clients and all they did so far.
pub(crate) struct Register {
    workload: Workload,
    rng: SmallRng,
    now: Time,
    state: KeyState<u64>,
    clients: Vec<Client>,
    /// Operations their clients have given up on and that will still execute.
    late: Vec<usize>,
    told: Vec<Version>,
    publications: u64,
    pub(crate) entries: Vec<Entry<u64>>,
}

impl Register {
    pub(crate) fn new(seed: u64, workload: Workload) -> Self {
        let clients = (0..workload.clients).map(|_| Client::Idle).collect();
        Self {
            workload,
            rng: SmallRng::seed_from_u64(seed),
            now: 0,
            state: KeyState::default(),
            clients,
            late: Vec::new(),
            told: Vec::new(),
            publications: 0,
            entries: Vec::new(),
        }
    }

    /// The history of a whole run.
    pub(crate) fn history(seed: u64, workload: Workload) -> Vec<Entry<u64>> {
        let operations = workload.operations;
        let mut register = Self::new(seed, workload);
        register.run(operations);
        register.drain();
        register.entries
    }

    /// Runs until `operations` more were called; some are still open then.
    pub(crate) fn run(&mut self, operations: usize) {
        let end = self.entries.len() + operations;
        while self.entries.len() < end {
            let client = self.rng.random_range(0..self.clients.len());
            self.step(client);
        }
    }

    /// Lets every open operation respond.
    pub(crate) fn drain(&mut self) {
        for client in 0..self.clients.len() {
            while !matches!(self.clients[client], Client::Idle) {
                self.step(client);
            }
        }
    }

    /// Executes one operation while nobody steps, and takes note of what it reports.
    pub(crate) fn execute(&mut self, operation: Operation<u64>) -> Outcome<u64> {
        let outcome = self.effect(&operation);
        self.report(operation, outcome.clone());
        outcome
    }

    /// Takes note of an operation that did not execute, as if it had reported `outcome`.
    pub(crate) fn report(&mut self, operation: Operation<u64>, outcome: Outcome<u64>) {
        let called_at = self.tick();
        let responded_at = self.tick();
        let client = self.workload.clients;
        self.entries.push(Entry {
            client,
            operation,
            called_at,
            responded_at,
            response: Response::Done(outcome),
        });
    }

    /// A number no other publication has stored.
    pub(crate) fn fresh_value(&mut self) -> u64 {
        self.publications += 1;
        // Sums of small deltas stay far from the next number.
        self.publications * 1_000_000
    }

    fn step(&mut self, client: usize) {
        let now = self.tick();
        if !self.late.is_empty() && self.percent(10) {
            let entry = self.late.swap_remove(self.rng.random_range(0..self.late.len()));
            let operation = self.entries[entry].operation.clone();
            self.effect(&operation);
        }
        self.clients[client] = match std::mem::replace(&mut self.clients[client], Client::Idle) {
            Client::Idle => self.call(client, now),
            Client::Called { entry, fate: Fate::Responds } => {
                let operation = self.entries[entry].operation.clone();
                let mut outcome = self.effect(&operation);
                if operation != Operation::Get || outcome != Outcome::NotFound {
                    self.conceal(&mut outcome);
                }
                Client::Executed { entry, response: Response::Done(outcome) }
            }
            Client::Called { entry, fate: Fate::Fails } => {
                Client::Executed { entry, response: Response::Failed }
            }
            Client::Called { entry, fate: Fate::LostBefore } => {
                self.late.push(entry);
                Client::Idle
            }
            Client::Called { fate: Fate::LostForGood, .. } => Client::Idle,
            Client::Executed { entry, response } => {
                self.entries[entry].responded_at = now;
                self.entries[entry].response = response;
                Client::Idle
            }
        };
    }

    fn call(&mut self, client: usize, now: Time) -> Client {
        let entry = self.entries.len();
        let operation = self.operation(now);
        self.entries.push(Entry {
            client: u32::try_from(client).expect("few clients"),
            operation,
            called_at: now,
            responded_at: Time::MAX,
            response: Response::Indeterminate,
        });
        let fate = if self.percent(self.workload.lost) {
            if self.percent(50) { Fate::LostBefore } else { Fate::LostForGood }
        } else if self.percent(self.workload.failed) {
            Fate::Fails
        } else {
            Fate::Responds
        };
        Client::Called { entry, fate }
    }

    fn operation(&mut self, now: Time) -> Operation<u64> {
        if self.percent(self.workload.reads) {
            return Operation::Get;
        }
        let value =
            if self.workload.unique_values { self.fresh_value() } else { self.rng.random_range(0..3) };
        let expires_at = self.percent(self.workload.expiring).then(|| now + self.rng.random_range(0..30));
        match self.rng.random_range(0..10) {
            0..4 => Operation::Put { value, expires_at },
            4 | 5 => Operation::Delete,
            6 => Operation::PutIfAbsent { value, expires_at },
            7 if self.workload.adding => Operation::FetchAdd { delta: self.rng.random_range(1..3) },
            _ => {
                let recent = self.told.len().saturating_sub(4)..self.told.len();
                let expected =
                    if recent.is_empty() { NEVER_TOLD } else { self.told[self.rng.random_range(recent)] };
                Operation::CompareExchange { expected, value, expires_at }
            }
        }
    }

    /// Executes `operation` now. Whether it finds what has expired is a matter of chance, as it is of clocks.
    fn effect(&mut self, operation: &Operation<u64>) -> Outcome<u64> {
        self.publications += 1;
        let version = Version(self.publications);
        if self.state.is_expired(self.now) && self.percent(50) {
            let absent = KeyState::default();
            let (outcome, next) = absent.execute(operation, Some(version));
            if next != absent {
                self.state = next;
            }
            return outcome;
        }
        let (outcome, next) = self.state.execute(operation, Some(version));
        self.state = next;
        outcome
    }

    /// Tells less than all now and then, and notes the versions that were told.
    fn conceal(&mut self, outcome: &mut Outcome<u64>) {
        let hide = self.percent(self.workload.unreported);
        if hide && matches!(outcome, Outcome::Deleted | Outcome::NotFound) {
            *outcome = Outcome::Absent;
        }
        if let Outcome::Found { version, .. } | Outcome::Stored { version } | Outcome::Added { version, .. } =
            outcome
        {
            if hide {
                *version = None;
            }
            self.told.extend(*version);
        }
    }

    fn tick(&mut self) -> Time {
        self.now += 1;
        self.now
    }

    fn percent(&mut self, share: u32) -> bool {
        self.rng.random_range(0..100) < share
    }
}
