//! A shard's memory: one mapping that other processes read and change at any time. The one module with unsafe
//! code.
//!
//! The whole region is a slice of `AtomicU64`; no other reference into it is ever made, so whatever others do to
//! it there is no data race and no undefined behaviour, only words that may change between two loads. A reader
//! gets a *copy* and verifies the copy.
//!
//! Orders, each with what it is for:
//!
//! | access | order | why |
//! |---|---|---|
//! | word of a WRITE | relaxed store | nobody follows a way to it before the CAS that publishes it |
//! | CAS that succeeds | release | the record it publishes is visible to whoever reads the word it wrote |
//! | CAS, and a fence after it | sequentially consistent | INSERT's READ of the window follows its CAS in the one order of all such CAS: of two inserters of a key one sees the other (store buffering, which release and acquire allow, would let both miss) |
//! | word of a READ, [`Region::load`] | relaxed load, acquire fence after the first word and after the last | the first word of a record is its link: the body read after it is at least as new; what the next READ finds by following a word is at least as new as that word |
//!
//! Acquire is a fence and never the load's own order, for a mapping without write access: only relaxed loads are
//! promised to work on read-only memory. On x86-64 these fences cost no instruction.
#![allow(unsafe_code)]

mod create;
mod file;
mod holders;
mod map;
mod room;

pub use create::{CreateError, HugePages, Pages};
pub use file::{FileError, RegionFile, check_filesystem};
pub use holders::{Holder, locker};
pub use map::{Access, MapError, Populate};

use memmap2::MmapRaw;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::any::Any;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// An access that the region does not allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AccessError {
    /// Outside the region, or not on whole words.
    #[error(
        "an access of {len} bytes at {at} leaves the region of {region_len} bytes or is not on whole words"
    )]
    Bounds {
        /// First byte.
        at: u64,
        /// Bytes.
        len: usize,
        /// Bytes of the region.
        region_len: u64,
    },
    /// A change to a region that was mapped for reading only.
    #[error(
        "a change at {at} of a region that is mapped read-only; open the session with the right to write"
    )]
    ReadOnly {
        /// First byte.
        at: u64,
    },
}

/// A mapped shard.
#[derive(Debug)]
pub struct Region {
    // Invariant: the mapping is as long as `words` says at least, readable, writable if `access` says so, and its
    // file does not shrink: it was sealed, or checked to be, before it was mapped, or it is a named file, which only who
    // might end this process anyway can shrink. (It would be ended by SIGBUS, and read nothing wrong.)
    map: MmapRaw,
    words: usize,
    access: Access,
    pages: Pages,
    /// Of a region that is to be shared. Others do without: a lock that came with it goes with the mapping.
    file: Option<OwnedFd>,
    // After `map`, for fields are dropped in their order.
    _until_unmapped: Option<Keepsake>,
}

/// What must not end before a mapping does.
pub type Keepsake = Arc<dyn Any + Send + Sync>;

impl Region {
    /// Bytes.
    pub fn len(&self) -> u64 {
        self.words as u64 * 8
    }

    /// Whether it has no bytes, which no region has.
    pub fn is_empty(&self) -> bool {
        self.words == 0
    }

    /// Whether it may be changed through this mapping.
    pub fn access(&self) -> Access {
        self.access
    }

    /// On which pages it lies.
    pub fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Lets the memory go while others in this process may be reading and changing it: from now on they read and change
    /// words that are theirs alone, and zero at first. So who tells others that a change of theirs was made must see that
    /// the memory had not been let go after it.
    pub fn let_go(&self) -> std::io::Result<()> {
        let protection = match self.access {
            Access::Read => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: exactly the mapping of `map` is replaced, at once, by one that is as long and that can be read and
        // written as that could; nobody refers to it but by `words`.
        unsafe { mmap_anonymous(self.map.as_mut_ptr().cast(), self.map.len(), protection, flags) }?;
        Ok(())
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: by the invariant of `map` these words are mapped, readable and stay so while `self` lives; a
        // mapping starts on a page, so they are aligned. All of Farside's accesses to them, in every process, are
        // atomic, and where the mapping is read-only they are relaxed loads, which need no write access.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast(), self.words) }
    }

    /// The words from `at` on, `len` bytes of them.
    #[inline]
    fn span(&self, at: u64, len: usize) -> Result<&[AtomicU64], AccessError> {
        // An offset past usize::MAX cannot come from a 64-bit build, the only one with shards worth the name.
        let first = (at / 8) as usize;
        let span = self.words().get(first..).and_then(|rest| rest.get(..len / 8));
        match span {
            Some(span) if at.is_multiple_of(8) && len.is_multiple_of(8) => Ok(span),
            _ => Err(AccessError::Bounds { at, len, region_len: self.len() }),
        }
    }

    #[inline]
    fn span_to_change(&self, at: u64, len: usize) -> Result<&[AtomicU64], AccessError> {
        match self.access {
            Access::ReadWrite => self.span(at, len),
            Access::Read => Err(AccessError::ReadOnly { at }),
        }
    }

    /// The word at `at`; what is read next by following it is at least as new.
    #[inline]
    pub fn load(&self, at: u64) -> Result<u64, AccessError> {
        let word = self.span(at, 8)?[0].load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        Ok(u64::from_le(word))
    }

    /// Replaces the word at `at` by `new` if it is `expect`, and returns the word that was there.
    #[inline]
    pub fn compare_swap(&self, at: u64, expect: u64, new: u64) -> Result<u64, AccessError> {
        let word = &self.span_to_change(at, 8)?[0];
        let outcome = word.compare_exchange(expect.to_le(), new.to_le(), Ordering::SeqCst, Ordering::SeqCst);
        fence_after_swap();
        let (Ok(found) | Err(found)) = outcome;
        Ok(u64::from_le(found))
    }

    /// Copies the bytes at `at` to `into`, both on whole words. Each word is whole; together they may be of
    /// different moments.
    #[inline]
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<(), AccessError> {
        let span = self.span(at, into.len())?;
        let (into, _) = into.as_chunks_mut::<8>();
        let (Some((first, rest)), Some((into_first, into_rest))) =
            (span.split_first(), into.split_first_mut())
        else {
            return Ok(());
        };
        *into_first = first.load(Ordering::Relaxed).to_ne_bytes();
        fence(Ordering::Acquire);
        for (into, word) in into_rest.iter_mut().zip(rest) {
            *into = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        fence(Ordering::Acquire);
        Ok(())
    }

    /// Copies `from` to the bytes at `at`, both on whole words. Visible as a whole to whoever sees the success of
    /// a later [`Region::compare_swap`] of this thread.
    #[inline]
    pub fn write(&self, at: u64, from: &[u8]) -> Result<(), AccessError> {
        let span = self.span_to_change(at, from.len())?;
        let (from, _) = from.as_chunks::<8>();
        for (word, from) in span.iter().zip(from) {
            word.store(u64::from_ne_bytes(*from), Ordering::Relaxed);
        }
        Ok(())
    }
}

// SAFETY: by the invariant of `map` this much is mapped, and writable if `access` says so, while the region lives; all
// access to it is by `words`, which are atomic.
unsafe impl farside_verbs_sys::Memory for Region {
    fn start(&self) -> NonNull<u8> {
        NonNull::new(self.map.as_mut_ptr()).expect("nothing is mapped at address 0")
    }

    fn len(&self) -> usize {
        self.words * 8
    }

    fn writable(&self) -> bool {
        self.access == Access::ReadWrite
    }
}

/// On x86-64 the locked instruction of the swap is itself a full fence, and only the compiler needs to be told.
#[inline]
fn fence_after_swap() {
    if cfg!(target_arch = "x86_64") {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests;
