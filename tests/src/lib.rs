//! How Farside is tested: what an operation means, what clients were told, and whether the two agree.
//!
//! - [`operation`]: operations and their outcomes, as data; [`content`]: values as clients see them
//! - [`model`]: the sequential specification of one key and of a map
//! - [`history`]: recording what concurrent clients called and what came back
//! - [`linearizability`]: deciding whether a history is explained by the model
//!
//! - [`simulator`]: clients and server over simulated memory, drawn from a seed
//!
//! `README.md` beside this crate lists the tests and what each of them proves.
#![forbid(unsafe_code)]

pub mod content;
pub mod history;
pub mod linearizability;
pub mod model;
pub mod operation;
pub mod simulator;

/// The example in `README.md` compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
