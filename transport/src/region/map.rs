//! Mapping a region, one's own or one received from a peer that is not trusted.

use super::{Keepsake, Pages, Region};
use memmap2::MmapOptions;
use rustix::fs::{FileType, OFlags, SealFlags, fcntl_get_seals, fcntl_getfl, fstat, fstatfs};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::os::fd::{AsFd, OwnedFd};

/// What may be done through a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Loads alone.
    Read,
    /// Loads, stores and compare-and-swaps.
    ReadWrite,
}

/// Why a descriptor cannot be mapped as a region.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The descriptor is not a memory file that can be sealed.
    #[error("the descriptor received is no sealed memory file; the server is not Farside's, or damaged")]
    NotMemory,
    /// Its owner could shrink it while it is mapped, which would end this process with SIGBUS.
    #[error(
        "the memory file received is not sealed against shrinking (it has a name, from the server's --region-dir) and belongs \
         to user {owner}, who could so end this process: run it as that user, or use another transport, such as tcp"
    )]
    NotSealed {
        /// The user's number.
        owner: u32,
    },
    /// It is not as long as was announced.
    #[error("the memory file received has {found} bytes where {announced} were announced")]
    Length {
        /// Bytes announced.
        announced: u64,
        /// Bytes found.
        found: u64,
    },
    /// It was passed without the right to write, which the session should have.
    #[error("the memory file received can only be read, but the session was granted the right to write")]
    ReadOnly,
    /// The kernel refused.
    #[error("cannot map a region of {len} bytes: {source}; check `ulimit -v` and the container's limits")]
    System {
        /// Bytes.
        len: u64,
        /// The kernel's error.
        source: std::io::Error,
    },
}

/// Whether the page table is to be filled when a region is mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Populate {
    /// Now: about 1 ms for each 16 MiB of ordinary pages, and no page fault afterwards.
    Now,
    /// By page faults, as pages are first used.
    Lazily,
}

impl Region {
    /// Maps the region of `len` bytes whose descriptor was received from a server, after checking that nothing
    /// the sender may do later can make an access fail.
    pub fn map(file: OwnedFd, len: u64, access: Access, populate: Populate) -> Result<Self, MapError> {
        let system = |source| MapError::System { len, source };
        let stat = fstat(&file).map_err(|error| system(error.into()))?;
        let seals = fcntl_get_seals(&file).map_err(|_| MapError::NotMemory)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(MapError::NotMemory);
        }
        let may_end_us = [0, geteuid().as_raw()].contains(&stat.st_uid);
        if !seals.contains(SealFlags::SHRINK) && !may_end_us {
            return Err(MapError::NotSealed { owner: stat.st_uid });
        }
        let found = stat.st_size as u64;
        let pages = pages_of(&file).map_err(|error| system(error.into()))?;
        if len == 0 || !len.is_multiple_of(8) || found != pages.round_up(len) {
            return Err(MapError::Length { announced: len, found });
        }
        let flags = fcntl_getfl(&file).map_err(|error| system(error.into()))?;
        if access == Access::ReadWrite && flags & OFlags::ACCMODE != OFlags::RDWR {
            return Err(MapError::ReadOnly);
        }
        let region = map_file(&file, len, access, pages)?;
        // A lock that came with it is the mapping's from here on, and goes with it.
        drop(file);
        if populate == Populate::Now {
            // Only speed is lost where the kernel does not know it (before 5.14).
            let _ = region.map.advise(match access {
                Access::Read => memmap2::Advice::PopulateRead,
                Access::ReadWrite => memmap2::Advice::PopulateWrite,
            });
        }
        Ok(region)
    }

    /// Keeps `keepsake` alive until this region is unmapped, however many share it by then.
    #[must_use]
    pub fn keeping(self, keepsake: Keepsake) -> Self {
        Self { _until_unmapped: Some(keepsake), ..self }
    }
}

/// From `linux/magic.h`.
pub(super) const HUGETLBFS_MAGIC: u32 = 0x9584_58f6;

/// On which pages a file lies.
pub(super) fn pages_of(file: impl AsFd) -> Result<Pages, Errno> {
    let filesystem = fstatfs(file)?;
    Ok(match filesystem.f_type as u32 {
        HUGETLBFS_MAGIC => Pages::Huge(filesystem.f_bsize as u64),
        _ => Pages::Ordinary { reason: None },
    })
}

/// Maps all of `file`, which holds `len` bytes at least and cannot shrink.
pub(super) fn map_file(file: &OwnedFd, len: u64, access: Access, pages: Pages) -> Result<Region, MapError> {
    let system = |source| MapError::System { len, source };
    let file_len = fstat(file).map_err(|error| system(error.into()))?.st_size;
    let mut options = MmapOptions::new();
    // The whole file, since a mapping of huge pages can only be ended in whole ones.
    options.len(file_len as usize);
    let map = match access {
        Access::Read => options.map_raw_read_only(file),
        Access::ReadWrite => options.map_raw(file),
    }
    .map_err(system)?;
    Ok(Region { map, words: (len / 8) as usize, access, pages, file: None, _until_unmapped: None })
}
