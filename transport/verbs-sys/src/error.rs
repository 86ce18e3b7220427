//! What can go wrong.

use crate::memory::BoundsError;
use libc::c_int;
use rustix::io::Errno;
use std::io;
use std::ptr::NonNull;

/// A call of libibverbs or librdmacm failed.
#[derive(Debug, thiserror::Error)]
#[error("{call}: {source}")]
pub struct VerbsError {
    /// The C function, or what stands for it.
    pub call: &'static str,
    /// What it said.
    pub source: io::Error,
}

impl VerbsError {
    pub(crate) fn last(call: &'static str) -> Self {
        Self { call, source: io::Error::last_os_error() }
    }

    /// Says what to do if it means that there is no device, or no way to connect over one.
    pub(crate) fn without_devices(self) -> Self {
        match Errno::from_io_error(&self.source) {
            Some(Errno::NODEV | Errno::NOENT) => Self {
                source: io::Error::new(
                    io::ErrorKind::NotFound,
                    "no RDMA device here, or the kernel module rdma_ucm is not loaded (`modprobe rdma_ucm`)",
                ),
                ..self
            },
            _ => self,
        }
    }

    pub(crate) fn invalid(call: &'static str, why: &'static str) -> Self {
        Self { call, source: io::Error::new(io::ErrorKind::InvalidInput, why) }
    }
}

/// The pointer, or the error in `errno`.
pub(crate) fn not_null<T>(call: &'static str, pointer: *mut T) -> Result<NonNull<T>, VerbsError> {
    NonNull::new(pointer).ok_or_else(|| VerbsError::last(call))
}

/// Calls return 0, or an error number, or that negated, or -1 with `errno` set: anything but 0 is an error.
pub(crate) fn zero(call: &'static str, result: c_int) -> Result<(), VerbsError> {
    match result {
        0 => Ok(()),
        -1 => Err(VerbsError::last(call)),
        number => Err(VerbsError { call, source: io::Error::from_raw_os_error(number.saturating_abs()) }),
    }
}

/// Why memory was not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The range leaves the memory.
    #[error(transparent)]
    Bounds(#[from] BoundsError),
    /// It is not made of whole words, or is empty.
    #[error(
        "memory to be registered starts on a word of 8 bytes and has a whole number of them, at least one"
    )]
    Words,
    /// The memory cannot be written, but the access asked for writes.
    #[error("memory that is mapped read-only cannot be registered for writing")]
    ReadOnly,
    /// This process may not lock so much memory.
    #[error(
        "cannot register {len} bytes with {device}: this process may lock {} KiB in all; raise that by `ulimit -l \
         unlimited`, LimitMEMLOCK=infinity in a systemd unit, or `--ulimit memlock=-1` for a container",
        limit >> 10
    )]
    Locked {
        /// Bytes.
        len: usize,
        /// Which device.
        device: String,
        /// Bytes that the process may lock.
        limit: u64,
    },
    /// The device or the kernel refused.
    #[error("cannot register {len} bytes with {device}: {source}")]
    Refused {
        /// Bytes.
        len: usize,
        /// Which device.
        device: String,
        /// What it said.
        source: io::Error,
    },
}

impl RegisterError {
    /// What `source` means where `limit` bytes may be locked, if there is a limit.
    pub(crate) fn refused(len: usize, device: String, source: io::Error, limit: Option<u64>) -> Self {
        match (Errno::from_io_error(&source), limit) {
            (Some(Errno::NOMEM), Some(limit)) => Self::Locked { len, device, limit },
            _ => Self::Refused { len, device, source },
        }
    }
}

/// Why work was not posted. After [`PostError::Refused`] some of it may have been: the queue pair is to be given up.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    /// More requests than the queue has free; come again when completions have been retired.
    #[error("{needed} work requests do not fit into the {free} that are free")]
    Full {
        /// Requests to be posted.
        needed: u32,
        /// Free ones.
        free: u32,
    },
    /// The last request of a list asks for no completion, so nobody would ever know.
    #[error("the last work request of a list must be signalled")]
    Unsignalled,
    /// An atomic operation on a device that has none, which might complete it with rubbish.
    #[error("the device has no atomic operations")]
    NoAtomics,
    /// Longer than the queue pair takes inline.
    #[error("{len} bytes are more than the {max} that may travel inline")]
    InlineTooLong {
        /// Bytes.
        len: u32,
        /// At most.
        max: u32,
    },
    /// Longer than the port's largest message.
    #[error("{len} bytes are more than the port's largest message of {max}")]
    MessageTooLong {
        /// Bytes.
        len: u32,
        /// At most.
        max: u32,
    },
    /// The buffer of a READ, an atomic operation or a RECEIVE lies in memory not registered for local writing.
    #[error("what arrives needs memory that is registered for local writing")]
    ReadOnlyBuffer,
    /// An atomic operation whose remote word or local buffer is not eight aligned bytes.
    #[error("an atomic operation works on eight aligned bytes")]
    Unaligned,
    /// A list that is full.
    #[error("the list has no room for another work request")]
    ListFull,
    /// The provider refused.
    #[error("{call}: {source}")]
    Refused {
        /// The C function.
        call: &'static str,
        /// What it said.
        source: io::Error,
    },
}

/// Why a step of connecting was not taken.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// 7 means for ever on some devices, so that a dead peer would never be noticed.
    #[error("retry counts are at most 6, for 7 may mean for ever")]
    Retries,
    /// With a depth of 0 READs hang in silence.
    #[error("initiator depth and responder resources are at least 1, or READs would hang")]
    Depth,
    /// Too much private data.
    #[error("{len} bytes of private data; at most {max} go with this message")]
    PrivateData {
        /// Bytes.
        len: usize,
        /// At most.
        max: usize,
    },
    /// Out of order: no device yet, or no queue pair.
    #[error("{0}")]
    Order(&'static str),
    /// A call failed.
    #[error(transparent)]
    Call(#[from] VerbsError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_for_memory_is_the_limits_where_there_is_one() {
        let says = |errno: Errno, limit| {
            RegisterError::refused(4096, "rxe0".into(), errno.into(), limit).to_string()
        };
        let locked = says(Errno::NOMEM, Some(64 << 10));
        assert!(locked.contains("may lock 64 KiB") && locked.contains("ulimit -l unlimited"), "{locked}");
        assert!(!says(Errno::NOMEM, None).contains("ulimit"));
        assert!(!says(Errno::INVAL, Some(64 << 10)).contains("ulimit"));
    }
}
