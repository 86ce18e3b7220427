//! RDMA: one-sided READs, WRITEs and compare-and-swaps by the network adapter, over reliable queue pairs.
//!
//! ```text
//! server                                          client
//! Device -- registers --> Listener                Connector, from the Welcome of a session
//!              |  ticket, keys ------------------>    |
//!              |<-- rdma_cm: connect, ticket ----     |-- Verbs, one for each thread: a queue pair
//!              '-- Own, one for each thread of        |
//!                  the server: to itself, if the      '-- Fabric: post, poll
//!                  device's atomics are not the processor's
//! ```
//! The session itself lives on a TCP connection: it brings the ticket and the keys, leases and reports go over it, and
//! when it ends the server destroys its queue pairs.

mod choice;
mod connector;
mod dial;
mod error;
mod fabric;
mod inventory;
mod lane;
mod listener;
mod own;
mod queue;
mod remote;
mod settings;
mod windows;

pub use choice::{ChoiceError, DeviceChoice, link_remedy};
pub use connector::Connector;
pub use error::SetupError;
pub use fabric::Verbs;
pub use farside_verbs_sys as sys;
pub use inventory::{Best, DeviceFacts, Found, PortFacts, Way, best, inventory};
pub use lane::VerbsLane;
pub use listener::{Device, Listener};
pub use own::Own;
pub use settings::{Rdma, RdmaError};
pub use windows::WindowError;

#[cfg(test)]
mod tests;
