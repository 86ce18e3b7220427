//! A server for each test, and a client of it over each transport.

use farside::server::Config;
use farside::{Client, Embedded, TransportChoice};
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
}

impl Way {
    pub(crate) const ALL: [Self; 4] = [Self::Shm, Self::ShmWithoutAtomics, Self::ShmWithoutReads, Self::Tcp];

    pub(crate) fn builder(self) -> farside::Builder {
        let (transport, denied) = match self {
            Self::Shm => (TransportChoice::Shm, ""),
            Self::ShmWithoutAtomics => (TransportChoice::Shm, "atomic"),
            Self::ShmWithoutReads => (TransportChoice::Shm, "read"),
            Self::Tcp => (TransportChoice::Tcp, ""),
        };
        // Long, for a machine that is busy with other things.
        Client::builder().transport(transport).deny(denied).deadline(Duration::from_secs(30))
    }

    pub(crate) fn reads_one_sided(self) -> bool {
        matches!(self, Self::Shm | Self::ShmWithoutAtomics)
    }

    pub(crate) fn updates_one_sided(self) -> bool {
        self == Self::Shm
    }

    pub(crate) fn start(self) -> Embedded {
        Embedded::start(config(), self.builder()).unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }
}

/// Small, and with a short quarantine, so that blocks come round within a test.
pub(crate) fn config() -> Config {
    Config {
        memory: 48 << 20,
        shards: Some(2),
        max_keys: Some(20_000),
        quarantine: Duration::from_millis(50),
        ..Config::default()
    }
}
