//! What both ends of Farside agree on: where things lie in a shard's memory, what its words mean, how a
//! record looks, and the messages that travel beside the one-sided traffic.
//!
//! This crate does no I/O, has no unsafe code and needs no std: it builds for `wasm32v1-none` and bare metal,
//! which CI checks. Everything it decodes is untrusted; decoding returns an error and never panics.
//!
//! | module | what |
//! |---|---|
//! | [`class`] | size classes of blocks |
//! | [`word`] | the two words that are changed by compare-and-swap: [`SlotWord`] and [`Link`] |
//! | [`record`] | the bytes of a key and its value, and what makes them provably the ones that were asked for |
//! | [`hash`] | from a key to its shard, its window and its fingerprint |
//! | [`geometry`] | offsets of superblock, index and heap |
//! | [`superblock`] | the static first page of a shard |
//! | [`token`] | the lines of a token file |
//! | [`wire`] | frames, handshake, requests and responses |
//! | [`mutation`] | deliberate mistakes for the tests, compiled away otherwise |
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod class;
pub mod error;
pub mod geometry;
pub mod hash;
pub mod limits;
pub mod mutation;
pub mod record;
pub mod superblock;
pub mod token;
pub mod wire;
pub mod word;

pub use class::Class;
pub use error::ErrorKind;
pub use geometry::{Geometry, SlotIndex};
pub use hash::{KeyHash, TableSeed};
pub use record::{Key, Record, RecordView};
pub use superblock::{Authority, Superblock};
pub use word::{Block, Death, Life, Link, Locator, SlotState, SlotWord, Version};
