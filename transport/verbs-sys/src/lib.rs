//! RDMA verbs for Farside: bindings to libibverbs and librdmacm that are opened when they are first needed, so that
//! Farside builds and runs where they are absent, and a safe layer over them.
//!
//! ```text
//! Verbs ---- Context ---- ProtectionDomain ---- MemoryRegion<M> ---- M: Memory
//!   |           |                 |
//!   |           |                 '----- MemoryWindow
//!   |           '---- CompletionQueue
//!   |                             |
//! EventChannel ---- CmId ---- QueuePair      post_send(SendList), post_receive
//! ```
//! A line is an `Arc` from right to left: nothing is destroyed before what was made of it. [`ffi`] has the C side.
//!
//! What the safe layer promises: memory that a device may touch stays mapped while it is registered; each buffer of
//! a work request lies in a registered region, or travels with the request; a completion queue cannot overflow; and
//! nothing makes a reference into registered memory, whose contents are copied in and out word by word.
//!
//! One operation of a connected queue pair: a record is written, a word swapped and read back, in that order, with
//! one doorbell and one completion.
//! ```
//! # use farside_verbs_sys::*;
//! # fn publish(
//! #     queue_pair: &QueuePair, buffer: &MemoryRegion<Buffer>, record: RemoteAddress, slot: RemoteAddress, word: u64,
//! # ) -> Result<u64, Box<dyn std::error::Error>> {
//! let mut list = SendList::<3>::new();
//! list.push(7, Operation::WriteInline { bytes: b"record", to: record }, SendFlags::SILENT)?;
//! let found = buffer.slice(0, 8)?;
//! list.push(7, Operation::CompareSwap { found, at: slot, expect: word, new: word + 1 }, SendFlags::SILENT)?;
//! list.push(7, Operation::Read { into: buffer.slice(8, 8)?, from: slot }, SendFlags::SIGNALLED)?;
//! queue_pair.post_send(&mut list)?;
//!
//! let mut completions = [Completion::EMPTY; 16];
//! loop {
//!     let count = queue_pair.send_queue().poll(&mut completions)?;
//!     for completion in &completions[..count] {
//!         queue_pair.retire(completion);
//!         if completion.token() == 7 {
//!             completion.result().map_err(|status| status.to_string())?;
//!             return Ok(buffer.load(0)?);
//!         }
//!     }
//! }
//! # }
//! ```
//!
//! Verbs do not survive `fork`: load them in the process that uses them.

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("verbs need 64-bit Linux");

mod addresses;
mod cm;
mod completion;
mod context;
mod error;
pub mod ffi;
mod gid;
mod library;
pub mod litmus;
mod memory;
mod queue_pair;
mod send_list;
mod window;

pub use addresses::local_addresses;
pub use cm::{CmId, CmIdKey, ConnectionParameters, Depths, Event, EventChannel, EventKind};
pub use completion::{Completion, CompletionQueue, Status};
pub use context::{
    AsyncEvent, AtomicCapability, Context, DeviceAttributes, DeviceName, LinkLayer, PortAttributes,
    PortState, ProtectionDomain, Transport,
};
pub use error::{ConnectionError, PostError, RegisterError, VerbsError};
pub use gid::{Gid, GidEntry, GidType, best_gid, gids_of_port, rate_of_port};
pub use library::{LoadError, Verbs};
pub use memory::{Access, BoundsError, Buffer, LocalSlice, Memory, MemoryRegion, RemoteAddress};
pub use queue_pair::{QueuePair, QueuePairLimits, QueuePairSettings, QueuePairState, ack_deadline};
pub use send_list::{Operation, SendFlags, SendList};
pub use window::{MemoryWindow, WindowRange};
