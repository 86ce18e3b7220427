//! RDMA devices as a person sees them, and which one would be used and why.

use super::Check;
use farside_transport::verbs::sys::{
    AtomicCapability, DeviceAttributes, GidEntry, GidType, LinkLayer, Transport,
};
use farside_transport::verbs::{Best, ChoiceError, DeviceFacts, Found, PortFacts, Way, best, link_remedy};
use serde::Serialize;
use std::fmt;

const NAME: &str = "RDMA device";

/// A device, for scripts.
#[derive(Serialize)]
pub(super) struct Device {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    facts: Option<Facts>,
}

#[derive(Serialize)]
struct Facts {
    protocol: &'static str,
    firmware: String,
    #[serde(flatten)]
    consequences: Consequences,
    queue_pairs_max: u32,
    work_requests_max: u32,
    memory_regions_max: u32,
    memory_region_bytes_max: u64,
    memory_windows_max: u32,
    responder_resources_max: u8,
    initiator_depth_max: u8,
    ports: Vec<Port>,
}

#[derive(Serialize)]
struct Port {
    number: u8,
    state: String,
    link_layer: &'static str,
    mtu: u32,
    rate: String,
    message_bytes_max: u32,
    addresses: Vec<String>,
    gids: Vec<Gid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
}

#[derive(Serialize)]
struct Gid {
    index: u32,
    gid: String,
    #[serde(rename = "type")]
    gid_type: &'static str,
    interface: Option<String>,
    chosen: bool,
}

/// What a device's atomics mean for a server on it.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
struct Consequences {
    atomics: &'static str,
    authority: &'static str,
    updates: &'static str,
}

impl Consequences {
    const fn of(atomics: AtomicCapability) -> Self {
        match atomics {
            AtomicCapability::None => Self { atomics: "none", authority: "coherent", updates: "two-sided" },
            AtomicCapability::Device => {
                Self { atomics: "device-only", authority: "nic", updates: "one-sided" }
            }
            AtomicCapability::Global => {
                Self { atomics: "global", authority: "coherent", updates: "one-sided" }
            }
        }
    }
}

impl fmt::Display for Consequences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { atomics, authority, updates } = self;
        write!(
            f,
            "atomics {atomics}; so a server on it has authority {authority}, reads one-sided, updates {updates}"
        )
    }
}

/// What would be used, for scripts.
#[derive(Serialize)]
pub(super) struct Choice {
    device: String,
    port: u8,
    address: String,
    gid_index: Option<u32>,
    #[serde(flatten)]
    consequences: Consequences,
}

impl Choice {
    /// # Panics
    /// If the port has no address, without which it is not the best.
    pub(super) fn of(best: Best<'_>) -> Self {
        let way = best.port.way().expect("the best port has an address");
        Self {
            device: best.name.into(),
            port: best.port.number,
            address: way.address.to_string(),
            gid_index: way.gid.map(|entry| entry.index),
            consequences: Consequences::of(best.device.attributes.atomics),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {}, {}", self.device, self.port, self.address)
    }
}

impl Device {
    pub(super) fn of(found: &Found) -> Self {
        let (error, facts) = match &found.facts {
            Ok(facts) => (None, Some(Facts::of(facts))),
            Err(error) => (Some(error.to_string()), None),
        };
        Self { name: found.name.clone(), error, facts }
    }
}

impl Facts {
    fn of(DeviceFacts { transport, attributes, ports }: &DeviceFacts) -> Self {
        Self {
            protocol: protocol(*transport, ports),
            firmware: attributes.firmware.clone(),
            consequences: Consequences::of(attributes.atomics),
            queue_pairs_max: attributes.queue_pairs_max,
            work_requests_max: attributes.work_requests_max,
            memory_regions_max: attributes.memory_regions_max,
            memory_region_bytes_max: attributes.memory_region_len_max,
            memory_windows_max: attributes.memory_windows_max,
            responder_resources_max: attributes.responder_resources_max,
            initiator_depth_max: attributes.initiator_depth_max,
            ports: ports.iter().map(|port| Port::of(*transport, port)).collect(),
        }
    }
}

impl Port {
    fn of(transport: Transport, port: &PortFacts) -> Self {
        let way = port.way();
        let gid = |entry: &GidEntry| Gid {
            index: entry.index,
            gid: entry.gid.to_string(),
            gid_type: gid_type(transport, port, entry),
            interface: entry.interface.clone(),
            chosen: way.as_ref().and_then(|way| way.gid.as_ref()) == Some(entry),
        };
        Self {
            number: port.number,
            state: port.attributes.state.to_string(),
            link_layer: link_layer(port.attributes.link_layer),
            mtu: port.attributes.mtu,
            rate: port.rate.clone(),
            message_bytes_max: port.attributes.message_max,
            addresses: port.addresses.iter().map(ToString::to_string).collect(),
            gids: port.gids.iter().map(gid).collect(),
            address: way.as_ref().map(|way| way.address.to_string()),
        }
    }
}

fn link_layer(link_layer: LinkLayer) -> &'static str {
    match link_layer {
        LinkLayer::InfiniBand => "InfiniBand",
        LinkLayer::Ethernet => "Ethernet",
        LinkLayer::Unspecified => "unspecified link",
    }
}

fn protocol(transport: Transport, ports: &[PortFacts]) -> &'static str {
    let on_ethernet = ports.iter().any(|port| port.attributes.link_layer == LinkLayer::Ethernet);
    match transport {
        Transport::InfiniBand if on_ethernet => "RoCE",
        Transport::InfiniBand => "InfiniBand",
        Transport::Iwarp => "iWARP",
        Transport::Other => "unknown protocol",
    }
}

fn gid_type(transport: Transport, port: &PortFacts, entry: &GidEntry) -> &'static str {
    match entry.gid_type {
        GidType::RoceV2 => "RoCE v2",
        GidType::InfiniBandOrRoceV1 if is_roce(transport, port) => "RoCE v1",
        GidType::InfiniBandOrRoceV1 => protocol(transport, std::slice::from_ref(port)),
    }
}

fn is_roce(transport: Transport, port: &PortFacts) -> bool {
    transport == Transport::InfiniBand && port.attributes.link_layer == LinkLayer::Ethernet
}

/// One device: good if a port of it can be used as it is.
pub(super) fn check(found: &Found) -> Check {
    let name = &found.name;
    let facts = match &found.facts {
        Ok(facts) => facts,
        Err(error) => {
            return Check::warn(
                NAME,
                format!("{name}: {error}"),
                "its node under /dev/infiniband must be there and open to this user; in a container `--device \
                 /dev/infiniband`",
            );
        }
    };
    let kind = protocol(facts.transport, &facts.ports);
    let states: Vec<_> = facts.ports.iter().map(port_line).collect();
    let line = format!("{name}: {kind}, {}", states.join("; "));
    let check = match trouble(name, facts) {
        Some(remedy) => Check::warn(NAME, line, remedy),
        None => Check::ok(NAME, line),
    };
    let mut details = vec![Consequences::of(facts.attributes.atomics).to_string()];
    for port in &facts.ports {
        details.extend(gid_lines(facts.transport, port));
    }
    details.push(limits(&facts.attributes));
    check.with_details(details)
}

fn port_line(port: &PortFacts) -> String {
    let attributes = &port.attributes;
    let mut words = vec![
        format!("port {} {}", port.number, attributes.state),
        link_layer(attributes.link_layer).into(),
        format!("MTU {}", attributes.mtu),
    ];
    if !port.rate.is_empty() {
        words.push(port.rate.clone());
    }
    let addresses: Vec<_> = port.addresses.iter().map(ToString::to_string).collect();
    words.push(if addresses.is_empty() { "no IP address".into() } else { addresses.join(" ") });
    words.join(", ")
}

/// Why no port of the device can be used, or not well, and what to do.
fn trouble(name: &str, device: &DeviceFacts) -> Option<String> {
    let usable = |port: &&PortFacts| port.is_active() && port.way().is_some();
    if let Some(port) = device.ports.iter().find(usable) {
        let is_v2 = |way: Way| way.gid.is_some_and(|entry| entry.gid_type == GidType::RoceV2);
        return (is_roce(device.transport, port) && !port.way().is_some_and(is_v2)).then(|| {
            "no address has a GID of RoCE v2, so routers stop its packets: let librdmacm use version 2 \
             (`cma_roce_mode -d DEVICE -p PORT -m 2`), if the device has it"
                .into()
        });
    }
    match device.ports.iter().find(|port| port.is_active()) {
        Some(port) => Some(ChoiceError::NoAddress { name: name.into(), port: port.number }.to_string()),
        None => device.ports.first().map(|port| link_remedy(port.attributes.state).to_owned()),
    }
}

fn gid_lines(transport: Transport, port: &PortFacts) -> Vec<String> {
    let way = port.way();
    let chosen = way.as_ref().and_then(|way| way.gid.as_ref());
    let line = |entry: &GidEntry| {
        let why = if chosen == Some(entry) {
            why_chosen(entry)
        } else if port.reachable_gids().any(|reachable| reachable == entry) {
            "to be had by its address or its index (-x)"
        } else if entry.gid_type == GidType::InfiniBandOrRoceV1 && is_roce(transport, port) {
            "not taken: RoCE v1, which no router passes"
        } else if entry.gid.is_link_local() && is_roce(transport, port) {
            "not taken: of the link alone"
        } else {
            "not taken: no IP address of this host"
        };
        let interface = entry.interface.as_deref().unwrap_or("-");
        let gid_type = gid_type(transport, port, entry);
        format!("port {} GID {} {} {gid_type} {interface}: {why}", port.number, entry.index, entry.gid)
    };
    let mut lines: Vec<_> = port.gids.iter().map(line).collect();
    if let Some(Way { address, gid: None }) = way {
        let number = port.number;
        lines.push(format!("port {number} is reached by {address}, its interface's; no GID need be chosen"));
    }
    lines
}

fn why_chosen(entry: &GidEntry) -> &'static str {
    match entry.gid_type {
        GidType::RoceV2 => "TAKEN: RoCE v2, an IP address, the lowest index of those",
        GidType::InfiniBandOrRoceV1 => "TAKEN: an IP address, and none of RoCE v2 is",
    }
}

fn limits(attributes: &DeviceAttributes) -> String {
    format!(
        "at most {} queue pairs, {} work requests in each, memory regions of {}, {} windows, {} READs at a time",
        attributes.queue_pairs_max,
        attributes.work_requests_max,
        size(attributes.memory_region_len_max),
        attributes.memory_windows_max,
        attributes.responder_resources_max.min(attributes.initiator_depth_max),
    )
}

fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 60 => "any length".into(),
        bytes if bytes >= 1 << 40 => format!("{} TiB", bytes >> 40),
        bytes if bytes >= 1 << 30 => format!("{} GiB", bytes >> 30),
        bytes => format!("{} MiB", bytes >> 20),
    }
}

/// Which of the ports that were found would be used, and why.
pub(super) fn choice_check(found: &[Found]) -> Check {
    const NAME: &str = "RDMA choice";
    let Some(best) = best(found) else {
        return Check::warn(
            NAME,
            "none: no port is active and has an IP address",
            "see the devices above; until then use shm and tcp",
        );
    };
    let choice = Choice::of(best);
    let (device, address) = (&choice.device, &choice.address);
    Check::ok(NAME, format!("{choice}: `farside-server --rdma {address}`, or `-d {device}`"))
        .with_details(vec![format!("why: {}", why(best, found)), choice.consequences.to_string()])
}

fn why(best: Best<'_>, found: &[Found]) -> &'static str {
    let devices = found.iter().filter_map(|found| found.facts.as_ref().ok());
    let ports = devices.flat_map(|device| device.ports.iter().map(move |port| (device, port)));
    let usable: Vec<_> = ports.filter(|(_, port)| port.is_active() && port.way().is_some()).collect();
    let has_atomics = |device: &DeviceFacts| device.attributes.atomics != AtomicCapability::None;
    let as_good = usable.iter().filter(|(device, _)| has_atomics(device) == has_atomics(best.device)).count();
    match (usable.len(), as_good) {
        (1, _) => "the only port that is active and has an IP address",
        (_, 1) => "the only usable port whose device has atomics",
        (all, good) if all == good => "the fastest usable port, or the first of those",
        _ => "the fastest usable port whose device has atomics, or the first of those",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::Verdict;
    use farside_transport::verbs::sys::{Gid, PortAttributes, PortState, VerbsError};
    use std::io::ErrorKind;
    use std::net::Ipv6Addr;

    fn device(name: &str, transport: Transport, atomics: AtomicCapability, port: PortFacts) -> Found {
        let attributes = DeviceAttributes {
            firmware: "1.2".into(),
            vendor: 0,
            part: 0,
            atomics,
            ports: 1,
            queue_pairs_max: 1000,
            work_requests_max: 64,
            completions_max: 64,
            memory_regions_max: 9,
            memory_windows_max: 7,
            memory_region_len_max: 3 << 30,
            responder_resources_max: 16,
            initiator_depth_max: 8,
        };
        Found { name: name.into(), facts: Ok(DeviceFacts { transport, attributes, ports: vec![port] }) }
    }

    fn port(link_layer: LinkLayer, gids: &[(&str, GidType)], addresses: &[&str]) -> PortFacts {
        let entry = |(index, (gid, gid_type)): (usize, &(&str, GidType))| GidEntry {
            index: index as u32,
            gid: Gid(gid.parse::<Ipv6Addr>().unwrap().octets()),
            gid_type: *gid_type,
            interface: Some("eth0".into()),
        };
        PortFacts {
            number: 1,
            attributes: PortAttributes {
                state: PortState::Active,
                link_layer,
                mtu: 1024,
                message_max: 1 << 30,
                lid: 0,
            },
            rate: "100 Gb/sec (4X EDR)".into(),
            gids: gids.iter().enumerate().map(entry).collect(),
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        }
    }

    fn roce() -> PortFacts {
        use GidType::{InfiniBandOrRoceV1 as V1, RoceV2 as V2};
        let gids = [("fe80::1", V2), ("::ffff:10.0.0.1", V1), ("::ffff:10.0.0.1", V2), ("2001:db8::1", V2)];
        port(LinkLayer::Ethernet, &gids, &["10.0.0.1", "2001:db8::1"])
    }

    fn mlx(port: PortFacts) -> Found {
        device("mlx5_0", Transport::InfiniBand, AtomicCapability::Device, port)
    }

    #[test]
    fn a_device_says_what_would_be_taken_and_what_follows() {
        let found = check(&mlx(roce()));
        assert_eq!(found.verdict, Verdict::Ok, "{found:?}");
        assert_eq!(
            found.found,
            "mlx5_0: RoCE, port 1 active, Ethernet, MTU 1024, 100 Gb/sec (4X EDR), 10.0.0.1 2001:db8::1"
        );
        let details = found.details;
        assert!(details[0].ends_with("authority nic, reads one-sided, updates one-sided"), "{details:?}");
        for (line, says) in [
            (1, "GID 0 fe80::1 RoCE v2 eth0: not taken: of the link alone"),
            (2, "GID 1 ::ffff:10.0.0.1 RoCE v1 eth0: not taken: RoCE v1"),
            (3, "GID 2 ::ffff:10.0.0.1 RoCE v2 eth0: TAKEN"),
            (4, "GID 3 2001:db8::1 RoCE v2 eth0: to be had"),
            (
                5,
                "at most 1000 queue pairs, 64 work requests in each, memory regions of 3 GiB, 7 windows, 8 READs",
            ),
        ] {
            assert!(details[line].contains(says), "{details:?}");
        }
    }

    #[test]
    fn what_stands_in_the_way_is_told_with_a_remedy() {
        let change = |change: fn(&mut PortFacts)| {
            let mut port = roce();
            change(&mut port);
            check(&mlx(port))
        };
        let v1 = |port: &mut PortFacts| port.gids.retain(|entry| entry.gid_type != GidType::RoceV2);
        for (check, says) in [
            (change(|port| port.attributes.state = PortState::Down), "ip link set"),
            (change(|port| port.attributes.state = PortState::Initializing), "subnet manager"),
            (change(|port| port.addresses.clear()), "has no IP address"),
            (change(v1), "cma_roce_mode"),
        ] {
            assert_eq!(check.verdict, Verdict::Warn, "{check:?}");
            assert!(check.remedy.as_ref().unwrap().contains(says), "{check:?}");
        }
        let refused = VerbsError { call: "ibv_open_device", source: ErrorKind::PermissionDenied.into() };
        let check = check(&Found { name: "mlx5_0".into(), facts: Err(refused) });
        assert_eq!(check.verdict, Verdict::Warn);
        assert!(check.remedy.unwrap().contains("--device /dev/infiniband"));
    }

    #[test]
    fn other_protocols_are_reached_by_their_interfaces_address() {
        let infiniband = |port| device("ib", Transport::InfiniBand, AtomicCapability::Global, port);
        let iwarp = |port| device("iw", Transport::Iwarp, AtomicCapability::None, port);
        let gids = [("fe80::2", GidType::InfiniBandOrRoceV1)];
        for (found, kind, follows) in [
            (
                infiniband(port(LinkLayer::InfiniBand, &gids, &["10.1.0.1"])),
                "InfiniBand",
                "updates one-sided",
            ),
            (iwarp(port(LinkLayer::Ethernet, &gids, &["10.1.0.1"])), "iWARP", "updates two-sided"),
        ] {
            let check = check(&found);
            assert_eq!(check.verdict, Verdict::Ok, "{check:?}");
            assert!(check.details[0].contains("authority coherent") && check.details[0].ends_with(follows));
            assert!(check.details[1].contains(&format!("GID 0 fe80::2 {kind} eth0: not taken")), "{check:?}");
            assert!(check.details[2].contains("reached by 10.1.0.1"), "{check:?}");
        }
    }

    #[test]
    fn the_choice_says_how_to_ask_for_it_and_why() {
        let none = choice_check(&[]);
        assert_eq!(none.verdict, Verdict::Warn);
        let one = choice_check(&[mlx(roce())]);
        assert_eq!(one.found, "mlx5_0 port 1, 10.0.0.1: `farside-server --rdma 10.0.0.1`, or `-d mlx5_0`");
        assert!(one.details[0].contains("the only port"), "{one:?}");
        let plain = device("a", Transport::Iwarp, AtomicCapability::None, roce());
        let two = choice_check(&[plain, mlx(roce())]);
        assert!(two.found.starts_with("mlx5_0"), "{two:?}");
        assert!(two.details[0].contains("atomics"), "{two:?}");
    }
}
