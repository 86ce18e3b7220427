//! The parts of `farside-bench`, the load generator for Farside with YCSB's workloads.
//!
//! A job goes through them from top to bottom:
//!
//! 1. [`cli`] and [`plan`]: flags and property files become a checked plan.
//! 2. [`workload`]: mix, keys, values and distribution, by YCSB's names; [`generator`] draws the numbers.
//! 3. [`run`]: threads prepare requests, wait for their time, and time them against a [`target`].
//! 4. [`measure`]: latencies, outcomes and fabric counts, second by second.
//! 5. [`report`]: one model in several forms, and the merging of several processes' reports.
//!
//! [`store`] finds the target that the flags name, and [`job`] ties them together.

#![cfg_attr(not(feature = "lmdb"), forbid(unsafe_code))]
#![cfg_attr(feature = "lmdb", deny(unsafe_code))]
// They panic when their stream is gone.
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]

pub mod cli;
pub mod compare;
pub mod generator;
pub mod job;
pub mod measure;
pub mod plan;
pub mod report;
pub mod run;
pub mod signals;
pub mod store;
pub mod target;
pub mod workload;
