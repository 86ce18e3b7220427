//! How clients reach a server in another process.

use crate::rdma;
use farside::TransportChoice;
use std::net::IpAddr;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Shm,
    Tcp,
    /// Over the device that has this address.
    Verbs(IpAddr),
}

impl Way {
    /// Those to test: RDMA where devices are named, and the others, which every host has, where none are.
    pub(crate) fn all() -> Vec<Self> {
        Self::rdma().unwrap_or_else(|| vec![Self::Shm, Self::Tcp])
    }

    /// Those of [`Way::all`] by which clients read for themselves.
    pub(crate) fn one_sided() -> Vec<Self> {
        Self::rdma().unwrap_or_else(|| vec![Self::Shm])
    }

    /// The RDMA devices, if any are named.
    pub(crate) fn rdma() -> Option<Vec<Self>> {
        Some(rdma::devices()?.into_iter().map(Self::Verbs).collect())
    }

    pub(crate) fn transport(self) -> TransportChoice {
        match self {
            Self::Shm => TransportChoice::Shm,
            Self::Tcp => TransportChoice::Tcp,
            Self::Verbs(_) => TransportChoice::Verbs,
        }
    }

    /// The device that its server needs.
    pub(crate) fn device(self) -> Option<IpAddr> {
        match self {
            Self::Verbs(address) => Some(address),
            _ => None,
        }
    }
}
