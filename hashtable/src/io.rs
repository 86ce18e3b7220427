//! The seam between the plans and whatever carries out their steps.

use arrayvec::ArrayVec;
use core::future::Future;

/// One access to a shard's region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Brings `len` bytes from offset `at` of the region to offset `to` of [`Io::incoming`].
    Read {
        /// Offset in the region, a multiple of 8.
        at: u64,
        /// Bytes, a multiple of 8.
        len: u32,
        /// Offset in the incoming buffer, a multiple of 8.
        to: u32,
    },
    /// Puts the first `len` bytes of [`Io::outgoing`] to offset `at` of the region.
    Write {
        /// Offset in the region, a multiple of 8.
        at: u64,
        /// Bytes, a multiple of 8.
        len: u32,
    },
    /// Replaces the word at `at` by `new` if it is `expect`, at once and whole.
    CompareSwap {
        /// Offset in the region, a multiple of 8.
        at: u64,
        /// The word that must be there.
        expect: u64,
        /// The word that replaces it.
        new: u64,
        /// The word that was there, filled in when the chain completes. It is whole, never torn.
        found: u64,
    },
}

impl Step {
    /// A READ.
    pub const fn read(at: u64, len: usize, to: usize) -> Self {
        Self::Read { at, len: len.next_multiple_of(8) as u32, to: to as u32 }
    }

    /// A WRITE of the outgoing buffer's first `len` bytes.
    pub const fn write(at: u64, len: usize) -> Self {
        Self::Write { at, len: len.next_multiple_of(8) as u32 }
    }

    /// A compare-and-swap.
    pub const fn compare_swap(at: u64, expect: u64, new: u64) -> Self {
        Self::CompareSwap { at, expect, new, found: 0 }
    }

    /// Of a completed compare-and-swap: `Ok` if it replaced the word, else the word that was there.
    ///
    /// # Panics
    /// If this is no compare-and-swap.
    pub fn outcome(&self) -> Result<(), u64> {
        match *self {
            Self::CompareSwap { expect, found, .. } if expect == found => Ok(()),
            Self::CompareSwap { found, .. } => Err(found),
            _ => panic!("only a compare-and-swap has an outcome"),
        }
    }
}

/// Most steps in a chain.
pub const CHAIN_LEN_MAX: usize = 4;

/// Steps that run in order, each after the one before it is visible.
pub type Chain = ArrayVec<Step, CHAIN_LEN_MAX>;

/// The connection broke, or gave no completion: some prefix of the chain's steps may have executed, or may yet
/// execute until [`Io::fence`] succeeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost;

/// What carries out a plan's steps, for one operation at a time on one shard.
///
/// Order of calls: [`Io::reserve_incoming`] and [`Io::outgoing`] as needed, then [`Io::run`], then
/// [`Io::incoming`]; what a chain read is there until the next `run`.
pub trait Io {
    /// Posts the chain and returns when its last step has completed, with `found` filled in.
    fn run(&mut self, chain: &mut Chain) -> impl Future<Output = Result<(), Lost>>;

    /// Returns when nothing that was posted before can execute any more (rule T5); `Lost` if that cannot be had
    /// by the deadline.
    fn fence(&mut self) -> impl Future<Output = Result<(), Lost>>;

    /// Lets others go first: briefly at `attempt` 0, longer with each further one, to a bound.
    fn pause(&mut self, attempt: u32) -> impl Future<Output = ()>;

    /// Nanoseconds of a clock that all who use the region agree on in rate and that counts suspend.
    fn now(&self) -> u64;

    /// Milliseconds of the Unix epoch, for expiry alone.
    fn wall_ms(&self) -> u64;

    /// Makes [`Io::incoming`] at least `len` bytes long. What was in it is void.
    fn reserve_incoming(&mut self, len: usize);

    /// What the last chain read.
    fn incoming(&self) -> &[u8];

    /// The buffer that WRITEs come from, at least `len` bytes long. It keeps what was put in it.
    fn outgoing(&mut self, len: usize) -> &mut [u8];
}
