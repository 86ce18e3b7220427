//! scratch
#![forbid(unsafe_code)]
