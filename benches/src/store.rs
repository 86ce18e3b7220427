//! From the flags to the store under test, or why it cannot be had.

use farside::TransportChoice;

use crate::cli::{Db, Options, StoreFlags};
use crate::job::JobError;
use crate::plan::{Job, Plan};
use crate::target::SessionError;
use crate::target::farside::Farside;
use crate::target::remote::memcached;
use crate::target::remote::{Protocol, Remote};
use crate::workload::mix::Operation;

/// LMDB's longest key, bytes.
const LMDB_KEY_MAX: usize = 511;

/// A store that cannot be used as asked. All of it is wrong usage: exit code 2.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Memory of another's server.
    #[error("--memory is for a server in this process; this job uses another")]
    Memory,
    /// Load or run of what begins empty.
    #[error("{0} starts empty in this process; leave out the command to load and run it")]
    StartsEmpty(Db),
    /// Flags for Farside alone.
    #[error("--transport, --require, --token-file, --hint-memory and --memory are for --db farside")]
    FarsideOnly,
    /// A server for what has none.
    #[error(
        "{0} is in this process: --server and --memory are for --db farside, --server for redis and memcached too"
    )]
    NoServer(Db),
    /// Scans of what has none.
    #[error(
        "{0} cannot run this workload, for it scans, and {0} has no scan that begins at a key and ends after a number of \
         records; set scanproportion=0, or choose one of the workloads a, b, c, d, f"
    )]
    NoScan(Db),
    /// Keys that are too long.
    #[error(
        "keys of up to {longest} bytes are too long for {db}, whose keys end at {max}; lower zeropadding"
    )]
    Keys {
        /// The store.
        db: Db,
        /// The workload's longest, bytes.
        longest: usize,
        /// The store's longest, bytes.
        max: usize,
    },
    /// A build without LMDB.
    #[error(
        "this farside-bench was built without LMDB; build it with --features lmdb, which wants a C compiler"
    )]
    NotBuilt,
}

/// Whether the store of `flags` can be had, and `plan` be done with it.
///
/// # Errors
/// If not.
pub fn check(plan: &Plan, flags: &StoreFlags) -> Result<(), StoreError> {
    let db = flags.db;
    check_workload(plan, db)?;
    let is_embedded = matches!(db, Db::Papaya | Db::Lmdb);
    if is_embedded && plan.job != Job::Default {
        return Err(StoreError::StartsEmpty(db));
    }
    if is_embedded && (flags.server.is_some() || flags.memory.is_some()) {
        return Err(StoreError::NoServer(db));
    }
    let farside_only = flags.memory.is_some()
        || flags.hint_memory.is_some()
        || flags.token_file.is_some()
        || !flags.require.is_empty()
        || flags.transport != TransportChoice::Auto;
    if db != Db::Farside && farside_only {
        return Err(StoreError::FarsideOnly);
    }
    Ok(())
}

/// Whether the workload of `plan` can be run on `db`.
///
/// # Errors
/// If not.
pub fn check_workload(plan: &Plan, db: Db) -> Result<(), StoreError> {
    if matches!(db, Db::Redis | Db::Memcached) && plan.workload.mix.share(Operation::Scan) > 0.0 {
        return Err(StoreError::NoScan(db));
    }
    let (longest, max) = (
        plan.workload.keys.max_len(),
        match db {
            Db::Memcached => memcached::KEY_MAX,
            Db::Lmdb => LMDB_KEY_MAX,
            Db::Farside | Db::Papaya | Db::Redis => usize::MAX,
        },
    );
    if longest > max {
        return Err(StoreError::Keys { db, longest, max });
    }
    if db == Db::Lmdb && !cfg!(feature = "lmdb") {
        return Err(StoreError::NotBuilt);
    }
    Ok(())
}

/// In which order the scans of `db` go, for reports.
#[must_use]
pub fn order_of_scans(db: Db) -> &'static str {
    match db {
        Db::Lmdb => "in the order of keys",
        Db::Papaya => "each the map's first, in no order: no ranges of keys",
        Db::Farside | Db::Redis | Db::Memcached => "in the order of the keys' hashes: no ranges of keys",
    }
}

/// The Farside server that the flags name; without a command and without one, a server in this process.
///
/// # Errors
/// If it cannot be reached, or started.
pub fn farside(plan: &Plan, Options { store: flags, rdma, .. }: &Options) -> Result<Farside, JobError> {
    let mut client = farside::Client::builder()
        .transport(flags.transport)
        .rdma(rdma.settings())
        .deadline(flags.deadline)
        .name("farside-bench");
    if let Some(memory) = flags.hint_memory {
        client = client.hint_memory(usize::try_from(memory.as_u64()).unwrap_or(usize::MAX));
    }
    for &requirement in &flags.require {
        client = client.require(requirement);
    }
    if let Some(path) = &flags.token_file {
        client = client.token_file(path);
    }
    match (&flags.server, flags.memory) {
        (None, memory) if plan.job == Job::Default => {
            let memory = match memory {
                Some(memory) => memory.as_u64(),
                None => plan.table_memory()?,
            };
            Ok(Farside::embed(memory, client)?)
        }
        (_, Some(_)) => Err(StoreError::Memory.into()),
        (server, None) => {
            let address = server.as_deref().unwrap_or(farside::DEFAULT_ADDRESS);
            Ok(Farside::connect(client.address(address))?)
        }
    }
}

/// The server of another kind that the flags name.
///
/// # Errors
/// If it does not answer as one of that kind.
pub fn remote<P: Protocol>(flags: &StoreFlags) -> Result<Remote<P>, SessionError> {
    Remote::connect(flags.server.as_deref().unwrap_or("127.0.0.1"), flags.deadline)
}

/// An empty LMDB with room for the records of `plan`.
///
/// # Errors
/// If there is no place for it.
#[cfg(feature = "lmdb")]
pub fn lmdb(plan: &Plan) -> Result<crate::target::lmdb::Lmdb, JobError> {
    // Its pages are half full at worst, and changed ones are written anew; what is not used takes no memory.
    let memory = plan.table_memory()?.saturating_mul(4);
    Ok(crate::target::lmdb::Lmdb::new(memory)?)
}
