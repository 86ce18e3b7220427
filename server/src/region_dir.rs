//! The table in files, so that it outlives the server: a folder on a filesystem that is memory, with a file for each shard
//! and the [ledger](ledger) of their heaps.
//!
//! ```text
//! PATH/           locked by the server that runs on it
//!   ledger        what the servers alone must know; mapped by them alone
//!   shard-0 ..    the shards; passed to clients, each time with a lock
//! PATH.new/       while it is being made
//! ```
//! | file | what |
//! |---|---|
//! | `create` | a new table, there as a whole or not at all |
//! | `find` | a table that is there: judged, and nothing changed |
//! | `former` | the wait until nobody of the former run reaches it |
//! | `recover` | its repair |
//! | `ledger` | what is in the ledger |

mod create;
mod find;
mod former;
mod ledger;
mod recover;
#[cfg(test)]
mod tests;

pub(crate) use create::create;
pub(crate) use find::{Found, find};
pub(crate) use recover::Recovered;

use crate::shard::Shard;
use farside_protocol::superblock::SuperblockError;
use farside_transport::region::{FileError, Holder, locker};
use ledger::LedgerFile;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fmt::Write as _;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LEDGER: &str = "ledger";

fn shard_name(shard: u32) -> String {
    format!("shard-{shard}")
}

/// A table in files, open.
pub(crate) struct RegionDir {
    pub(crate) shards: Box<[Arc<Shard>]>,
    /// What was found, unless the table is new.
    pub(crate) recovered: Option<Recovered>,
    pub(crate) lock: DirLock,
}

impl RegionDir {
    pub(crate) fn into_parts(self) -> (Box<[Arc<Shard>]>, Option<Recovered>, Option<DirLock>) {
        (self.shards, self.recovered, Some(self.lock))
    }
}

/// The folder's lock: it is this server's for as long as there is this value.
#[derive(Debug)]
pub(crate) struct DirLock {
    folder: OwnedFd,
    pub(crate) path: PathBuf,
}

/// Why a server cannot have its table in a folder. Nothing in the folder was changed, unless it says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// Another server has it.
    #[error(
        "the table in {path} is another server's{}: stop that one, or give this one a folder of its own (--region-dir)",
        by(holder.as_slice())
    )]
    InUse {
        /// The folder.
        path: PathBuf,
        /// The server, if it is known.
        holder: Option<Holder>,
    },
    /// Processes of the former run still reach it.
    #[error(
        "the table in {path} is still mapped{}: they were clients of the server before, have not noticed its end, and may yet \
         change it; let them go on if they are stopped, or end them, and start again",
        by(holders)
    )]
    Held {
        /// The folder.
        path: PathBuf,
        /// Those that are known.
        holders: Vec<Holder>,
    },
    /// The server before has not ended.
    #[error(
        "the server before on the table in {path} has not ended yet{}: wait until it has, and start again",
        by(std::slice::from_ref(holder))
    )]
    Ending {
        /// The folder.
        path: PathBuf,
        /// That server.
        holder: Holder,
    },
    /// The folder around it is not there.
    #[error("cannot make {path}: there is no folder {}; make it, or choose another one (--region-dir)", parent(path).display())]
    NoParent {
        /// The folder.
        path: PathBuf,
    },
    /// There is something else.
    #[error("{path} {what}: choose a folder that is not there yet, or is empty (--region-dir)")]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A file cannot be had.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: FileError,
    },
    /// The table is one for another build.
    #[error(
        "{path}: {source}; or, to begin with an empty table, remove the folder {}: what is stored is lost then",
        parent(path).display()
    )]
    Layout {
        /// The file.
        path: PathBuf,
        /// Which.
        source: SuperblockError,
    },
    /// It is damaged.
    #[error(
        "{path} is damaged ({what}), so what is stored cannot be told from what is not: to begin with an empty table, remove \
         the folder {}, and look for failing memory, or for a program that writes there",
        parent(path).display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How that is known.
        what: String,
    },
    /// The configuration says something else.
    #[error(
        "the table in {path} has {has}, and {flag} says {asked}: leave {flag} out, for the table stays as it was made; or, to \
         begin with an empty one, remove the folder: what is stored is lost then"
    )]
    Contradiction {
        /// The folder.
        path: PathBuf,
        /// What says so.
        flag: &'static str,
        /// What it says.
        asked: String,
        /// What is so.
        has: String,
    },
    /// The kernel refused a step.
    #[error("cannot {step} {path}: {source}")]
    System {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        step: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

/// By whom, if that is known.
fn by(holders: &[Holder]) -> String {
    let mut text = String::new();
    for holder in holders {
        let _ = write!(text, "{} {holder}", if text.is_empty() { ", by process" } else { "," });
    }
    text
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn failed(path: &Path, step: &'static str) -> impl FnOnce(Errno) -> RegionError {
    move |error| RegionError::System { path: path.into(), step, source: error.into() }
}

fn in_file(path: &Path, name: &str) -> impl FnOnce(FileError) -> RegionError {
    let path = path.join(name);
    move |source| RegionError::File { path, source }
}

impl DirLock {
    /// Locks the folder that is open as `folder`.
    fn take(folder: OwnedFd, path: &Path) -> Result<Self, RegionError> {
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { folder, path: path.into() }),
            Err(Errno::WOULDBLOCK) => Err(RegionError::InUse { path: path.into(), holder: locker(&folder) }),
            Err(error) => Err(failed(path, "lock")(error)),
        }
    }
}

/// Opens a folder; `None`: there is none.
fn open_folder(path: &Path) -> Result<Option<OwnedFd>, RegionError> {
    match rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(folder) => Ok(Some(folder)),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::NOTDIR) => Err(RegionError::Foreign { path: path.into(), what: "is no folder" }),
        Err(error) => Err(failed(path, "open")(error)),
    }
}

/// The names of the files in a folder.
fn names(path: &Path) -> Result<Vec<std::ffi::OsString>, RegionError> {
    let unreadable = |source| RegionError::System { path: path.into(), step: "read the folder", source };
    std::fs::read_dir(path)
        .map_err(unreadable)?
        .map(|entry| Ok(entry.map_err(unreadable)?.file_name()))
        .collect()
}
