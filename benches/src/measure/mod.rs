//! What is measured: latencies, outcomes and fabric counts, per kind of operation and per second.

pub mod histogram;
pub mod interval;
pub mod series;
