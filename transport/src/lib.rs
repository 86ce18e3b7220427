//! How Farside reaches the table: one seam, and a folder for each fabric behind it.
//!
//! ```text
//! plan (farside-hashtable) --Io--> LaneIo --Fabric--> shm     loads, stores and CAS on a shared mapping
//!                                                    verbs   READ, WRITE and CAS by an RDMA device
//! two-sided requests ------------> Channel            TCP, a Unix socket or SEND/RECV, pipelined
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`address`] | where a server listens |
//! | [`capabilities`] | what a fabric can do, and which operations are one-sided therefore |
//! | [`selection`] | which transport was asked for, which is in use, and why |
//! | [`fabric`] | the seam |
//! | [`driver`] | runs a plan over a fabric |
//! | [`region`] | a shard's memory; the one module with unsafe code |
//! | [`shm`] | the fabric of clients on the server's host |
//! | [`verbs`] | the fabric of clients with an RDMA device |
//! | [`sim`] | a fabric in memory that misbehaves as its seed says |
//! | [`channel`] | the two-sided path and the control messages |
//! | [`fd_passing`] | descriptors over a Unix socket |
//! | [`host`] | whether two processes run on one host |
//! | [`clock`] | the clocks of rules T1, T2 and expiry |
#![deny(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!("farside-transport needs Linux: sealed memfds and their passing between processes");

pub mod address;
pub mod capabilities;
pub mod channel;
pub mod clock;
pub mod driver;
pub mod fabric;
pub mod fd_passing;
pub mod host;
pub mod region;
pub mod selection;
pub mod shm;
pub mod sim;
pub mod verbs;

pub use address::Address;
pub use capabilities::{AtomicScope, Capabilities, Denied};
pub use driver::{Counts, LaneIo, drive, drive_together};
pub use fabric::{Fabric, Lane, Posted};
pub use region::Region;
