//! The devices of this host: what each is, how it can be reached, and which one to take.

use super::error::SetupError;
use farside_verbs_sys::{
    AtomicCapability, CmId, Context, DeviceAttributes, EventChannel, GidEntry, GidType, PortAttributes,
    PortState, Transport, Verbs, VerbsError, best_gid, local_addresses, rate_of_port,
};
use std::cmp::Reverse;
use std::net::{IpAddr, SocketAddr};

/// A device that the kernel lists.
#[derive(Debug)]
pub struct Found {
    /// Its name, as `-d` takes it.
    pub name: String,
    /// What it is, or why this process cannot ask it.
    pub facts: Result<DeviceFacts, VerbsError>,
}

/// What a device is and can do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceFacts {
    /// Its protocol.
    pub transport: Transport,
    /// What it can do.
    pub attributes: DeviceAttributes,
    /// Its ports.
    pub ports: Vec<PortFacts>,
}

/// What a port is, and its addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortFacts {
    /// Its number, perftest's `-i`.
    pub number: u8,
    /// Its state.
    pub attributes: PortAttributes,
    /// Its speed as the kernel words it; empty where it does not.
    pub rate: String,
    /// The lines of its table of GIDs.
    pub gids: Vec<GidEntry>,
    /// This host's IP addresses that librdmacm finds to be the port's.
    pub addresses: Vec<IpAddr>,
}

/// How a port is reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Way {
    /// The address that connections name.
    pub address: IpAddr,
    /// The line of the table of GIDs that follows from it; `None` where the protocol is not RoCE.
    pub gid: Option<GidEntry>,
}

impl PortFacts {
    /// Whether it can carry anything.
    pub fn is_active(&self) -> bool {
        self.attributes.state == PortState::Active
    }

    /// The lines of the table of GIDs that connections can have: those of an IP address, and of RoCE v2 where there is
    /// one of either version.
    pub fn reachable_gids(&self) -> impl Iterator<Item = &GidEntry> {
        let is_v2 = |entry: &GidEntry| entry.gid_type == GidType::RoceV2;
        let has_v2 = move |gid| self.gids.iter().any(|other| other.gid == gid && is_v2(other));
        let with_address = self.gids.iter().filter(|entry| self.addresses.contains(&entry.gid.to_ip()));
        with_address.filter(move |entry| is_v2(entry) || !has_v2(entry.gid))
    }

    /// The way to take: by the best GID that is an IP address, else by the first IP address of its interface.
    pub fn way(&self) -> Option<Way> {
        let gids: Vec<_> = self.reachable_gids().cloned().collect();
        match best_gid(self.attributes.link_layer, &gids) {
            Some(entry) => Some(Way { address: entry.gid.to_ip(), gid: Some(entry.clone()) }),
            None => self.addresses.first().map(|&address| Way { address, gid: None }),
        }
    }

    /// Bits a second, in units of 10^9; 0 where the kernel does not say.
    fn gigabits(&self) -> f64 {
        self.rate.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0.0)
    }
}

/// What would be taken of all that was found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Best<'a> {
    /// The device's name.
    pub name: &'a str,
    /// What it is.
    pub device: &'a DeviceFacts,
    /// Which port of it.
    pub port: &'a PortFacts,
}

/// The port to take: among those that are active and have an address, one with atomics before one without, then the
/// fastest, then the first by name.
pub fn best(found: &[Found]) -> Option<Best<'_>> {
    let usable = found.iter().filter_map(|found| Some((&found.name, found.facts.as_ref().ok()?)));
    let ports = usable.flat_map(|(name, device)| device.ports.iter().map(move |port| (name, device, port)));
    ports
        .filter(|(_, _, port)| port.is_active() && port.way().is_some())
        .min_by_key(|(name, device, port)| {
            let atomics = device.attributes.atomics != AtomicCapability::None;
            (!atomics, Reverse((port.gigabits() * 1000.0) as u64), *name, port.number)
        })
        .map(|(name, device, port)| Best { name, device, port })
}

/// Asks all devices. Opens them and binds to each address of this host, and sends nothing.
pub fn inventory() -> Result<Vec<Found>, SetupError> {
    let verbs = Verbs::load()?;
    let mut devices = verbs.devices()?;
    devices.sort_by(|one, other| one.name.cmp(&other.name));
    if devices.is_empty() {
        return Ok(Vec::new());
    }
    let owned = addresses_of_devices(verbs)?;
    let found = devices.into_iter().map(|device| {
        let facts = verbs.open(&device.name).and_then(|context| facts(&context, &owned));
        Found { name: device.name, facts }
    });
    Ok(found.collect())
}

/// An address, and the device and port that librdmacm finds for it.
struct Owned {
    address: IpAddr,
    device: String,
    port: u8,
}

fn addresses_of_devices(verbs: &'static Verbs) -> Result<Vec<Owned>, SetupError> {
    let channel = EventChannel::new(verbs)?;
    let mut owned = Vec::new();
    for address in local_addresses()? {
        let id = CmId::new(&channel)?;
        // Most addresses of a host belong to no RDMA device.
        if id.bind(SocketAddr::new(address, 0)).is_err() {
            continue;
        }
        if let Ok(context) = id.context() {
            owned.push(Owned { address, device: context.name().into(), port: id.port() });
        }
    }
    Ok(owned)
}

fn facts(context: &Context, owned: &[Owned]) -> Result<DeviceFacts, VerbsError> {
    let attributes = context.attributes()?;
    let port = |number| {
        let here = owned.iter().filter(|owned| owned.device == context.name() && owned.port == number);
        Ok(PortFacts {
            number,
            attributes: context.port_attributes(number)?,
            rate: rate_of_port(context.name(), number).unwrap_or_default(),
            gids: context.gids(number).unwrap_or_default(),
            addresses: here.map(|owned| owned.address).collect(),
        })
    };
    let ports = (1..=attributes.ports).map(port).collect::<Result<_, VerbsError>>()?;
    Ok(DeviceFacts { transport: context.transport(), attributes, ports })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use farside_verbs_sys::{Gid, LinkLayer};
    use std::net::Ipv6Addr;

    /// A device of one port with these GIDs (and whether each is of RoCE v2) and addresses.
    pub(in super::super) fn found(
        name: &str,
        atomics: AtomicCapability,
        link_layer: LinkLayer,
        gids: &[(&str, bool)],
        addresses: &[&str],
    ) -> Found {
        let gids = gids.iter().enumerate().map(|(index, (gid, v2))| GidEntry {
            index: index as u32,
            gid: Gid(gid.parse::<Ipv6Addr>().unwrap().octets()),
            gid_type: if *v2 { GidType::RoceV2 } else { GidType::InfiniBandOrRoceV1 },
            interface: Some("eth0".into()),
        });
        let port = PortFacts {
            number: 1,
            attributes: PortAttributes {
                state: PortState::Active,
                link_layer,
                mtu: 1024,
                message_max: 1 << 30,
                lid: 0,
            },
            rate: "100 Gb/sec (4X EDR)".into(),
            gids: gids.collect(),
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        };
        let attributes = DeviceAttributes {
            firmware: String::new(),
            vendor: 0,
            part: 0,
            atomics,
            ports: 1,
            queue_pairs_max: 1 << 16,
            work_requests_max: 1 << 14,
            completions_max: 1 << 14,
            memory_regions_max: 1 << 16,
            memory_windows_max: 0,
            memory_region_len_max: 1 << 40,
            responder_resources_max: 16,
            initiator_depth_max: 16,
        };
        let facts = DeviceFacts { transport: Transport::InfiniBand, attributes, ports: vec![port] };
        Found { name: name.into(), facts: Ok(facts) }
    }

    pub(in super::super) fn roce(name: &str) -> Found {
        let gids =
            [("fe80::1", false), ("fe80::1", true), ("::ffff:10.0.0.1", false), ("::ffff:10.0.0.1", true)];
        found(name, AtomicCapability::Device, LinkLayer::Ethernet, &gids, &["10.0.0.1"])
    }

    fn port(found: &mut Found) -> &mut PortFacts {
        &mut found.facts.as_mut().unwrap().ports[0]
    }

    #[test]
    fn the_way_is_the_best_gid_that_is_an_address() {
        let mut device = roce("mlx5_0");
        let way = port(&mut device).way().unwrap();
        assert_eq!((way.address, way.gid.unwrap().index), ("10.0.0.1".parse().unwrap(), 3));
        port(&mut device).addresses.clear();
        assert_eq!(port(&mut device).way(), None);
        // InfiniBand: no GID is an address; the interface of IPoIB has one.
        let mut device = found(
            "mlx5_1",
            AtomicCapability::Device,
            LinkLayer::InfiniBand,
            &[("fe80::1", false)],
            &["10.1.0.1"],
        );
        let way = port(&mut device).way().unwrap();
        assert_eq!(way, Way { address: "10.1.0.1".parse().unwrap(), gid: None });
    }

    #[test]
    fn a_port_with_atomics_comes_first_and_then_the_fastest() {
        let named = |found: &[Found]| best(found).map(|best| best.name.to_owned());
        let plain = found("a", AtomicCapability::None, LinkLayer::Ethernet, &[], &["10.0.0.2"]);
        assert_eq!(named(&[]), None);
        assert_eq!(named(std::slice::from_ref(&plain)).as_deref(), Some("a"));
        let (mut slow, fast, mut down, mut unnamed) = (roce("b"), roce("c"), roce("d"), roce("e"));
        port(&mut slow).rate = "25 Gb/sec (1X EDR)".into();
        port(&mut down).attributes.state = PortState::Down;
        port(&mut unnamed).addresses.clear();
        let closed = Found {
            name: "f".into(),
            facts: Err(VerbsError {
                call: "ibv_open_device",
                source: std::io::ErrorKind::PermissionDenied.into(),
            }),
        };
        let mut all = vec![closed, unnamed, down, slow, plain];
        assert_eq!(named(&all).as_deref(), Some("b"));
        all.push(fast);
        assert_eq!(named(&all).as_deref(), Some("c"));
    }
}
