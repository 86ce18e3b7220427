//! The seam between the driver and a fabric.
//!
//! A fabric carries out chains of steps on the regions of one server's shards. Shared memory completes a chain
//! before [`Fabric::post`] returns. A network completes it later, in any order among lanes, or never; then the
//! driver asks [`Fabric::poll`] until it is known, or gives the lane up.
//!
//! Life of a lane, one operation at a time:
//! ```text
//!            post -> Done                    poll -> Some(..)
//! idle <------------------------+     +-----------------------------> idle
//!   |                           |     |
//!   '-- post -> Pending --> in flight-+-- abandon: the fabric keeps the lane's buffers until its
//!                                         completion or the fence, the caller goes on with a fresh lane
//! ```

use crate::capabilities::Capabilities;
use farside_hashtable::{Chain, Lost};

/// What became of a chain when it was posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Posted {
    /// It completed, or was lost, at once.
    Done(Result<(), Lost>),
    /// It is under way: ask [`Fabric::poll`].
    Pending,
}

/// Ordinary memory for one operation. It only grows, so that an operation allocates nothing once it is warm.
#[derive(Default, Debug)]
pub struct Buffers {
    pub(crate) incoming: Vec<u8>,
    pub(crate) outgoing: Vec<u8>,
}

#[inline]
fn lengthen(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    // Chains move whole words: the last one may reach past what the caller needs.
    let len = len.next_multiple_of(8);
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    buffer
}

/// The buffers of one operation. On a network there is registered memory beside them, which the device may touch for as
/// long as a chain is in flight; it is copied from and to while none is.
pub trait Lane {
    /// What plans read and write.
    fn buffers(&self) -> &Buffers;

    /// The same, to be changed.
    fn buffers_mut(&mut self) -> &mut Buffers;

    /// Makes the incoming buffer at least `len` bytes long. What was in it is void.
    #[inline]
    fn reserve_incoming(&mut self, len: usize) {
        lengthen(&mut self.buffers_mut().incoming, len);
    }

    /// Where READs arrive.
    #[inline]
    fn incoming(&self) -> &[u8] {
        &self.buffers().incoming
    }

    /// Where WRITEs come from, at least `len` bytes long. It keeps what was put in it.
    #[inline]
    fn outgoing(&mut self, len: usize) -> &mut [u8] {
        lengthen(&mut self.buffers_mut().outgoing, len)
    }

    /// Whether a chain was posted that has not completed.
    fn in_flight(&self) -> bool;
}

/// What carries out chains. Methods take `&self`, for many lanes of one fabric are in flight at once; a fabric
/// belongs to one thread, or guards itself.
pub trait Fabric {
    /// The buffers of one operation in flight.
    type Lane: Lane;

    /// What it can do, less what was denied.
    fn capabilities(&self) -> Capabilities;

    /// A lane with empty buffers.
    fn open_lane(&self) -> Self::Lane;

    /// Posts `chain`, one step at least, to `shard` over an idle `lane`. On a fabric without
    /// [`Capabilities::ordered`] it has one step. After `Done(Ok(()))` the words found are filled in.
    ///
    /// A step that leaves the region, or that the session may not make, loses the chain, as an access error on a
    /// network ends its connection.
    fn post(&self, lane: &mut Self::Lane, shard: usize, chain: &mut Chain) -> Posted;

    /// Asks whether the chain in flight on `lane` has completed; if so, fills in the words it found. The same
    /// `chain` as was posted. Must make progress by itself: nobody else polls the device.
    fn poll(&self, lane: &mut Self::Lane, chain: &mut Chain) -> Option<Result<(), Lost>>;

    /// From here on chains may be held back, until [`Fabric::release`] posts all of them at once. A fabric on which a
    /// chain completes as it is posted holds nothing back.
    fn hold(&self) {}

    /// Posts what was held back.
    fn release(&self) {}

    /// Rests until a chain in flight may have completed, a millisecond at most: for who has polled in vain for long.
    fn rest(&self) {}

    /// Takes the buffers of a `lane` in flight away from its operation, to be kept until the completion or the
    /// fence, and puts fresh ones in their place.
    fn abandon(&self, lane: &mut Self::Lane);

    /// Begins the fence of rule T5, or asks how it goes: `Some(Ok(()))` once nothing posted before to `shard` can
    /// execute any more, abandoned lanes included; `Some(Err(Lost))` if that cannot be had on this connection.
    fn poll_fence(&self, shard: usize) -> Option<Result<(), Lost>>;

    /// Nanoseconds of the clock by which operations keep to the quarantine and to their deadlines.
    fn now(&self) -> u64;

    /// Nanoseconds of a clock that is exact to microseconds, for backoff; it may cost more than [`Fabric::now`].
    fn fine_ns(&self) -> u64;

    /// Milliseconds of the Unix epoch, for expiry alone.
    fn wall_ms(&self) -> u64;
}
