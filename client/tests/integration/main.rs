//! The library and the command against servers in this process.

mod cancel;
mod operations;
mod ways;
