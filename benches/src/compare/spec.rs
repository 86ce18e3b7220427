//! What can be compared, by name.

use std::fmt;
use std::str::FromStr;

use crate::cli::Db;
use crate::workload::names;

/// A store and the way to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    name: &'static str,
    /// The store.
    pub db: Db,
    /// The way to it.
    pub way: Way,
    /// Programs that are its server: the first that is found is taken.
    pub programs: &'static [&'static str],
}

/// The way to a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It is in this process.
    Here,
    /// Shared memory.
    Shm,
    /// TCP over the loopback address.
    Tcp,
    /// A Unix socket.
    Unix,
}

const REDIS: &[&str] = &["redis-server", "valkey-server"];
const VALKEY: &[&str] = &["valkey-server"];
const MEMCACHED: &[&str] = &["memcached"];

const fn spec(name: &'static str, db: Db, way: Way, programs: &'static [&'static str]) -> Spec {
    Spec { name, db, way, programs }
}

/// All that can be compared.
pub const ALL: [Spec; 10] = [
    spec("farside:shm", Db::Farside, Way::Shm, &[]),
    spec("farside:tcp", Db::Farside, Way::Tcp, &[]),
    spec("redis:unix", Db::Redis, Way::Unix, REDIS),
    spec("redis:tcp", Db::Redis, Way::Tcp, REDIS),
    spec("valkey:unix", Db::Redis, Way::Unix, VALKEY),
    spec("valkey:tcp", Db::Redis, Way::Tcp, VALKEY),
    spec("memcached:unix", Db::Memcached, Way::Unix, MEMCACHED),
    spec("memcached:tcp", Db::Memcached, Way::Tcp, MEMCACHED),
    spec("papaya", Db::Papaya, Way::Here, &[]),
    spec("lmdb", Db::Lmdb, Way::Here, &[]),
];

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        ALL.into_iter().find(|spec| spec.name == text).ok_or_else(|| {
            let known = ALL.map(|spec| spec.name);
            let meant = names::closest(text, known).map(|name| format!("; did you mean {name}?"));
            format!("there are {}{}", known.join(", "), meant.unwrap_or_default())
        })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}
