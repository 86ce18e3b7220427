//! The Farside server: shards of memory that clients on the same host, or with an RDMA device, read and change by
//! themselves, and for all others a two-sided path over TCP. To be embedded, or run as `farside-server`.
//!
//! ```
//! use farside_server::{Config, Server, Socket};
//!
//! let config = Config {
//!     listen: "127.0.0.1:0".parse()?,
//!     memory: Some(16 << 20),
//!     socket: Socket::Off,
//!     ..Config::default()
//! };
//! let running = Server::start(config)?;
//! println!("listening on {}", running.address());
//! running.shutdown();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!  accept ---> worker: its connections take turns      sweep
//!              serve -> requests -> engine             remains of dead clients, quarantine,
//!                        |            |                passes over the index
//!                      leases       plans on own memory     |
//!                        '-----.      |      .--------------'
//!                             shard: region, heap
//! ```
//!
//! | module | what |
//! |---|---|
//! | `config`, `token`, `listen` | what is checked before anything is taken |
//! | `server`, `state`, `shard` | starting and ending; what all threads share; one shard |
//! | `region_dir` | the table in files that outlive the server |
//! | `thread`, `accept`, `worker` | the threads, and what a panic in one means |
//! | `stream`, `inbox`, `connection`, `budget` | one connection's bytes; the large requests of all |
//! | `handshake`, `serve`, `session` | one connection's life |
//! | `requests`, `leases`, `engine` | one request |
//! | `sweep`, `pass`, `remains` | upkeep |
//! | `stats`, `fault` | what is counted and logged |
//! | `metrics`, `exposition` | what of it is served over HTTP |
#![forbid(unsafe_code)]

mod accept;
mod budget;
mod config;
mod connection;
mod engine;
mod exposition;
mod fault;
mod handshake;
mod inbox;
mod leases;
mod listen;
mod metrics;
mod pass;
mod region_dir;
mod remains;
mod requests;
mod scan_page;
mod serve;
mod server;
mod session;
mod shard;
mod state;
mod stats;
mod stream;
mod sweep;
mod thread;
mod token;
mod worker;

pub use config::{Config, ConfigError, Socket};
pub use farside_protocol::wire::Statistic;
pub use farside_transport::region::{CreateError, HugePages};
pub use farside_transport::region::{FileError, Holder};
pub use listen::ListenError;
pub use region_dir::RegionError;
pub use server::{Running, Server, StartError};
pub use token::TokenError;
