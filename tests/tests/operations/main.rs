//! The operations as clients call them, on a live server.

mod concurrent;
mod target;
