//! Nothing but tests: see `tests/caught.rs`.
#![forbid(unsafe_code)]
