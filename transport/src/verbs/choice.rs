//! Which device to use, as a person says it, and the IP address that follows.
//!
//! Connections are made by librdmacm, which goes from an address to a device, a port and a GID. So a device that is
//! named stands for its best address, and a GID can be had only if it is an address's.

use super::error::SetupError;
use super::inventory::{Found, PortFacts, inventory};
use farside_verbs_sys::PortState;
use std::net::IpAddr;

/// A device of this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceChoice {
    /// The one that has this address.
    Address(IpAddr),
    /// The one of this name.
    Named {
        /// As `ibv_devices` lists it; perftest's `-d`.
        name: String,
        /// Its port, counted from 1; perftest's `-i`. `None`: the first that is active and has an address.
        port: Option<u8>,
        /// Line of the port's table of GIDs; perftest's `-x`. `None`: the best.
        gid_index: Option<u32>,
    },
}

impl From<IpAddr> for DeviceChoice {
    fn from(address: IpAddr) -> Self {
        Self::Address(address)
    }
}

/// Why a device cannot be used as it was named.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChoiceError {
    /// There is none of that name.
    #[error("no RDMA device is called `{name}`; this host has {}", list(known))]
    Unknown {
        /// The name.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// It is there but cannot be asked.
    #[error(
        "the RDMA device {name} cannot be opened: {reason}; its node under /dev/infiniband must be there and open \
         to this user (containers: `--device /dev/infiniband`)"
    )]
    Closed {
        /// The device.
        name: String,
        /// What it said.
        reason: String,
    },
    /// It has no such port.
    #[error("the RDMA device {name} has ports 1 to {ports}, and no port {port}")]
    NoPort {
        /// The device.
        name: String,
        /// The port.
        port: u8,
        /// How many it has.
        ports: usize,
    },
    /// The port has no link.
    #[error("port {port} of the RDMA device {name} is {state}: {}", link_remedy(*state))]
    PortDown {
        /// The device.
        name: String,
        /// The port.
        port: u8,
        /// Its state.
        state: PortState,
    },
    /// The port has no such GID.
    #[error(
        "port {port} of the RDMA device {name} has no GID of index {index}; those that can be had are {}",
        list(known)
    )]
    NoGid {
        /// The device.
        name: String,
        /// The port.
        port: u8,
        /// The index.
        index: u32,
        /// Those that can be had.
        known: Vec<String>,
    },
    /// The GID is not what an IP address leads to.
    #[error(
        "GID {index} ({gid}) of port {port} of the RDMA device {name} cannot be asked for: connections are made by \
         IP addresses, and no address of this host leads to it; those that can be had are {}",
        list(known)
    )]
    NotReached {
        /// The device.
        name: String,
        /// The port.
        port: u8,
        /// The index.
        index: u32,
        /// The GID.
        gid: String,
        /// Those that can be had.
        known: Vec<String>,
    },
    /// The port has no IP address at all.
    #[error(
        "port {port} of the RDMA device {name} has no IP address, by which connections are made: give its network \
         interface one (`ip address add ADDRESS/LEN dev INTERFACE`; on InfiniBand that of IPoIB)"
    )]
    NoAddress {
        /// The device.
        name: String,
        /// The port.
        port: u8,
    },
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// What to do about a port in this state.
pub fn link_remedy(state: PortState) -> &'static str {
    match state {
        PortState::Initializing | PortState::Armed => {
            "it waits for a subnet manager: one must run in the fabric (a managed switch, or `opensm`)"
        }
        _ => "plug its cable in, and bring its network interface up (`ip link set INTERFACE up`)",
    }
}

impl DeviceChoice {
    /// The address by which librdmacm finds it. Asks this host's devices if it is named.
    pub fn address(&self) -> Result<IpAddr, SetupError> {
        match self {
            Self::Address(address) => Ok(*address),
            Self::Named { name, port, gid_index } => Ok(address_of(&inventory()?, name, *port, *gid_index)?),
        }
    }
}

fn address_of(
    found: &[Found],
    name: &str,
    port: Option<u8>,
    gid_index: Option<u32>,
) -> Result<IpAddr, ChoiceError> {
    let Some(device) = found.iter().find(|found| found.name == name) else {
        let known = found.iter().map(|found| found.name.clone()).collect();
        return Err(ChoiceError::Unknown { name: name.into(), known });
    };
    let facts = device
        .facts
        .as_ref()
        .map_err(|error| ChoiceError::Closed { name: name.into(), reason: error.to_string() })?;
    let usable = |port: &&PortFacts| port.is_active() && port.way().is_some();
    let port = match port {
        Some(number) => facts.ports.iter().find(|port| port.number == number),
        None => facts.ports.iter().find(usable).or_else(|| facts.ports.first()),
    }
    .ok_or_else(|| ChoiceError::NoPort {
        name: name.into(),
        port: port.unwrap_or(1),
        ports: facts.ports.len(),
    })?;
    if !port.is_active() {
        let state = port.attributes.state;
        return Err(ChoiceError::PortDown { name: name.into(), port: port.number, state });
    }
    match gid_index {
        None => port
            .way()
            .map(|way| way.address)
            .ok_or_else(|| ChoiceError::NoAddress { name: name.into(), port: port.number }),
        Some(index) => address_of_gid(name, port, index),
    }
}

fn address_of_gid(name: &str, port: &PortFacts, index: u32) -> Result<IpAddr, ChoiceError> {
    let known = || port.reachable_gids().map(|entry| format!("{} ({})", entry.index, entry.gid)).collect();
    if let Some(entry) = port.reachable_gids().find(|entry| entry.index == index) {
        return Ok(entry.gid.to_ip());
    }
    let (name, number) = (name.to_owned(), port.number);
    Err(match port.gids.iter().find(|entry| entry.index == index) {
        Some(entry) => {
            let gid = entry.gid.to_string();
            ChoiceError::NotReached { name, port: number, index, gid, known: known() }
        }
        None => ChoiceError::NoGid { name, port: number, index, known: known() },
    })
}

#[cfg(test)]
mod tests {
    use super::super::inventory::tests::roce;
    use super::*;
    use farside_verbs_sys::VerbsError;

    #[test]
    fn a_name_leads_to_its_best_address_or_says_what_to_do() {
        let found = [roce("mlx5_0")];
        let ask = |name, port, gid_index| {
            address_of(&found, name, port, gid_index).map_err(|error| error.to_string())
        };
        let address: IpAddr = "10.0.0.1".parse().unwrap();
        for (port, gid_index) in [(None, None), (Some(1), None), (None, Some(3)), (Some(1), Some(3))] {
            assert_eq!(ask("mlx5_0", port, gid_index), Ok(address));
        }
        for (name, port, gid_index, says) in [
            ("mlx5_9", None, None, "this host has mlx5_0"),
            ("mlx5_0", Some(2), None, "ports 1 to 1, and no port 2"),
            ("mlx5_0", None, Some(7), "no GID of index 7; those that can be had are 3 (::ffff:10.0.0.1)"),
            ("mlx5_0", None, Some(1), "GID 1 (fe80::1)"),
            ("mlx5_0", None, Some(2), "GID 2 (::ffff:10.0.0.1)"),
        ] {
            let error = ask(name, port, gid_index).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        let error = address_of(&[], "mlx5_0", None, None).unwrap_err().to_string();
        assert!(error.ends_with("this host has none"), "{error}");
    }

    #[test]
    fn a_port_that_cannot_be_used_says_why() {
        let mut found = [roce("mlx5_0")];
        let port = |found: &mut [Found; 1], change: fn(&mut PortFacts)| {
            change(&mut found[0].facts.as_mut().unwrap().ports[0]);
            address_of(found, "mlx5_0", None, None).unwrap_err().to_string()
        };
        let error = port(&mut found, |port| port.addresses.clear());
        assert!(error.contains("has no IP address"), "{error}");
        let error = port(&mut found, |port| port.attributes.state = PortState::Down);
        assert!(error.contains("port 1 of the RDMA device mlx5_0 is down: plug"), "{error}");
        let error = port(&mut found, |port| port.attributes.state = PortState::Initializing);
        assert!(error.contains("subnet manager"), "{error}");
        let refused =
            VerbsError { call: "ibv_open_device", source: std::io::ErrorKind::PermissionDenied.into() };
        found[0].facts = Err(refused);
        let error = address_of(&found, "mlx5_0", None, None).unwrap_err().to_string();
        assert!(error.contains("/dev/infiniband"), "{error}");
    }
}
