//! The fabric of clients on the server's host: the regions mapped into this process, loads, stores and CAS.
//!
//! A chain has completed when its post returns, so no lane is ever in flight and the fence is there at once.
//! What fences a *process* is the end of its control connection: whoever holds a [`Shm`] drops it before that.

mod data;

pub use data::{Shm, ShmLane};
