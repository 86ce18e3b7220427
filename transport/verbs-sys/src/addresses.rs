//! This host's IP addresses: connections are asked for by them, and librdmacm says which device each belongs to.

use crate::error::{VerbsError, zero};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr::null_mut;

/// The IP addresses of this host's network interfaces, without loopback's and those of a link alone.
pub fn local_addresses() -> Result<Vec<IpAddr>, VerbsError> {
    let mut first = null_mut();
    // SAFETY: room for the start of the list.
    zero("getifaddrs", unsafe { libc::getifaddrs(&raw mut first) })?;
    let mut addresses = Vec::new();
    let mut at = first;
    while !at.is_null() {
        // SAFETY: an entry of the list, which is freed below.
        let entry = unsafe { &*at };
        // SAFETY: null, or the entry's address.
        addresses.extend(unsafe { address(entry.ifa_addr) });
        at = entry.ifa_next;
    }
    // SAFETY: it was got above, and nothing of it is kept.
    unsafe { libc::freeifaddrs(first) };
    addresses.retain(|address| is_nameable(*address));
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}

/// # Safety
/// `raw` is null, or a socket address with as many bytes as its family has.
unsafe fn address(raw: *const libc::sockaddr) -> Option<IpAddr> {
    if raw.is_null() {
        return None;
    }
    // SAFETY: by the condition above.
    match i32::from(unsafe { (*raw).sa_family }) {
        libc::AF_INET => {
            // SAFETY: as above; the family says so.
            let raw = unsafe { raw.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(raw.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let raw = unsafe { raw.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(raw.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// Whether a peer elsewhere could name it.
fn is_nameable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !address.is_loopback() && !address.is_unspecified(),
        IpAddr::V6(address) => {
            !address.is_loopback() && !address.is_unspecified() && !address.is_unicast_link_local()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_link_local_addresses_name_nobody_elsewhere() {
        for (address, nameable) in [
            ("127.0.0.1", false),
            ("::1", false),
            ("fe80::1", false),
            ("10.99.0.1", true),
            ("2001:db8::1", true),
        ] {
            assert_eq!(is_nameable(address.parse().unwrap()), nameable, "{address}");
        }
        assert!(local_addresses().unwrap().into_iter().all(is_nameable));
    }
}
