//! A region on a file that has a name, on a filesystem that is memory: it outlives the server that made it.
//!
//! A named file cannot be sealed. All of it is allocated before it is mapped, so that an access never fails for want of
//! memory; to shrink it takes the right to write to it.

use super::map::{Access, HUGETLBFS_MAGIC, MapError, map_file, pages_of};
use super::{Holder, Pages, Region, holders, room};
use memmap2::Advice;
use rustix::fs::{
    FallocateFlags, FileType, FlockOperation, Mode, OFlags, StatVfs, fallocate, flock, fstat, fstatfs,
    fstatvfs, ftruncate, openat,
};
use rustix::io::{Errno, pread};
use std::os::fd::{AsFd, OwnedFd};

/// From `linux/magic.h`.
const TMPFS_MAGIC: u32 = 0x0102_1994;

/// Why a file is of no use for a region.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The filesystem writes to a disk.
    #[error(
        "the filesystem is neither tmpfs nor hugetlbfs: a table on it would be written to a disk all the time; choose a \
         folder below /dev/shm, or below a tmpfs or hugetlbfs that you mount"
    )]
    NotMemory,
    /// The filesystem has not enough left.
    #[error(
        "the filesystem has {free} bytes left of the {needed} that are needed: choose less memory (--memory), remove files \
         there, or mount it with a larger size (of hugetlbfs: reserve more pages with `sysctl vm.nr_hugepages`)"
    )]
    Full {
        /// Bytes.
        needed: u64,
        /// Bytes.
        free: u64,
    },
    /// The machine or the container has not enough left.
    #[error(
        "{needed} bytes do not fit into the {available} bytes of memory that are available here: choose less memory \
         (--memory), or free some"
    )]
    NoRoom {
        /// Bytes.
        needed: u64,
        /// Bytes, by the kernel's estimate and the container's limit.
        available: u64,
    },
    /// It is not there.
    #[error("there is no such file")]
    Missing,
    /// It is something else.
    #[error("it is no file")]
    NoFile,
    /// It has not the length that its contents want.
    #[error("it has {found} bytes where {expected} are to be: it was cut off, or is another file")]
    Length {
        /// Bytes.
        found: u64,
        /// Bytes.
        expected: u64,
    },
    /// It cannot be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The kernel refused a step.
    #[error("cannot {step} it: {source}")]
    System {
        /// What was tried.
        step: &'static str,
        /// The kernel's error.
        source: std::io::Error,
    },
}

fn failed(step: &'static str) -> impl FnOnce(Errno) -> FileError {
    move |error| FileError::System { step, source: error.into() }
}

/// Fails unless files in `folder` are memory.
pub fn check_filesystem(folder: impl AsFd) -> Result<(), FileError> {
    let kind = fstatfs(folder).map_err(failed("look at"))?.f_type as u32;
    if [TMPFS_MAGIC, HUGETLBFS_MAGIC].contains(&kind) { Ok(()) } else { Err(FileError::NotMemory) }
}

/// A file for a region, open and not mapped yet.
#[derive(Debug)]
pub struct RegionFile {
    file: OwnedFd,
    pages: Pages,
}

impl RegionFile {
    /// Makes a file of zeros in `folder` that holds `len` bytes, for its owner alone.
    pub fn create(folder: impl AsFd, name: &str, len: u64) -> Result<Self, FileError> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(folder, name, flags, Mode::RUSR | Mode::WUSR).map_err(failed("make"))?;
        let pages = pages_of(&file).map_err(failed("look at"))?;
        let this = Self { file, pages };
        let len = this.pages.round_up(len);
        this.check_room(len)?;
        ftruncate(&this.file, len).map_err(failed("lengthen"))?;
        this.allocate(len)?;
        Ok(this)
    }

    /// Opens the file `name` in `folder`.
    pub fn open(folder: impl AsFd, name: &str) -> Result<Self, FileError> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match openat(folder, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Err(FileError::Missing),
            outcome => outcome.map_err(failed("open"))?,
        };
        let stat = fstat(&file).map_err(failed("look at"))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(FileError::NoFile);
        }
        let pages = pages_of(&file).map_err(failed("look at"))?;
        Ok(Self { file, pages })
    }

    /// The first bytes of it; what it is shorter than `N` is zero.
    pub fn head<const N: usize>(&self) -> Result<[u8; N], FileError> {
        let (mut head, mut len) = ([0; N], 0);
        while len < N {
            match pread(&self.file, &mut head[len..], len as u64).map_err(failed("read"))? {
                0 => break,
                more => len += more,
            }
        }
        Ok(head)
    }

    /// Fails unless it holds `len` bytes and no more.
    pub fn check_len(&self, len: u64) -> Result<(), FileError> {
        let (found, expected) = (self.len()?, self.pages.round_up(len));
        if found == expected { Ok(()) } else { Err(FileError::Length { found, expected }) }
    }

    /// Whether some process holds what was [shared](Region::share) of it.
    pub fn is_held(&self) -> Result<bool, FileError> {
        match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => flock(&self.file, FlockOperation::Unlock).map(|()| false).map_err(failed("unlock")),
            Err(Errno::WOULDBLOCK) => Ok(true),
            Err(error) => Err(failed("lock")(error)),
        }
    }

    /// The processes that have it mapped, as far as this one may know.
    pub fn holders(&self) -> Vec<Holder> {
        holders::of(&self.file)
    }

    /// Maps `len` bytes of it, all of which are there afterwards.
    pub fn map(self, len: u64) -> Result<Region, FileError> {
        self.check_len(len)?;
        // Whatever was cut out of it: an access to that would end the process if there were no memory for it.
        self.allocate(self.pages.round_up(len))?;
        let region = map_file(&self.file, len, Access::ReadWrite, self.pages)?;
        // Requests, for speed: not all kernels and filesystems know them.
        let _ = region.map.advise(Advice::HugePage);
        let _ = region.map.advise(Advice::PopulateWrite);
        Ok(Region { file: Some(self.file), ..region })
    }

    fn len(&self) -> Result<u64, FileError> {
        Ok(fstat(&self.file).map_err(failed("look at"))?.st_size as u64)
    }

    /// Asked before memory is taken: where the machine's runs out meanwhile the kernel ends a process.
    fn check_room(&self, needed: u64) -> Result<(), FileError> {
        match (self.free()?, room::available()) {
            (Some(free), _) if free < needed => Err(FileError::Full { needed, free }),
            (_, Some(available)) if available < needed && !matches!(self.pages, Pages::Huge(_)) => {
                Err(FileError::NoRoom { needed, available })
            }
            _ => Ok(()),
        }
    }

    /// Bytes that the filesystem has left, if it says so: a tmpfs without a limit does not, nor a hugetlbfs, which has what
    /// the kernel has.
    fn free(&self) -> Result<Option<u64>, FileError> {
        let StatVfs { f_bavail, f_frsize, f_blocks, .. } = fstatvfs(&self.file).map_err(failed("look at"))?;
        let is_limited = f_blocks != 0 && !matches!(self.pages, Pages::Huge(_));
        Ok(is_limited.then_some(f_bavail.saturating_mul(f_frsize)))
    }

    fn allocate(&self, len: u64) -> Result<(), FileError> {
        match fallocate(&self.file, FallocateFlags::empty(), 0, len) {
            Err(Errno::NOSPC | Errno::NOMEM) => {
                Err(FileError::Full { needed: len, free: self.free()?.unwrap_or(0) })
            }
            outcome => outcome.map_err(failed("allocate")),
        }
    }
}
