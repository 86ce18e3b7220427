//! lib
#![forbid(unsafe_code)]
pub mod generator;
pub mod measure;
pub mod run;
pub mod target;
pub mod workload;
