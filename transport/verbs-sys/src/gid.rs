//! The addresses of a port (GIDs), read from sysfs, and which one to use.

use crate::context::LinkLayer;
use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

/// Where the kernel shows its verbs devices.
pub(crate) const SYSFS: &str = "/sys/class/infiniband";

/// A port's address, 128 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// Whether it is of the link alone, `fe80::/10`.
    pub const fn is_link_local(self) -> bool {
        self.0[0] == 0xfe && self.0[1] & 0xc0 == 0x80
    }

    /// The IP address that it was made of, on Ethernet.
    pub const fn to_ip(self) -> IpAddr {
        Ipv6Addr::from_octets(self.0).to_canonical()
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Ipv6Addr::from(self.0))
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// By which protocol a GID is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GidType {
    /// InfiniBand, RoCE v1 on Ethernet, or iWARP: the kernel has one name for them.
    InfiniBandOrRoceV1,
    /// RoCE v2, over UDP and so over routers.
    RoceV2,
}

/// A line of a port's table of GIDs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GidEntry {
    /// Its index, perftest's `-x`.
    pub index: u32,
    /// The address.
    pub gid: Gid,
    /// Its protocol.
    pub gid_type: GidType,
    /// The network interface it belongs to, if any.
    pub interface: Option<String>,
}

/// How fast `device`'s `port` is, as the kernel words it: `100 Gb/sec (4X EDR)`. Software devices make it up.
pub fn rate_of_port(device: &str, port: u8) -> io::Result<String> {
    let file = Path::new(SYSFS).join(device).join("ports").join(port.to_string()).join("rate");
    Ok(fs::read_to_string(file)?.trim().into())
}

/// The lines in use of the table of `device`'s `port`, by index.
pub fn gids_of_port(device: &str, port: u8) -> io::Result<Vec<GidEntry>> {
    gids_in(Path::new(SYSFS), device, port)
}

fn gids_in(sysfs: &Path, device: &str, port: u8) -> io::Result<Vec<GidEntry>> {
    let port = sysfs.join(device).join("ports").join(port.to_string());
    let mut gids = Vec::new();
    for file in fs::read_dir(port.join("gids"))? {
        let name = file?.file_name();
        let Some(index) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let read = |folder: &str| fs::read_to_string(port.join(folder).join(&name));
        // A line that is not in use is all zeros, or cannot be read.
        let Ok(Ok(gid)) = read("gids").map(|gid| gid.trim().parse::<Ipv6Addr>()) else { continue };
        if gid.is_unspecified() {
            continue;
        }
        let Ok(gid_type) = read("gid_attrs/types") else { continue };
        gids.push(GidEntry {
            index,
            gid: Gid(gid.octets()),
            gid_type: if gid_type.trim() == "RoCE v2" {
                GidType::RoceV2
            } else {
                GidType::InfiniBandOrRoceV1
            },
            interface: read("gid_attrs/ndevs").ok().map(|name| name.trim().into()),
        });
    }
    gids.sort_unstable_by_key(|entry| entry.index);
    Ok(gids)
}

/// The GID to use of a port's table: on Ethernet one of RoCE v2 before v1, and among those a routable one before
/// one of the link alone; then, and on InfiniBand alone, the lowest index.
pub fn best_gid(link_layer: LinkLayer, gids: &[GidEntry]) -> Option<&GidEntry> {
    gids.iter().min_by_key(|entry| {
        let on_ethernet = link_layer == LinkLayer::Ethernet;
        (
            on_ethernet && entry.gid_type != GidType::RoceV2,
            on_ethernet && entry.gid.is_link_local(),
            entry.index,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u32, gid: &str, gid_type: GidType) -> GidEntry {
        GidEntry { index, gid: Gid(gid.parse::<Ipv6Addr>().unwrap().octets()), gid_type, interface: None }
    }

    #[test]
    fn a_gid_of_roce_is_an_ip_address() {
        let ip = |gid| entry(0, gid, GidType::RoceV2).gid.to_ip().to_string();
        assert_eq!(ip("::ffff:10.99.0.1"), "10.99.0.1");
        assert_eq!(ip("2001:db8::1"), "2001:db8::1");
    }

    #[test]
    fn roce_v2_with_a_routable_address_comes_first() {
        use GidType::{InfiniBandOrRoceV1 as V1, RoceV2 as V2};
        let table = [
            entry(0, "fe80::1", V1),
            entry(1, "fe80::1", V2),
            entry(2, "::ffff:10.0.0.1", V1),
            entry(3, "::ffff:10.0.0.1", V2),
            entry(4, "2001:db8::1", V2),
        ];
        let best = |entries: &[usize]| {
            let chosen: Vec<_> = entries.iter().map(|&at| table[at].clone()).collect();
            best_gid(LinkLayer::Ethernet, &chosen).map(|entry| entry.index)
        };
        assert_eq!(best(&[0, 1, 2, 3, 4]), Some(3));
        assert_eq!(best(&[4, 2, 1, 0]), Some(4));
        assert_eq!(best(&[0, 1, 2]), Some(1));
        assert_eq!(best(&[0, 2]), Some(2));
        assert_eq!(best(&[0]), Some(0));
        assert_eq!(best(&[]), None);
        assert_eq!(best_gid(LinkLayer::InfiniBand, &table).unwrap().index, 0);
    }

    /// The files as the kernel writes them.
    #[test]
    fn a_table_is_read_without_its_empty_lines() {
        let sysfs = tempfile::tempdir().unwrap();
        let port = sysfs.path().join("mlx5_0/ports/1");
        for folder in ["gids", "gid_attrs/types", "gid_attrs/ndevs"] {
            fs::create_dir_all(port.join(folder)).unwrap();
        }
        let write = |file: &str, text: &str| fs::write(port.join(file), text).unwrap();
        write("gids/0", "fe80:0000:0000:0000:b8ce:f6ff:fe00:0001\n");
        write("gid_attrs/types/0", "IB/RoCE v1\n");
        write("gid_attrs/ndevs/0", "eth0\n");
        write("gids/10", "0000:0000:0000:0000:0000:ffff:0a63:0001\n");
        write("gid_attrs/types/10", "RoCE v2\n");
        write("gids/2", "0000:0000:0000:0000:0000:0000:0000:0000\n");
        let gids = gids_in(sysfs.path(), "mlx5_0", 1).unwrap();
        assert_eq!(gids.iter().map(|entry| entry.index).collect::<Vec<_>>(), [0, 10]);
        assert_eq!(gids[0].interface.as_deref(), Some("eth0"));
        assert_eq!(gids[1].gid.to_string(), "::ffff:10.99.0.1");
        assert_eq!(gids[1].gid_type, GidType::RoceV2);
        assert!(gids_in(sysfs.path(), "mlx5_1", 1).is_err());
    }
}
