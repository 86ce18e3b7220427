//! The one-sided table: GET, PUT, DELETE and their kin as plans without I/O, and the server's side of memory:
//! leases, quarantine, reclamation.
//!
//! A *plan* is an `async fn` over the seam [`Io`]. It says which READ, WRITE and compare-and-swap it wants, as a
//! chain of [`Step`]s, and goes on when they have completed; there is no executor, no waker and no I/O in here.
//! The same plan runs in a client over RDMA, in the server over its own memory, and in the simulator over torn
//! and delayed memory. `DESIGN.md` beside this crate has the protocol, its states and why it is right.
//!
//! | module | what |
//! |---|---|
//! | [`io`] | the seam |
//! | [`plan`] | one file for each operation |
//! | [`hints`] | a client's memory of where records are |
//! | [`duties`] | what a client owes the table after an operation: forwards, retired and published blocks |
//! | [`heap`] | the server's: blocks, lease counts, quarantine, sessions |
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod duties;
pub mod heap;
pub mod hints;
pub mod io;
pub mod plan;

pub use io::{CHAIN_LEN_MAX, Chain, Io, Lost, Step};
