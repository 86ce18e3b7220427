//! The server as its clients meet it, in one binary. `process` runs the real `farside-server`.

mod client;
mod embedding;
mod handshake;
mod hostile;
mod memory;
mod metrics;
mod operations;
mod process;
mod rdma;
mod shared_memory;
