//! A new region: a memfd that is filled, sealed and mapped before anybody uses it.
//!
//! All pages are there before the server says it is ready. A page that the kernel could not provide later would
//! end the process, or a client's, with SIGBUS in the middle of an access.

use super::map::{Access, MapError, map_file};
use super::{Region, room};
use memmap2::Advice;
use rustix::fs::{
    FallocateFlags, FlockOperation, MemfdFlags, Mode, OFlags, SealFlags, fallocate, fchmod, fcntl_add_seals,
    flock, fstat, ftruncate, memfd_create, open,
};
use rustix::io::Errno;
use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd};

/// Whether a new region is to lie on huge pages.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum HugePages {
    /// On ordinary pages.
    Never,
    /// On reserved huge pages if there are enough, else on ordinary ones.
    #[default]
    Try,
    /// On reserved huge pages or not at all.
    Require,
}

/// On which pages a region lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pages {
    /// Reserved huge pages of this many bytes.
    Huge(u64),
    /// Ordinary pages, and why not huge ones if those were asked for. Transparent huge pages were asked for; how
    /// many there are is the kernel's choice.
    Ordinary {
        /// Why not huge pages; `None`: they were not asked for, or it is a region of somebody else.
        reason: Option<String>,
    },
}

impl Pages {
    /// Bytes of a file on such pages that holds `len`: of huge ones it has whole ones.
    pub(super) fn round_up(&self, len: u64) -> u64 {
        match self {
            Self::Huge(size) => len.next_multiple_of(*size),
            Self::Ordinary { .. } => len,
        }
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Huge(size) => write!(f, "huge pages of {} KiB", size >> 10),
            Self::Ordinary { reason: None } => f.write_str("ordinary pages"),
            Self::Ordinary { reason: Some(reason) } => {
                write!(f, "ordinary pages, for there are not enough huge ones ({reason})")
            }
        }
    }
}

/// Why there is no region.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The machine or the container has less memory free than was asked for.
    #[error(
        "a region of {needed} bytes does not fit into the {available} bytes of memory that are available here; make it smaller, or free memory"
    )]
    NoRoom {
        /// Bytes asked for.
        needed: u64,
        /// Bytes to be had, by the kernel's estimate and the container's limit.
        available: u64,
    },
    /// Huge pages were required and there are none.
    #[error(
        "no huge pages for a region of {len} bytes ({reason}); reserve {pages} with `sysctl vm.nr_hugepages`, or do not require them"
    )]
    NoHugePages {
        /// Bytes asked for.
        len: u64,
        /// How many pages of 2 MiB that takes.
        pages: u64,
        /// What the kernel said.
        reason: String,
    },
    /// The measures make no region.
    #[error("a region has a whole number of 8-byte words, at least one; {0} bytes is not that")]
    Length(u64),
    /// The kernel refused a step.
    #[error("cannot {step} for a region of {len} bytes: {source}")]
    System {
        /// What was tried.
        step: &'static str,
        /// Bytes asked for.
        len: u64,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// It cannot be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
}

/// The size of huge page that x86-64 and 4 KiB-page aarch64 share.
const HUGE_PAGE: u64 = 2 << 20;

impl Region {
    /// Creates a zeroed region of `len` bytes. `name` is what `/proc/<pid>/maps` calls it.
    pub fn create(name: &str, len: u64, huge: HugePages) -> Result<Self, CreateError> {
        if len == 0 || !len.is_multiple_of(8) {
            return Err(CreateError::Length(len));
        }
        if huge == HugePages::Never {
            return create_ordinary(name, len, None);
        }
        match create_huge(name, len) {
            Ok(region) => Ok(region),
            Err(error) if huge == HugePages::Try => create_ordinary(name, len, Some(error.to_string())),
            Err(error) => Err(CreateError::NoHugePages {
                len,
                pages: len.div_ceil(HUGE_PAGE),
                reason: error.to_string(),
            }),
        }
    }

    /// A new descriptor of a region of this process's own, to be passed to a client that may do this much to the table,
    /// and dropped. Of one for reading another user cannot make a writable one; a process of the same user could, as it
    /// could read and write this process's memory anyway.
    ///
    /// With it goes a lock, which is held until the last descriptor and the last mapping made of it are gone, whatever
    /// becomes of either process: [`RegionFile::is_held`](super::RegionFile::is_held) tells whether one is.
    pub fn share(&self, access: Access) -> std::io::Result<OwnedFd> {
        let file = self.file.as_ref().ok_or(Errno::BADF)?;
        let mode = match access {
            Access::Read => OFlags::RDONLY,
            Access::ReadWrite => OFlags::RDWR,
        };
        // Opened anew: locks belong to what was opened, however often its descriptor is copied and passed on.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let shared = open(path, mode | OFlags::CLOEXEC, Mode::empty())?;
        flock(&shared, FlockOperation::NonBlockingLockShared)?;
        Ok(shared)
    }
}

fn create_ordinary(name: &str, len: u64, reason: Option<String>) -> Result<Region, CreateError> {
    if let Some(available) = room::available()
        && available < len
    {
        return Err(CreateError::NoRoom { needed: len, available });
    }
    let failed = |step| move |error: Errno| CreateError::System { step, len, source: error.into() };
    let file = new_file(name, len, MemfdFlags::empty()).map_err(failed("create a memory file"))?;
    let region = map_file(&file, len, Access::ReadWrite, Pages::Ordinary { reason })?;
    // Only a request: kernels without transparent huge pages for shared memory refuse it.
    let _ = region.map.advise(Advice::HugePage);
    match region.map.advise(Advice::PopulateWrite) {
        // Kernels before 5.14 do not know it; fallocate gets the pages, though not the page table.
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            fallocate(&file, FallocateFlags::empty(), 0, len).map_err(failed("provide memory"))?;
        }
        outcome => outcome.map_err(|source| CreateError::System { step: "provide memory", len, source })?,
    }
    seal(&file).map_err(failed("seal the memory file"))?;
    Ok(Region { file: Some(file), ..region })
}

fn create_huge(name: &str, len: u64) -> std::io::Result<Region> {
    let file_len = len.next_multiple_of(HUGE_PAGE);
    let file = new_file(name, file_len, MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB)?;
    fallocate(&file, FallocateFlags::empty(), 0, file_len)?;
    let region = map_file(&file, len, Access::ReadWrite, Pages::Huge(HUGE_PAGE))
        .map_err(|error| std::io::Error::other(error.to_string()))?;
    seal(&file)?;
    Ok(Region { file: Some(file), ..region })
}

fn new_file(name: &str, len: u64, flags: MemfdFlags) -> Result<OwnedFd, Errno> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | flags)?;
    // A memfd starts with rights for everybody: whoever is passed a read-only descriptor could reopen it writable.
    fchmod(&file, Mode::RUSR | Mode::WUSR)?;
    ftruncate(&file, len)?;
    debug_assert_eq!(fstat(&file)?.st_size as u64, len);
    Ok(file)
}

fn seal(file: &OwnedFd) -> Result<(), Errno> {
    fcntl_add_seals(file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
}
