//! RDMA: one-sided READs, WRITEs and compare-and-swaps by the network adapter, over reliable queue pairs.
//!
//! ```text
//! server                                          client
//! Device -- registers --> Listener                Connector, from the Welcome of a session
//!              |  ticket, keys ------------------>    |
//!              |<-- rdma_cm: connect, ticket ----     |-- Verbs, one for each thread: a queue pair
//!              |                                      |     Fabric: post, poll
//!              |-- Pipe <--- SEND into receives ----> '-- Pipe, one for the session: a queue pair
//!              |     Stream: the session's messages         Stream: the channel's
//!              '-- Own, one for each thread of the server: to itself, if the device's atomics are not the processor's
//! ```
//! A session begins on a TCP connection, which brings the ticket and the keys. From then on its requests and answers go
//! over its pipe, and the connection is only a sign of life. When either ends the server destroys its queue pairs.

mod choice;
mod connector;
mod credits;
mod dial;
mod error;
mod fabric;
mod introduction;
mod inventory;
mod lane;
mod listener;
mod own;
mod pipe;
mod queue;
mod remote;
mod settings;
mod stream;
mod windows;

pub use choice::{ChoiceError, DeviceChoice, link_remedy};
pub use connector::Connector;
pub(crate) use dial::Dial;
pub use error::SetupError;
pub use fabric::Verbs;
pub use farside_verbs_sys as sys;
pub use inventory::{Best, DeviceFacts, Found, PortFacts, Way, best, inventory};
pub use lane::VerbsLane;
pub use listener::{Device, Listener};
pub use own::Own;
pub use pipe::Pipe;
pub use settings::{Rdma, RdmaError};
pub use stream::Stream;
pub use windows::WindowError;

#[cfg(test)]
mod tests;
