//! The client of Farside, a key-value store in memory that its clients read and write one-sidedly: on the server's
//! host a GET is one read of the server's memory and a PUT one write and one compare-and-swap, and the server's CPU
//! has no part in either.
//!
//! ```
//! # fn main() -> farside::Result<()> { pollster::block_on(run()) }
//! # async fn run() -> farside::Result<()> {
//! use farside::Put;
//!
//! // With a server of its own; `Client::connect("127.0.0.1:7471").await?` reaches another.
//! let client = farside::embedded()?;
//! client.put("stock/42", "7").await?;
//! let value = client.get("stock/42").await?.expect("it was just stored");
//! match client.compare_exchange("stock/42", value.version(), "6").await? {
//!     Put::Stored { .. } => println!("sold one"),
//!     _ => println!("somebody was faster"),
//! }
//! println!("over {}", client.active());
//! # Ok(())
//! # }
//! ```
//!
//! | | for | |
//! |---|---|---|
//! | [`Client`] | tasks on any async executor | clones share a connection; dropping a future is safe at any await |
//! | [`Session`] | one thread that counts nanoseconds | synchronous; no allocation, lock or system call when warm |
//! | [`Embedded`] | tests, examples, one process | a server and a client in one line |
//!
//! Every operation ends by its deadline (5 s unless told otherwise) with a value, a definite [`Error`], or
//! [`Error::Indeterminate`]. [`Client::active`] tells the transport and path in use and why it is no better one;
//! [`Session::last_counts`] and [`Client::stats`] tell what operations did: round trips, reads, writes,
//! compare-and-swaps, bytes.
//!
//! The environment variable `FARSIDE_DENY` takes capabilities away, for tests; see [`Builder::deny`].
//!
//! Features, both on by default: `embedded` (the server, for [`embedded`]) and `cli` (the `farside` command).
//! A program that only connects does without: `default-features = false`.
//!
//! # How an operation goes
//! ```text
//! Client --> pool of cores --.                          .--> plan over shared memory, to its end
//!                            +--> core, connection, task+--> request to the server's CPU
//! Session --> its own core --'                          '--> wait: for blocks, for a connection, and again
//! ```
//! A *core* holds what one thread at a time needs: the mapped shards, hints where records are, blocks leased ahead
//! of need, duties done later in batches. Plans run inside a core from their start to their end and never wait;
//! what waits is carried on outside, by the connection's own thread.
#![forbid(unsafe_code)]
#![doc(test(attr(deny(unused_must_use))))]

mod batch;
mod builder;
mod client;
mod connection;
mod core;
#[cfg(feature = "embedded")]
mod embedded;
mod error;
mod open;
mod perform;
mod pool;
mod reconnection;
mod scan;
mod session;
mod settings;
mod shared;
mod stats;
mod task;
mod token;
mod value;

pub use builder::Builder;
pub use client::Client;
#[cfg(feature = "embedded")]
pub use embedded::{Embedded, embedded};
pub use error::{Error, Result};
pub use farside_protocol::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};
pub use farside_protocol::{ErrorKind, Version};
#[cfg(feature = "embedded")]
pub use farside_server as server;
pub use farside_transport::AtomicScope;
pub use farside_transport::capabilities::Path as AccessPath;
pub use farside_transport::selection::{Active, Require, Transport, TransportChoice};
pub use farside_transport::verbs::{DeviceChoice, Rdma};
pub use scan::Scan;
pub use session::Session;
pub use stats::{Counts, FabricCounts, Operation, OperationStats, Stats};
pub use value::{Condition, Delete, Meta, Put, PutOptions, Statistic, Value};

/// Where a server listens unless told otherwise.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:7471";

/// The example in the repository's `README.md` compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
