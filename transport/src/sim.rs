//! A fabric in memory that behaves as badly as a network may, and the same way again for the same seed.
//!
//! ```text
//! Sim (one connection) --post--> World: chains broken into pieces --one piece a step--> words of the shards
//!        '-------------- poll: moves the world by one step, whoever's piece it is ----------'
//! ```
//! A [`World`] holds the memory of the shards, a virtual clock and all chains under way. Nothing happens in it by
//! itself: each [`poll`](crate::Fabric::poll) of any user executes one piece of some chain, drawn from the seed. So
//! one user alone makes progress, and whoever polls several users in an order of its own, as the simulator of the
//! test suite does, interleaves them access by access and can repeat every run.
//!
//! What a chain meets is its [`Conduct`]'s: READs and WRITEs torn at any 8-byte boundary and moved in any order,
//! words joined from bytes of two moments, accesses held back while others go on, completions that are errors or
//! never come while the accesses still execute until the fence, leaps of time, a coarse clock. A compare-and-swap
//! is always whole, and the steps of a chain keep their order.

mod conduct;
mod event;
mod fabric;
mod flight;
mod rng;
mod state;
mod world;

pub use conduct::Conduct;
pub use event::{Event, What};
pub use fabric::{Sim, SimLane};
pub use rng::Rng;
pub use world::{ClientId, World};

#[cfg(test)]
mod tests;
