//! Memory that a device may touch.
//!
//! A device reads and writes registered memory at any time, so no reference is ever made into it: its words are
//! `AtomicU64`, copied in and out. What a completed READ brought was written before its completion was polled.

use crate::context::ProtectionDomain;
use crate::error::RegisterError;
use crate::ffi;
use crate::window::WindowRange;
use rustix::process::{Resource, getrlimit};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{BitOr, Range};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory that can be registered.
///
/// # Safety
/// For as long as the value lives, moved or not, `len` bytes from `start` on are mapped there, readable, and writable
/// if `writable` says so. Whoever accesses them, in this process, does so by atomic operations or through raw pointers,
/// and makes no other reference into them.
#[expect(clippy::len_without_is_empty, reason = "empty memory cannot be registered")]
pub unsafe trait Memory: Send + Sync + 'static {
    /// The first byte.
    fn start(&self) -> NonNull<u8>;
    /// Bytes.
    fn len(&self) -> usize;
    /// Whether it is mapped for writing.
    fn writable(&self) -> bool;
}

// SAFETY: the value is kept alive by the `Arc`.
unsafe impl<M: Memory> Memory for Arc<M> {
    fn start(&self) -> NonNull<u8> {
        (**self).start()
    }

    fn len(&self) -> usize {
        (**self).len()
    }

    fn writable(&self) -> bool {
        (**self).writable()
    }
}

/// Zeroed memory of its own, on whole pages that are there: for the buffers of work requests.
pub struct Buffer {
    // Invariant: allocated with `layout`.
    start: NonNull<u8>,
    layout: Layout,
}

/// Registration works by pages; two buffers on one would share its fate when a process forks.
const PAGE: usize = 4096;

impl Buffer {
    /// At least `len` bytes, and at least one.
    ///
    /// # Panics
    /// If `len` is more than an address space has.
    pub fn new(len: usize) -> Self {
        let len = len.max(1).next_multiple_of(PAGE);
        let layout = Layout::from_size_align(len, PAGE).expect("a buffer's length");
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        for page in (0..len).step_by(PAGE) {
            // SAFETY: within the allocation.
            let page = unsafe { start.add(page) };
            // The kernel provides a page when it is first written, which is far faster now than while it is being
            // registered.
            // SAFETY: as above, and nobody else has the address.
            unsafe { page.write_volatile(0) };
        }
        Self { start, layout }
    }
}

// SAFETY: it is freed when dropped; nothing else has its address.
unsafe impl Memory for Buffer {
    fn start(&self) -> NonNull<u8> {
        self.start
    }

    fn len(&self) -> usize {
        self.layout.size()
    }

    fn writable(&self) -> bool {
        true
    }
}

// SAFETY: all access is by what `Memory` allows.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len()).finish()
    }
}

/// What may be done with a memory region. Local reading is always allowed. Neither relaxed ordering, which breaks the
/// order of a list, nor zero-based addresses, which soft-iWARP ignores, can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access(i32);

impl Access {
    /// Local reading alone.
    pub const LOCAL_READ: Self = Self(0);
    /// The device may write what arrives for this side.
    pub const LOCAL_WRITE: Self = Self(ffi::IBV_ACCESS_LOCAL_WRITE);
    /// Peers may READ.
    pub const REMOTE_READ: Self = Self(ffi::IBV_ACCESS_REMOTE_READ);
    /// Peers may WRITE; with local writing, which that needs.
    pub const REMOTE_WRITE: Self = Self(ffi::IBV_ACCESS_REMOTE_WRITE | ffi::IBV_ACCESS_LOCAL_WRITE);
    /// Peers may use atomic operations; with local writing, which that needs.
    pub const REMOTE_ATOMIC: Self = Self(ffi::IBV_ACCESS_REMOTE_ATOMIC | ffi::IBV_ACCESS_LOCAL_WRITE);

    /// Memory windows may be bound over it: nothing more for peers by itself, but with local writing windows may let
    /// them write.
    pub const WINDOWS: Self = Self(ffi::IBV_ACCESS_MW_BIND | ffi::IBV_ACCESS_LOCAL_WRITE);

    const fn writes(self) -> bool {
        self.0 & ffi::IBV_ACCESS_LOCAL_WRITE != 0
    }
}

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A range that leaves its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{len} bytes at {offset} leave a memory of {memory_len} bytes, or do not begin on a word")]
pub struct BoundsError {
    /// First byte.
    pub offset: usize,
    /// Bytes.
    pub len: usize,
    /// Bytes of the memory.
    pub memory_len: usize,
}

/// Memory that is registered with a device. Several regions, each with rights of its own, may share one memory.
pub struct MemoryRegion<M: Memory> {
    // Invariant: registered in `domain` until `self` is dropped.
    raw: NonNull<ffi::ibv_mr>,
    domain: Arc<ProtectionDomain>,
    // Invariant: `len` bytes from `start` on, whole words of it, lie in this memory.
    memory: ManuallyDrop<M>,
    start: NonNull<u8>,
    len: usize,
    access: Access,
    local_key: u32,
    remote_key: u32,
}

// SAFETY: libibverbs is thread-safe, and the memory's words are accessed by atomic operations.
unsafe impl<M: Memory> Send for MemoryRegion<M> {}
// SAFETY: as above.
unsafe impl<M: Memory> Sync for MemoryRegion<M> {}

/// Where a peer's word lies: an address in its memory and the key that allows access to it. Nothing here is checked;
/// the peer's device does, and ends the connection of whoever oversteps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteAddress {
    /// Address in the peer's memory.
    pub address: u64,
    /// The region's key.
    pub key: u32,
}

impl RemoteAddress {
    /// The address `offset` bytes on.
    #[must_use]
    pub const fn add(self, offset: u64) -> Self {
        Self { address: self.address.wrapping_add(offset), ..self }
    }
}

/// A part of a memory region, for a work request.
#[derive(Clone, Copy, Debug)]
pub struct LocalSlice<'a> {
    pub(crate) address: u64,
    pub(crate) len: u32,
    pub(crate) key: u32,
    pub(crate) writable: bool,
    _region: PhantomData<&'a ()>,
}

impl LocalSlice<'_> {
    /// The same part, without the promise that its region lives: once the region is gone a device refuses the request.
    #[must_use]
    pub const fn unbound(self) -> LocalSlice<'static> {
        let Self { address, len, key, writable, .. } = self;
        LocalSlice { address, len, key, writable, _region: PhantomData }
    }
}

impl<M: Memory> MemoryRegion<M> {
    /// Registers all of `memory`.
    pub fn new(domain: &Arc<ProtectionDomain>, memory: M, access: Access) -> Result<Self, RegisterError> {
        let range = 0..memory.len();
        Self::of_range(domain, memory, range, access)
    }

    /// Registers a range of `memory`. Offsets into the region count from the start of the range.
    pub fn of_range(
        domain: &Arc<ProtectionDomain>,
        memory: M,
        range: Range<usize>,
        access: Access,
    ) -> Result<Self, RegisterError> {
        let len = range.len();
        if range.end > memory.len() {
            return Err(BoundsError { offset: range.start, len, memory_len: memory.len() }.into());
        }
        // SAFETY: within the memory, as was just seen; a start past the end makes the length 0, and is refused below
        // before it is used.
        let start = unsafe { memory.start().add(range.start.min(range.end)) };
        if len == 0 || !len.is_multiple_of(8) || !start.addr().get().is_multiple_of(8) {
            return Err(RegisterError::Words);
        }
        if access.writes() && !memory.writable() {
            return Err(RegisterError::ReadOnly);
        }
        let reg_mr = domain.context().verbs().ibv.ibv_reg_mr;
        // SAFETY: a protection domain, and memory that stays mapped until it is deregistered.
        let raw = unsafe { reg_mr(domain.raw(), start.as_ptr().cast(), len, access.0) };
        let Some(raw) = NonNull::new(raw) else {
            let device = domain.context().name().into();
            let (source, limit) = (io::Error::last_os_error(), getrlimit(Resource::Memlock).current);
            return Err(RegisterError::refused(len, device, source, limit));
        };
        // SAFETY: it was just registered, and libibverbs does not change it.
        let &ffi::ibv_mr { lkey: local_key, rkey: remote_key, .. } = unsafe { raw.as_ref() };
        let memory = ManuallyDrop::new(memory);
        Ok(Self { raw, domain: Arc::clone(domain), memory, start, len, access, local_key, remote_key })
    }

    /// The memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The domain it is registered in.
    pub fn domain(&self) -> &Arc<ProtectionDomain> {
        &self.domain
    }

    /// Bytes.
    #[expect(clippy::len_without_is_empty, reason = "no region is empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// What a peer needs to access its first byte.
    pub fn remote(&self) -> RemoteAddress {
        RemoteAddress { address: self.start.addr().get() as u64, key: self.remote_key }
    }

    /// A part of it, for a work request: any bytes within.
    #[inline]
    pub fn slice(&self, offset: usize, len: usize) -> Result<LocalSlice<'_>, BoundsError> {
        let error = BoundsError { offset, len, memory_len: self.len };
        let end = offset.checked_add(len).ok_or(error)?;
        let short = u32::try_from(len).map_err(|_| error)?;
        if end > self.len {
            return Err(error);
        }
        Ok(LocalSlice {
            address: (self.start.addr().get() + offset) as u64,
            len: short,
            key: self.local_key,
            writable: self.access.writes(),
            _region: PhantomData,
        })
    }

    /// A part of it, to bind a window over.
    pub fn window_range(&self, offset: usize, len: usize) -> Result<WindowRange<'_>, BoundsError> {
        if len == 0 || offset > self.len || len > self.len - offset {
            return Err(BoundsError { offset, len, memory_len: self.len });
        }
        let address = (self.start.addr().get() + offset) as u64;
        Ok(WindowRange::new(self.raw, address, len as u64))
    }

    /// The words that `len` bytes from `offset` on begin in, the last one perhaps not used to its end.
    #[inline]
    fn words(&self, offset: usize, len: usize) -> Result<&[AtomicU64], BoundsError> {
        if !offset.is_multiple_of(8) || offset > self.len || len > self.len - offset {
            return Err(BoundsError { offset, len, memory_len: self.len });
        }
        // SAFETY: `offset` is within.
        let first = unsafe { self.start.add(offset) };
        // SAFETY: the region has whole words and starts on one, so these are within it; it stays mapped while `self`
        // lives, and by the trait's condition all access to it is atomic or by raw pointers.
        Ok(unsafe { std::slice::from_raw_parts(first.as_ptr().cast(), len.div_ceil(8)) })
    }

    /// The word at `offset`, a multiple of 8.
    #[inline]
    pub fn load(&self, offset: usize) -> Result<u64, BoundsError> {
        Ok(self.words(offset, 8)?[0].load(Ordering::Acquire))
    }

    /// Changes the word at `offset`, a multiple of 8.
    ///
    /// # Panics
    /// If the memory is mapped read-only.
    #[inline]
    pub fn store(&self, offset: usize, word: u64) -> Result<(), BoundsError> {
        assert!(self.memory.writable(), "the memory is mapped read-only");
        self.words(offset, 8)?[0].store(word, Ordering::Release);
        Ok(())
    }

    /// Copies bytes out, from `offset`, a multiple of 8. What a device writes meanwhile may come in any mixture.
    #[inline]
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<(), BoundsError> {
        let words = self.words(offset, to.len())?;
        for (bytes, word) in to.chunks_mut(8).zip(words) {
            let word = word.load(Ordering::Relaxed).to_ne_bytes();
            bytes.copy_from_slice(&word[..bytes.len()]);
        }
        Ok(())
    }

    /// Copies bytes in, from `offset`, a multiple of 8. Of a last word that is not filled the rest is written back as
    /// it was found.
    ///
    /// # Panics
    /// If the memory is mapped read-only.
    #[inline]
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), BoundsError> {
        assert!(self.memory.writable(), "the memory is mapped read-only");
        let words = self.words(offset, from.len())?;
        for (bytes, word) in from.chunks(8).zip(words) {
            let mut whole = if bytes.len() < 8 { word.load(Ordering::Relaxed).to_ne_bytes() } else { [0; 8] };
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
        }
        Ok(())
    }
}

impl<M: Memory> Drop for MemoryRegion<M> {
    fn drop(&mut self) {
        let dereg_mr = self.domain.context().verbs().ibv.ibv_dereg_mr;
        // SAFETY: registered, and not used again. Work under way that names it fails.
        let result = unsafe { dereg_mr(self.raw.as_ptr()) };
        if result == 0 {
            // SAFETY: dropped once. If it is still registered it must stay mapped, so then it is leaked.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}

impl<M: Memory> fmt::Debug for MemoryRegion<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRegion")
            .field("device", &self.domain.context().name())
            .field("len", &self.len)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}
