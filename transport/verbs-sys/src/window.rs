//! Memory windows of type 2: the right to WRITE into a part of a region, of one queue pair's peer alone, given and taken
//! away by work requests.
//!
//! A window is bound and invalidated in the order of its queue pair's other work, and each time it is bound its key is
//! another one. What bounds the peer to the range is the device: soft-RoCE looks at the region's bounds alone.

use crate::context::ProtectionDomain;
use crate::error::{VerbsError, not_null};
use crate::ffi;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

/// The bits of a key that are the owner's to choose.
const VARIANT: u32 = 0xff;

/// A memory window.
pub struct MemoryWindow {
    // Invariant: a window of `domain` until `self` is dropped; its key is changed by `&mut self` alone.
    raw: NonNull<ffi::ibv_mw>,
    dealloc: ffi::DeallocMw,
    domain: Arc<ProtectionDomain>,
}

// SAFETY: libibverbs is thread-safe.
unsafe impl Send for MemoryWindow {}
// SAFETY: as above; by `&self` it is only read.
unsafe impl Sync for MemoryWindow {}

/// A part of a region, over which a window is bound.
#[derive(Clone, Copy, Debug)]
pub struct WindowRange<'a> {
    region: *mut ffi::ibv_mr,
    address: u64,
    len: u64,
    _region: PhantomData<&'a ()>,
}

impl WindowRange<'_> {
    pub(crate) fn new(region: NonNull<ffi::ibv_mr>, address: u64, len: u64) -> Self {
        Self { region: region.as_ptr(), address, len, _region: PhantomData }
    }
}

impl MemoryWindow {
    /// One that is not bound, for queue pairs of `domain`.
    pub fn new(domain: &Arc<ProtectionDomain>) -> Result<Self, VerbsError> {
        let (alloc, dealloc) = domain.context().windows().ok_or_else(|| {
            VerbsError::invalid("ibv_alloc_mw", "the device's provider has no memory windows")
        })?;
        // SAFETY: a protection domain.
        let raw = unsafe { alloc(domain.raw(), ffi::IBV_MW_TYPE_2) };
        Ok(Self { raw: not_null("ibv_alloc_mw", raw)?, dealloc, domain: Arc::clone(domain) })
    }

    /// The key with which it was bound last.
    pub fn key(&self) -> u32 {
        // SAFETY: the window exists, and is changed by `&mut self` alone.
        unsafe { self.raw.as_ref() }.rkey
    }

    /// The key that it is bound with next: with another variant, so that no key of before counts.
    pub fn next_key(&self) -> u32 {
        let key = self.key();
        key & !VARIANT | key.wrapping_add(1) & VARIANT
    }

    /// Notes that it was bound, with its next key.
    pub fn bound(&mut self) {
        let key = self.next_key();
        // SAFETY: the window exists. Providers take the key from there that the device has.
        unsafe { self.raw.as_mut() }.rkey = key;
    }

    pub(crate) fn binding(&self, over: WindowRange<'_>) -> ffi::ibv_wr_bind_mw {
        ffi::ibv_wr_bind_mw {
            mw: self.raw.as_ptr(),
            rkey: self.next_key(),
            bind_info: ffi::ibv_mw_bind_info {
                mr: over.region,
                addr: over.address,
                length: over.len,
                mw_access_flags: ffi::IBV_ACCESS_REMOTE_WRITE.cast_unsigned(),
            },
        }
    }
}

impl Drop for MemoryWindow {
    /// Whether it is bound or not, its key is of no use from here on. To be done before its queue pair is destroyed:
    /// soft-RoCE waits in vain for most of a minute for windows that are bound.
    fn drop(&mut self) {
        // SAFETY: it is not used again. Should the kernel refuse, it keeps it until the process ends.
        unsafe { (self.dealloc)(self.raw.as_ptr()) };
    }
}

impl fmt::Debug for MemoryWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryWindow").field("device", &self.domain.context().name()).finish_non_exhaustive()
    }
}
