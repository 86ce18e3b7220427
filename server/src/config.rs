//! What a server is told before it starts, and the check that it makes sense.

use farside_protocol::Geometry;
use farside_protocol::geometry::GeometryError;
use farside_protocol::limits::{GRANULE, LINES_PER_WINDOW, SHARDS_MAX, SLOTS_PER_LINE};
use farside_transport::address::DEFAULT_PORT;
use farside_transport::region::HugePages;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Duration;

/// How a server is set up. Every field has a default: `Config { memory: Some(64 << 20), ..Config::default() }`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Where TCP connections are accepted; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Where clients of the same host are accepted.
    pub socket: Socket,
    /// The address of the RDMA device over which clients connect queue pairs; `None`: no RDMA. Port 0 takes the
    /// port of `listen`.
    pub rdma: Option<SocketAddr>,
    /// Bounds what clients WRITE over RDMA to the blocks that they leased, by the device's memory windows.
    pub memory_windows: bool,
    /// Where `/metrics` and `/healthz` are served over HTTP, to anyone who reaches it; `None`: nowhere. Port 0 takes any
    /// free one.
    pub metrics: Option<SocketAddr>,
    /// A folder, on a tmpfs or hugetlbfs, in which the table lies and outlives the server; `None`: it goes with it. It is
    /// made if it is not there. The table of one that is stays as it was made, and `memory`, `shards` and `max_keys` must
    /// say the same or nothing.
    pub region_dir: Option<PathBuf>,
    /// Bytes of memory over all shards, index included; `None`: 1 GiB.
    pub memory: Option<u64>,
    /// Shards; `None`: one for each 256 MiB, at most one for each processor and at most eight.
    pub shards: Option<u32>,
    /// Keys for which the index has room; `None`: one for each 128 bytes of memory.
    pub max_keys: Option<u64>,
    /// Whether the memory lies on huge pages.
    pub huge_pages: HugePages,
    /// How long a retired block rests before it is used again (rule T1), whole milliseconds. An operation that
    /// takes longer from its first read to its last is repeated.
    pub quarantine: Duration,
    /// How long a key must have been expired before its memory is freed: at least what the clocks of the clients'
    /// hosts differ by, so that none of them still takes it for live.
    pub expiry_grace: Duration,
    /// A session that is silent for longer is ended.
    pub session_lease: Duration,
    /// Threads that serve connections; `None`: one for each processor.
    pub threads: Option<usize>,
    /// Most connections at one time.
    pub max_connections: usize,
    /// A file of tokens, one a line; a client must present one of them.
    pub token_file: Option<PathBuf>,
    /// Accepts clients from other hosts without a token.
    pub insecure: bool,
    /// Lets no client change the memory itself: those that may write read it, and have their changes made by the
    /// server, which checks them.
    pub untrusted_writers: bool,
}

/// The Unix socket for clients on the same host: the way to shared memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Socket {
    /// `${XDG_RUNTIME_DIR:-/tmp}/farside-UID/PORT.sock`; in /tmp as well if that folder is not there.
    Usual,
    /// At this path, in a directory that exists.
    At(PathBuf),
    /// None: every client uses TCP.
    Off,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), DEFAULT_PORT),
            socket: Socket::Usual,
            rdma: None,
            memory_windows: false,
            metrics: None,
            region_dir: None,
            memory: None,
            shards: None,
            max_keys: None,
            huge_pages: HugePages::Try,
            quarantine: Duration::from_millis(100),
            expiry_grace: Duration::from_secs(2),
            session_lease: Duration::from_secs(10),
            threads: None,
            max_connections: 10_000,
            token_file: None,
            insecure: false,
            untrusted_writers: false,
        }
    }
}

/// A configuration with which a server cannot start.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Reachable from other hosts without a token.
    #[error(
        "{0} can be reached from other hosts: give a token file (--token-file), or say --insecure to let anyone \
         read and write"
    )]
    Exposed(SocketAddr),
    /// Huge pages of a table in a folder.
    #[error(
        "--huge-pages has no meaning with --region-dir: a table in a folder on a hugetlbfs lies on huge pages, and in \
         another it does not"
    )]
    HugePages,
    /// Memory windows without RDMA, or without anybody to WRITE.
    #[error(
        "--memory-windows bounds what clients WRITE over RDMA: it needs a device (--rdma, -d), and has no meaning with \
         --untrusted-writers, where none WRITEs"
    )]
    MemoryWindows,
    /// Not a number of shards.
    #[error("{0} shards: there must be 1 to {SHARDS_MAX}")]
    Shards(u32),
    /// The index would have no lines.
    #[error("an index for no keys: --max-keys must be at least 1")]
    NoKeys,
    /// Memory and index do not fit together.
    #[error("--memory {memory} B, --shards {shards} and --max-keys {max_keys} do not fit together: {source}")]
    Memory {
        /// Asked bytes.
        memory: u64,
        /// Shards.
        shards: u32,
        /// Keys of the index.
        max_keys: u64,
        /// What is wrong in each shard.
        source: GeometryError,
    },
    /// The quarantine is too short or too long.
    #[error("a quarantine of {0:?}: it must be 20 ms to 1 h, in whole milliseconds")]
    Quarantine(Duration),
    /// The grace is too long.
    #[error("an expiry grace of {0:?}: it must be at most 1 h")]
    ExpiryGrace(Duration),
    /// The session lease is too short or too long.
    #[error("a session lease of {0:?}: it must be 100 ms to 1 h")]
    SessionLease(Duration),
    /// No threads.
    #[error("{0} threads: there must be 1 to 1024")]
    Threads(usize),
    /// No connections.
    #[error("0 connections: --max-connections must be at least 1")]
    NoConnections,
    /// The token file is of no use.
    #[error(transparent)]
    Tokens(#[from] crate::token::TokenError),
}

const MEMORY: u64 = 1 << 30;
/// Memory for which a further shard is taken by default.
const MEMORY_PER_SHARD: u64 = 256 << 20;
const SHARDS_DEFAULT_MAX: u64 = 8;
/// The smallest record is 64 bytes; an index for one key in 128 bytes takes a tenth of the memory.
const MEMORY_PER_KEY: u64 = 128;
/// Of 100 slots, how many are filled when `max_keys` are stored: a window without room is then still unheard of.
const LOAD_PERCENT: u64 = 60;

impl Config {
    /// Fails unless everything in this configuration makes sense but for the measures of the table; takes nothing from the
    /// system.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if !self.listen.ip().is_loopback() && self.token_file.is_none() && !self.insecure {
            return Err(ConfigError::Exposed(self.listen));
        }
        if self.memory_windows && (self.rdma.is_none() || self.untrusted_writers) {
            return Err(ConfigError::MemoryWindows);
        }
        if self.region_dir.is_some() && self.huge_pages != HugePages::Try {
            return Err(ConfigError::HugePages);
        }
        let whole_ms = self.quarantine.subsec_nanos().is_multiple_of(1_000_000);
        if !whole_ms || !(20..=3_600_000).contains(&self.quarantine.as_millis()) {
            return Err(ConfigError::Quarantine(self.quarantine));
        }
        if self.expiry_grace > Duration::from_secs(3600) {
            return Err(ConfigError::ExpiryGrace(self.expiry_grace));
        }
        if !(100..=3_600_000).contains(&self.session_lease.as_millis()) {
            return Err(ConfigError::SessionLease(self.session_lease));
        }
        if !(1..=1024).contains(&self.threads()) {
            return Err(ConfigError::Threads(self.threads()));
        }
        if self.max_connections == 0 {
            return Err(ConfigError::NoConnections);
        }
        Ok(())
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads.unwrap_or_else(processors)
    }

    /// The shards of a new table, and the measures of each.
    pub(crate) fn measures(&self) -> Result<(u32, Geometry), ConfigError> {
        let memory = self.memory.unwrap_or(MEMORY);
        let shards = self.shards.unwrap_or_else(|| {
            let most = SHARDS_DEFAULT_MAX.min(processors() as u64);
            (memory / MEMORY_PER_SHARD).clamp(1, most) as u32
        });
        if shards == 0 || shards as usize > SHARDS_MAX {
            return Err(ConfigError::Shards(shards));
        }
        let max_keys = self.max_keys.unwrap_or((memory / MEMORY_PER_KEY).max(1));
        if max_keys == 0 {
            return Err(ConfigError::NoKeys);
        }
        Geometry::new(memory / u64::from(shards), lines(max_keys, shards))
            .map(|geometry| (shards, geometry))
            .map_err(|source| ConfigError::Memory { memory, shards, max_keys, source })
    }

    /// What of this is not so of a table that is there.
    pub(crate) fn contradicts(&self, shards: u32, geometry: Geometry) -> Option<Contradiction> {
        let of = |flag, asked, has| Some(Contradiction { flag, asked, has });
        if let Some(asked) = self.shards.filter(|asked| *asked != shards) {
            return of("--shards", asked.to_string(), format!("{shards} shards"));
        }
        let has = geometry.region_len();
        if let Some(asked) = self.memory.filter(|asked| asked / u64::from(shards) / GRANULE * GRANULE != has)
        {
            return of("--memory", format!("{asked} B"), format!("{} B of memory", has * u64::from(shards)));
        }
        if let Some(asked) = self.max_keys.filter(|asked| lines(*asked, shards) != geometry.lines()) {
            let slots = u64::from(shards) * u64::from(geometry.slots());
            return of(
                "--max-keys",
                asked.to_string(),
                format!("an index for {} keys", slots * LOAD_PERCENT / 100),
            );
        }
        None
    }
}

/// A flag that is not so of a table that is there.
pub(crate) struct Contradiction {
    pub(crate) flag: &'static str,
    pub(crate) asked: String,
    pub(crate) has: String,
}

/// Home lines of a shard of a table for so many keys.
fn lines(max_keys: u64, shards: u32) -> u64 {
    let slots = u128::from(max_keys) * 100 / u128::from(LOAD_PERCENT);
    let lines = slots.div_ceil(u128::from(shards) * SLOTS_PER_LINE as u128) as u64;
    // The spill lines hold keys too: a tiny index needs no line more than they add up to.
    lines.saturating_sub(LINES_PER_WINDOW as u64 - 1).max(1)
}

fn processors() -> usize {
    available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_starts_on_loopback() {
        let config = Config::default();
        config.check().unwrap();
        let (shards, geometry) = config.measures().unwrap();
        assert!(config.listen.ip().is_loopback());
        let index = u64::from(shards) * geometry.heap_at();
        assert!(index * 8 < MEMORY, "the index takes {index} bytes");
    }

    #[test]
    fn other_hosts_need_a_token_or_an_explicit_word() {
        let exposed = Config { listen: "0.0.0.0:7471".parse().unwrap(), ..Config::default() };
        assert!(matches!(exposed.check(), Err(ConfigError::Exposed(_))));
        assert!(Config { insecure: true, ..exposed.clone() }.check().is_ok());
        assert!(Config { token_file: Some("tokens".into()), ..exposed }.check().is_ok());
    }

    #[test]
    fn memory_below_one_line_and_one_block_is_refused() {
        let smallest = Config { memory: Some(8256), max_keys: Some(1), ..Config::default() };
        assert!(smallest.measures().is_ok());
        for memory in [0, 1, 8255] {
            let error = Config { memory: Some(memory), ..smallest.clone() }.measures().unwrap_err();
            assert!(error.to_string().contains("at least 8256"), "{error}");
        }
    }

    #[test]
    fn the_index_has_room_for_the_keys_asked_for() {
        for (shards, max_keys) in [(1, 1), (1, 1000), (3, 1_000_000)] {
            let config = Config { shards: Some(shards), max_keys: Some(max_keys), ..Config::default() };
            let (_, geometry) = config.measures().unwrap();
            let slots = u64::from(shards) * u64::from(geometry.slots());
            assert!(slots * LOAD_PERCENT / 100 >= max_keys, "{slots} slots for {max_keys}");
        }
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let (default, rdma) = (Config::default, Some(Config::default().listen));
        for (config, says) in [
            (Config { memory_windows: true, ..default() }, "--memory-windows"),
            (
                Config { memory_windows: true, untrusted_writers: true, rdma, ..default() },
                "no meaning with --untrusted-writers",
            ),
            (
                Config { huge_pages: HugePages::Never, region_dir: Some("/dev/shm/f".into()), ..default() },
                "--huge-pages",
            ),
            (Config { shards: Some(0), ..default() }, "0 shards"),
            (Config { shards: Some(65), ..default() }, "65 shards"),
            (Config { max_keys: Some(0), ..default() }, "no keys"),
            (Config { max_keys: Some(u64::MAX), ..default() }, "--max-keys"),
            (Config { memory: Some(10 << 40), ..default() }, "--shards"),
            (Config { memory: Some(u64::MAX), shards: Some(1), ..default() }, "lines of index"),
            (Config { quarantine: Duration::from_millis(19), ..default() }, "quarantine"),
            (Config { quarantine: Duration::from_micros(100_500), ..default() }, "quarantine"),
            (Config { expiry_grace: Duration::from_secs(3601), ..default() }, "expiry grace"),
            (Config { session_lease: Duration::ZERO, ..default() }, "session lease"),
            (Config { threads: Some(0), ..default() }, "0 threads"),
            (Config { max_connections: 0, ..default() }, "0 connections"),
        ] {
            let error = config.check().and_then(|()| config.measures()).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
