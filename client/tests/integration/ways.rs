//! A server for each test, and a client of it over each transport.

use crate::rdma;
use farside::server::Config;
use farside::{Client, Embedded, TransportChoice};
use std::net::IpAddr;
use std::time::Duration;

/// How clients reach the server: each way another path of reads and updates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Both one-sided.
    Shm,
    /// Reads one-sided, updates two-sided.
    ShmWithoutAtomics,
    /// Both two-sided.
    ShmWithoutReads,
    /// Both two-sided.
    Tcp,
    /// Over the RDMA device that has this address: reads one-sided, updates if it has atomics.
    Verbs(IpAddr),
}

impl Way {
    /// Those to test: RDMA where devices are named, and the others, which every host has, where none are.
    pub(crate) fn all() -> Vec<Self> {
        match rdma::devices() {
            Some(devices) => devices.into_iter().map(Self::Verbs).collect(),
            None => vec![Self::Shm, Self::ShmWithoutAtomics, Self::ShmWithoutReads, Self::Tcp],
        }
    }

    pub(crate) fn builder(self) -> farside::Builder {
        let (transport, denied) = match self {
            Self::Shm => (TransportChoice::Shm, ""),
            Self::ShmWithoutAtomics => (TransportChoice::Shm, "atomic"),
            Self::ShmWithoutReads => (TransportChoice::Shm, "read"),
            Self::Tcp => (TransportChoice::Tcp, ""),
            Self::Verbs(_) => (TransportChoice::Verbs, ""),
        };
        // Long, for a machine that is busy with other things.
        Client::builder().transport(transport).deny(denied).deadline(Duration::from_secs(30))
    }

    pub(crate) fn reads_one_sided(self) -> bool {
        matches!(self, Self::Shm | Self::ShmWithoutAtomics | Self::Verbs(_))
    }

    /// Whether updates are one-sided; `None`: that is the device's to say.
    pub(crate) fn updates_one_sided(self) -> Option<bool> {
        match self {
            Self::Verbs(_) => None,
            _ => Some(self == Self::Shm),
        }
    }

    pub(crate) fn start(self) -> Embedded {
        self.start_with(config())
    }

    pub(crate) fn start_with(self, config: Config) -> Embedded {
        let rdma = match self {
            Self::Verbs(address) => Some((address, 0).into()),
            _ => None,
        };
        let memory_windows = rdma.is_some() && !config.untrusted_writers && rdma::memory_windows();
        Embedded::start(Config { rdma, memory_windows, ..config }, self.builder())
            .unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }
}

/// Small, and with a short quarantine, so that blocks come round within a test.
pub(crate) fn config() -> Config {
    Config {
        memory: Some(48 << 20),
        shards: Some(2),
        max_keys: Some(20_000),
        quarantine: Duration::from_millis(50),
        ..Config::default()
    }
}

/// Runs `test` over each way with a server of its own.
pub(crate) fn over_each_way(test: impl Fn(Way, &Embedded)) {
    for way in Way::all() {
        test(way, &way.start());
    }
}
