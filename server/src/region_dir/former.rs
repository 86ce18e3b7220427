//! The fence of all that ran on a table before: nobody of it reaches the memory any more.
//!
//! - *Clients over shared memory* hold a lock for as long as they have the memory mapped, for it came with the descriptor
//!   that they mapped it by. They let go when they see the server's end, also those not in use.
//! - *Queue pairs* end with the process that made them. The kernel may give the folder's lock free a moment before: so
//!   it is looked whether the process is gone.

use super::RegionError;
use farside_transport::region::{FileError, Holder, RegionFile};
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long clients may take to let go. One that runs takes milliseconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// After this long it is said for whom is waited.
const WORTH_A_WORD: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);

/// A process, told from others that had or will have its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Process {
    pub(super) pid: u64,
    /// When it began, in the kernel's ticks since the machine did.
    pub(super) began: u64,
}

impl Process {
    pub(super) fn own() -> Self {
        let pid = std::process::id().into();
        // Where the kernel tells nothing of processes, it is as one that is gone.
        Self::of(pid).unwrap_or(Self { pid, began: 0 })
    }

    /// The process that has this number now and has not ended.
    pub(super) fn of(pid: u64) -> Option<Self> {
        Some(Self { pid, began: began(pid)? })
    }

    /// Whether it runs, or has not let all go yet. Of one in another container, nothing is known.
    fn is_there(self) -> bool {
        let is_another = self.pid != std::process::id().into();
        is_another && Self::of(self.pid) == Some(self)
    }
}

/// `None`: there is no such process, or it is one that has ended and waits to be asked how.
fn began(pid: u64) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before them is in parentheses, and may hold anything.
    let words: Vec<_> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let is_done = words.first() == Some(&"Z") && has_one_thread(pid);
    words.get(19).filter(|_| !is_done)?.parse().ok()
}

fn has_one_thread(pid: u64) -> bool {
    fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|tasks| tasks.count() <= 1)
}

/// Waits, for `patience` at most, until nobody but this process reaches the table in `path`.
pub(super) fn wait_for_all(
    path: &Path,
    server: Process,
    files: &[RegionFile],
    patience: Duration,
) -> Result<(), RegionError> {
    let began = Instant::now();
    let mut told = false;
    loop {
        let held = first_held(files).map_err(|source| RegionError::File { path: path.into(), source })?;
        if held.is_none() && !server.is_there() {
            return Ok(());
        }
        let waited = began.elapsed();
        if waited >= patience || (waited >= WORTH_A_WORD && !told) {
            let error = refusal(path, server, held);
            if waited >= patience {
                return Err(error);
            }
            tracing::warn!("waiting for at most {patience:?}: {error}");
            told = true;
        }
        sleep(PAUSE);
    }
}

fn first_held(files: &[RegionFile]) -> Result<Option<&RegionFile>, FileError> {
    for file in files {
        if file.is_held()? {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

fn refusal(path: &Path, server: Process, held: Option<&RegionFile>) -> RegionError {
    match held {
        Some(file) => RegionError::Held { path: path.into(), holders: file.holders() },
        None => {
            let holder = Holder { pid: server.pid as u32, name: "farside-server".into() };
            RegionError::Ending { path: path.into(), holder }
        }
    }
}
