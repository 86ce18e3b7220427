//! The fabric of clients on the server's host: the regions mapped into this process, loads, stores and CAS.
//!
//! A chain has completed when its post returns, so no lane is ever in flight and the fence is there at once.
//! What fences a *process* is the end of its control connection, whose socket therefore stays open until the last
//! mapping is gone, whatever becomes of the session (see [`Lifeline`](crate::channel::Lifeline)).

mod data;
mod setup;

pub use data::{Shm, ShmLane};
pub use setup::{AttachError, Attached, attach};
