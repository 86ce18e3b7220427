//! The operations as clients call them: one at a time against a map, and many at once on a live server.

mod concurrent;
mod differential;
mod link;
mod sim;
mod target;
