//! The library and the command against servers in this process.

mod bad_input;
mod cancel;
mod command;
mod connections;
mod damage;
mod operations;
#[path = "../rdma/mod.rs"]
mod rdma;
mod scan;
mod ways;
mod windows;
