//! The client of Farside, a key-value store in memory that its clients read and write one-sidedly.
#![forbid(unsafe_code)]

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
pub use session::Session;
pub use stats::{Counts, FabricCounts, Operation, OperationStats, Stats};
pub use value::{Condition, Delete, Meta, Put, PutOptions, Statistic, Value};

/// Where a server listens unless told otherwise.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:7471";
