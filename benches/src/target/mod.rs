//! The store under test, as the load generator sees it.
//!
//! A [`Target`] is shared by all threads; each thread asks it for its own [`Session`], which only that thread uses.
//! Every call is synchronous and answers with what it did on the fabric. A session must not allocate on a read or
//! an overwrite if its figures are to mean anything.

pub mod farside;
#[cfg(feature = "lmdb")]
pub mod lmdb;
pub mod papaya;
pub mod remote;
pub mod scanned;

use std::ops::AddAssign;
use std::time::Duration;

use scanned::Scanned;
use serde::{Deserialize, Serialize};

/// A store that workloads are run against.
pub trait Target: Sync {
    /// One thread's handle.
    type Session<'a>: Session
    where
        Self: 'a;

    /// What the report's header says of the store and the way to it.
    fn description(&self) -> Description;

    /// Opens the handle of one thread, on that thread.
    ///
    /// # Errors
    /// If the store cannot be reached or refuses; the text says why and what to do.
    fn session(&self) -> Result<Self::Session<'_>, SessionError>;

    /// Processor time that the store's servers have used so far, if they tell.
    fn server_cpu(&self) -> Option<ServerCpu>;

    /// The way to the server; a store in this process has none.
    fn link(&self) -> Link {
        Link::default()
    }
}

/// The way to a store's server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    /// Connections made again so far, after one broke.
    pub reconnects: u64,
    /// What tells the server that answers from any other, one that took its place included; none if nothing answers.
    pub instance: Option<String>,
}

impl Link {
    /// Whether another server answers than `before`, an earlier reading.
    #[must_use]
    pub fn replaced_since(&self, before: &Self) -> bool {
        self.instance.is_some() && before.instance.is_some() && self.instance != before.instance
    }
}

/// Processor time of a store's servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerCpu {
    /// For connections and requests.
    pub serving: Duration,
    /// For keeping the store tidy, whoever asks for what.
    pub upkeep: Duration,
}

impl ServerCpu {
    /// What was used since `before`, an earlier reading.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            serving: self.serving.saturating_sub(before.serving),
            upkeep: self.upkeep.saturating_sub(before.upkeep),
        }
    }
}

/// One thread's synchronous handle to the store.
pub trait Session {
    /// Reads the value of `key` to `value`, in place of what is in it.
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Reply;

    /// Writes the value of `key`, whether or not the key exists.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Reply;

    /// Reads many keys at once; item `i` of each slice belongs together. Returns what the whole batch did.
    fn get_many(&mut self, keys: &[Vec<u8>], values: &mut [Vec<u8>], answers: &mut [Answer]) -> Counts;

    /// Writes many keys at once; item `i` of each slice belongs together. Returns what the whole batch did.
    fn put_many(&mut self, keys: &[Vec<u8>], values: &[Vec<u8>], answers: &mut [Answer]) -> Counts;

    /// Adds up to `length` records to `found`, which is empty: from the place of `key` in the store's order on, which
    /// need not be that of keys. Fewer, if the store has no more behind it.
    fn scan(&mut self, key: &[u8], length: usize, found: &mut Scanned) -> Reply;

    /// What the store said of the last failure, if it said more than its kind.
    fn last_failure(&self) -> Option<String> {
        None
    }
}

/// How one operation ended, and what it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// How it ended.
    pub answer: Answer,
    /// What it did on the fabric.
    pub counts: Counts,
}

/// How one operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Done.
    Done,
    /// The key is absent.
    NotFound,
    /// Not done, or not known to be done.
    Failed(ErrorKind),
}

/// Why an operation failed: the kinds of Farside's client, which other stores' errors are mapped to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// No memory or no slot for the record.
    #[error("full: the store has no room for the record; give the server more memory or load fewer records")]
    Full,
    /// Key or value longer than allowed.
    #[error("too large: a key or value is longer than the store allows; lower fieldcount or fieldlength")]
    TooLarge,
    /// No answer in time.
    #[error("deadline: no answer in time; check that the server runs and is not overloaded")]
    Deadline,
    /// The operation may or may not have taken effect.
    #[error(
        "indeterminate: the deadline passed or the connection broke, and nobody knows whether it took effect"
    )]
    Indeterminate,
    /// The server cannot be reached.
    #[error("unavailable: the server cannot be reached; check that it runs")]
    Unavailable,
    /// The server refuses this client.
    #[error("refused: the server does not accept this client; check the token")]
    Refused,
    /// Client and server do not speak the same version.
    #[error("incompatible: client and server are of different versions")]
    Incompatible,
    /// A record does not verify.
    #[error("corrupt: a record in the store is damaged")]
    Corrupt,
    /// The request makes no sense to the store.
    #[error("invalid: the store cannot make sense of the request")]
    Invalid,
}

impl ErrorKind {
    /// All kinds, in the order of their discriminants.
    pub const ALL: [Self; 9] = [
        Self::Full,
        Self::TooLarge,
        Self::Deadline,
        Self::Indeterminate,
        Self::Unavailable,
        Self::Refused,
        Self::Incompatible,
        Self::Corrupt,
        Self::Invalid,
    ];
}

/// A session could not be opened; the text says why and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SessionError(pub String);

/// What operations did on the fabric, summed up. A store that cannot tell leaves zeros and says so with
/// [`Description::counts_fabric`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Round trips waited for, one after the other.
    pub round_trips: u64,
    /// One-sided READs.
    pub reads: u64,
    /// One-sided WRITEs.
    pub writes: u64,
    /// One-sided compare-and-swaps.
    pub cas: u64,
    /// Bytes moved by READs and WRITEs.
    pub bytes: u64,
    /// Attempts beyond the first.
    pub retries: u64,
    /// Requests that the server's processor answered.
    pub two_sided: u64,
    /// Operations on a key whose place was not remembered, or had changed.
    pub hint_misses: u64,
    /// Slots brought forward: batched, off the operations' own path.
    pub forwards: u64,
    /// Round trips for that; none of them is in the counts above.
    pub upkeep_round_trips: u64,
}

impl Counts {
    /// Each count with its name in JSON.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 10] {
        [
            ("round_trips", self.round_trips),
            ("reads", self.reads),
            ("writes", self.writes),
            ("cas", self.cas),
            ("bytes", self.bytes),
            ("retries", self.retries),
            ("two_sided", self.two_sided),
            ("hint_misses", self.hint_misses),
            ("forwards", self.forwards),
            ("upkeep_round_trips", self.upkeep_round_trips),
        ]
    }

    /// What was added since `before`, an earlier state of the same sum.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            round_trips: self.round_trips - before.round_trips,
            reads: self.reads - before.reads,
            writes: self.writes - before.writes,
            cas: self.cas - before.cas,
            bytes: self.bytes - before.bytes,
            retries: self.retries - before.retries,
            two_sided: self.two_sided - before.two_sided,
            hint_misses: self.hint_misses - before.hint_misses,
            forwards: self.forwards - before.forwards,
            upkeep_round_trips: self.upkeep_round_trips - before.upkeep_round_trips,
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.round_trips += other.round_trips;
        self.reads += other.reads;
        self.writes += other.writes;
        self.cas += other.cas;
        self.bytes += other.bytes;
        self.retries += other.retries;
        self.two_sided += other.two_sided;
        self.hint_misses += other.hint_misses;
        self.forwards += other.forwards;
        self.upkeep_round_trips += other.upkeep_round_trips;
    }
}

/// What the header of a report says of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// The store's name, as given to `--db`.
    pub store: String,
    /// The server's version, or that of the library in this process.
    pub version: String,
    /// Where it runs: addresses, or "in this process".
    pub place: String,
    /// The transport in use and what it can do.
    pub transport: String,
    /// The network device, if there is one.
    pub device: Option<String>,
    /// Who may change slot and link words (`nic`, `cpu`, `coherent`), where that exists.
    pub authority: Option<String>,
    /// Whether operations report what they did on the fabric.
    pub counts_fabric: bool,
}
