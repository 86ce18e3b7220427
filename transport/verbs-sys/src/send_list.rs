//! Lists of work requests, built in place and posted with one doorbell.

use crate::completion::RequestId;
use crate::error::PostError;
use crate::ffi;
use crate::memory::{LocalSlice, RemoteAddress};
use crate::window::{MemoryWindow, WindowRange};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// What a work request does. Buffers named by a [`LocalSlice`] are read or written until its completion; inline bytes
/// are copied when it is posted.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// Fetches the peer's bytes.
    Read {
        /// Where they go.
        into: LocalSlice<'a>,
        /// Where they are.
        from: RemoteAddress,
    },
    /// Puts bytes into the peer's memory. Over iWARP its completion says only that the buffer may be used again; that
    /// the bytes are there, the completion of a READ after it.
    Write {
        /// Where they are.
        from: LocalSlice<'a>,
        /// Where they go.
        to: RemoteAddress,
    },
    /// The same with bytes that travel in the request.
    WriteInline {
        /// The bytes.
        bytes: &'a [u8],
        /// Where they go.
        to: RemoteAddress,
    },
    /// Fills the peer's next posted receive.
    Send {
        /// The message.
        from: LocalSlice<'a>,
    },
    /// The same with bytes that travel in the request.
    SendInline {
        /// The message.
        bytes: &'a [u8],
    },
    /// Replaces the peer's word at `at` by `new` if it is `expect`.
    CompareSwap {
        /// Where the word that was found goes: 8 bytes on a word.
        found: LocalSlice<'a>,
        /// The word, on a multiple of 8.
        at: RemoteAddress,
        /// What it has to be.
        expect: u64,
        /// What it becomes.
        new: u64,
    },
    /// Adds `add` to the peer's word at `at`.
    FetchAdd {
        /// Where the word that was found goes: 8 bytes on a word.
        found: LocalSlice<'a>,
        /// The word, on a multiple of 8.
        at: RemoteAddress,
        /// What is added to it.
        add: u64,
    },
    /// Lets the peer of this queue pair, and nobody else, WRITE into a range, with the window's
    /// [next key](MemoryWindow::next_key). Nothing goes to the peer.
    Bind {
        /// The window, which is not bound.
        window: &'a MemoryWindow,
        /// Of a region that allows windows.
        over: WindowRange<'a>,
    },
    /// Ends that: what the peer WRITEs with the window's key from then on is refused. Waits for what it did before.
    Invalidate {
        /// The window's key.
        key: u32,
    },
}

const NO_BINDING: ffi::ibv_wr_bind_mw = ffi::ibv_wr_bind_mw {
    mw: std::ptr::null_mut(),
    rkey: 0,
    bind_info: ffi::ibv_mw_bind_info { mr: std::ptr::null_mut(), addr: 0, length: 0, mw_access_flags: 0 },
};

/// How a work request runs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SendFlags {
    /// It has a completion, which stands for those before it without one as well.
    pub signalled: bool,
    /// It waits until the READs and atomic operations before it have completed.
    pub fence: bool,
}

impl SendFlags {
    /// With a completion.
    pub const SIGNALLED: Self = Self { signalled: true, fence: false };
    /// Without one, unless it fails.
    pub const SILENT: Self = Self { signalled: false, fence: false };
}

/// At most `N` work requests, posted together by [`crate::QueuePair::post_send`].
///
/// The requests of a list run in the order they were pushed. The last one has to be signalled; others may be, so
/// that one list, and one doorbell, serves many operations.
///
/// What its requests point to outlives it:
/// ```compile_fail,E0597
/// # use farside_verbs_sys::{Operation, QueuePair, SendFlags, SendList};
/// # fn post(queue_pair: &QueuePair) {
/// let mut list = SendList::<1>::new();
/// {
///     let bytes = vec![1, 2, 3];
///     list.push(0, Operation::SendInline { bytes: &bytes }, SendFlags::SIGNALLED).unwrap();
/// }
/// queue_pair.post_send(&mut list).unwrap();
/// # }
/// ```
pub struct SendList<'a, const N: usize> {
    // Invariant: the first `len` of both are filled in.
    requests: [MaybeUninit<ffi::ibv_send_wr>; N],
    buffers: [MaybeUninit<ffi::ibv_sge>; N],
    len: usize,
    /// Requests since the last signalled one.
    silent: u16,
    pub(crate) has_atomics: bool,
    pub(crate) inline_len_max: u32,
    pub(crate) message_len_max: u32,
    // What the requests point to is borrowed until they are posted; after that the registration keeps it.
    _buffers: PhantomData<&'a [u8]>,
}

// SAFETY: its pointers are set when it is posted and mean nothing after that; the bytes it borrows are shared.
unsafe impl<const N: usize> Send for SendList<'_, N> {}

impl<'a, const N: usize> SendList<'a, N> {
    /// An empty list.
    #[inline]
    pub const fn new() -> Self {
        const { assert!(N > 0 && N <= u16::MAX as usize) };
        Self {
            requests: [const { MaybeUninit::uninit() }; N],
            buffers: [const { MaybeUninit::uninit() }; N],
            len: 0,
            silent: 0,
            has_atomics: false,
            inline_len_max: 0,
            message_len_max: 0,
            _buffers: PhantomData,
        }
    }

    /// Work requests in it.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether each request is followed by, or is, one with a completion.
    pub(crate) const fn ends_signalled(&self) -> bool {
        self.silent == 0
    }

    /// Forgets its requests.
    #[inline]
    pub const fn clear(&mut self) {
        self.len = 0;
        self.silent = 0;
        self.has_atomics = false;
        self.inline_len_max = 0;
        self.message_len_max = 0;
    }

    /// Adds a work request. `token` comes back in its completion; a failed request has one even if it is not
    /// signalled.
    #[inline]
    pub fn push(&mut self, token: u32, operation: Operation<'a>, flags: SendFlags) -> Result<(), PostError> {
        if self.len == N {
            return Err(PostError::ListFull);
        }
        let rdma = |at: RemoteAddress| ffi::ibv_wr_union {
            rdma: ffi::ibv_wr_rdma { remote_addr: at.address, rkey: at.key },
        };
        let atomic = |at: RemoteAddress, compare_add, swap| ffi::ibv_wr_union {
            atomic: ffi::ibv_wr_atomic { remote_addr: at.address, compare_add, swap, rkey: at.key },
        };
        const NOWHERE: RemoteAddress = RemoteAddress { address: 0, key: 0 };
        const NOTHING: ffi::ibv_sge = ffi::ibv_sge { addr: 0, length: 0, lkey: 0 };
        let (opcode, buffer, inline, wr) = match operation {
            Operation::Read { into, from } => {
                arriving(into)?;
                (ffi::IBV_WR_RDMA_READ, sge(into), false, rdma(from))
            }
            Operation::Write { from, to } => (ffi::IBV_WR_RDMA_WRITE, sge(from), false, rdma(to)),
            Operation::WriteInline { bytes, to } => {
                (ffi::IBV_WR_RDMA_WRITE, inline_sge(bytes)?, true, rdma(to))
            }
            Operation::Send { from } => (ffi::IBV_WR_SEND, sge(from), false, rdma(NOWHERE)),
            Operation::SendInline { bytes } => (ffi::IBV_WR_SEND, inline_sge(bytes)?, true, rdma(NOWHERE)),
            Operation::CompareSwap { found, at, expect, new } => {
                one_word(found, at)?;
                (ffi::IBV_WR_ATOMIC_CMP_AND_SWP, sge(found), false, atomic(at, expect, new))
            }
            Operation::FetchAdd { found, at, add } => {
                one_word(found, at)?;
                (ffi::IBV_WR_ATOMIC_FETCH_AND_ADD, sge(found), false, atomic(at, add, 0))
            }
            Operation::Bind { .. } => (ffi::IBV_WR_BIND_MW, NOTHING, false, rdma(NOWHERE)),
            Operation::Invalidate { .. } => (ffi::IBV_WR_LOCAL_INV, NOTHING, false, rdma(NOWHERE)),
        };
        let places = if flags.signalled { self.silent + 1 } else { 0 };
        self.requests[self.len].write(ffi::ibv_send_wr {
            wr_id: RequestId::send(token, places).0,
            // Set when it is posted, for until then the list may move.
            next: std::ptr::null_mut(),
            sg_list: std::ptr::null_mut(),
            num_sge: i32::from(!matches!(operation, Operation::Bind { .. } | Operation::Invalidate { .. })),
            opcode,
            send_flags: if flags.signalled { ffi::IBV_SEND_SIGNALED } else { 0 }
                | if flags.fence { ffi::IBV_SEND_FENCE } else { 0 }
                | if inline { ffi::IBV_SEND_INLINE } else { 0 },
            imm_data: if let Operation::Invalidate { key } = operation { key } else { 0 },
            wr,
            _unused: 0,
            bind_mw: match operation {
                Operation::Bind { window, over } => window.binding(over),
                _ => NO_BINDING,
            },
        });
        self.buffers[self.len].write(buffer);
        self.len += 1;
        self.silent = if flags.signalled { 0 } else { self.silent + 1 };
        self.has_atomics |= matches!(operation, Operation::CompareSwap { .. } | Operation::FetchAdd { .. });
        self.message_len_max = self.message_len_max.max(buffer.length);
        if inline {
            self.inline_len_max = self.inline_len_max.max(buffer.length);
        }
        Ok(())
    }

    /// How many requests at its end have no completion.
    #[inline]
    pub fn silent(&self) -> usize {
        self.silent as usize
    }

    /// Gives the last request a completion, if there is one and it has none.
    #[inline]
    pub fn signal_last(&mut self) {
        if self.silent == 0 {
            return;
        }
        // SAFETY: the first `len` are filled in, and as some are silent there are some.
        let last = unsafe { self.requests[self.len - 1].assume_init_mut() };
        last.wr_id = RequestId::send(RequestId(last.wr_id).token(), self.silent).0;
        last.send_flags |= ffi::IBV_SEND_SIGNALED;
        self.silent = 0;
    }

    /// The first of the requests, each with a pointer to the next and to its buffer; the list has some.
    #[inline]
    pub(crate) fn link(&mut self) -> *mut ffi::ibv_send_wr {
        let buffers: *mut ffi::ibv_sge = self.buffers.as_mut_ptr().cast();
        let mut next = std::ptr::null_mut();
        for at in (0..self.len).rev() {
            // SAFETY: the first `len` are filled in.
            let request = unsafe { self.requests[at].assume_init_mut() };
            request.next = next;
            request.sg_list = buffers.wrapping_add(at);
            next = request;
        }
        next
    }
}

impl<const N: usize> Default for SendList<'_, N> {
    fn default() -> Self {
        Self::new()
    }
}

const fn arriving(buffer: LocalSlice<'_>) -> Result<(), PostError> {
    if buffer.writable { Ok(()) } else { Err(PostError::ReadOnlyBuffer) }
}

fn one_word(buffer: LocalSlice<'_>, at: RemoteAddress) -> Result<(), PostError> {
    arriving(buffer)?;
    if buffer.len == 8 && buffer.address.is_multiple_of(8) && at.address.is_multiple_of(8) {
        Ok(())
    } else {
        Err(PostError::Unaligned)
    }
}

const fn sge(buffer: LocalSlice<'_>) -> ffi::ibv_sge {
    ffi::ibv_sge { addr: buffer.address, length: buffer.len, lkey: buffer.key }
}

/// The provider copies these bytes when they are posted, whatever the key.
fn inline_sge(bytes: &[u8]) -> Result<ffi::ibv_sge, PostError> {
    match u32::try_from(bytes.len()) {
        Ok(length) => Ok(ffi::ibv_sge { addr: bytes.as_ptr().expose_provenance() as u64, length, lkey: 0 }),
        Err(_) => Err(PostError::InlineTooLong { len: u32::MAX, max: u32::MAX }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: RemoteAddress = RemoteAddress { address: 64, key: 1 };

    #[test]
    fn a_signalled_request_frees_the_places_of_the_silent_ones_before_it() {
        let mut list = SendList::<5>::new();
        let bytes = [0u8; 16];
        for (token, flags) in [
            (1, SendFlags::SILENT),
            (2, SendFlags::SILENT),
            (3, SendFlags::SIGNALLED),
            (4, SendFlags::SIGNALLED),
            (5, SendFlags::SILENT),
        ] {
            list.push(token, Operation::WriteInline { bytes: &bytes[..token as usize], to: AT }, flags)
                .unwrap();
        }
        assert!(!list.ends_signalled());
        list.signal_last();
        list.signal_last();
        assert!(list.ends_signalled());
        assert_eq!((list.inline_len_max, list.message_len_max), (5, 5));
        let mut request = list.link();
        let mut seen = Vec::new();
        while !request.is_null() {
            // SAFETY: linked, and the list lives.
            let linked = unsafe { &*request };
            let id = RequestId(linked.wr_id);
            // SAFETY: as above.
            let buffer = unsafe { *linked.sg_list };
            seen.push((id.token(), id.places(), buffer.length));
            request = linked.next;
        }
        assert_eq!(seen, [(1, 0, 1), (2, 0, 2), (3, 3, 3), (4, 1, 4), (5, 1, 5)]);
        let full = list.push(6, Operation::SendInline { bytes: &bytes }, SendFlags::SIGNALLED);
        assert!(matches!(full, Err(PostError::ListFull)));
        list.clear();
        assert!(list.is_empty() && list.ends_signalled() && list.inline_len_max == 0);
    }
}
