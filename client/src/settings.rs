//! What a builder's words come to.

use farside_transport::selection::{Require, TransportChoice};
use farside_transport::verbs::Rdma;
use farside_transport::{Address, Denied};
use std::time::Duration;

pub(crate) struct Settings {
    pub(crate) address: Address,
    pub(crate) transport: TransportChoice,
    /// Empty: none.
    pub(crate) token: Vec<u8>,
    pub(crate) deadline: Duration,
    pub(crate) hint_memory: usize,
    pub(crate) read_only: bool,
    pub(crate) requirements: Vec<Require>,
    pub(crate) name: String,
    pub(crate) denied: Denied,
    pub(crate) rdma: Rdma,
}
