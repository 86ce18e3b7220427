//! Socket addresses as C has them.

use libc::{AF_INET, AF_INET6, in_addr, in6_addr, sockaddr_in, sockaddr_in6, sockaddr_storage};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};

pub(super) fn to_c(address: SocketAddr) -> sockaddr_storage {
    let mut storage = MaybeUninit::<sockaddr_storage>::zeroed();
    match address {
        SocketAddr::V4(address) => {
            let c = sockaddr_in {
                sin_family: AF_INET as u16,
                sin_port: address.port().to_be(),
                sin_addr: in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is large and aligned enough for any address.
            unsafe { storage.as_mut_ptr().cast::<sockaddr_in>().write(c) };
        }
        SocketAddr::V6(address) => {
            let c = sockaddr_in6 {
                sin6_family: AF_INET6 as u16,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            };
            // SAFETY: as above.
            unsafe { storage.as_mut_ptr().cast::<sockaddr_in6>().write(c) };
        }
    }
    // SAFETY: all zeros are valid, and what was written has its family.
    unsafe { storage.assume_init() }
}

/// `None` if there is none, or one of another family.
pub(super) fn from_c(storage: &sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(storage.ss_family) {
        AF_INET => {
            // SAFETY: by its family it is this.
            let c = unsafe { &*(&raw const *storage).cast::<sockaddr_in>() };
            let ip = c.sin_addr.s_addr.to_ne_bytes().into();
            Some(SocketAddrV4::new(ip, u16::from_be(c.sin_port)).into())
        }
        AF_INET6 => {
            // SAFETY: by its family it is this.
            let c = unsafe { &*(&raw const *storage).cast::<sockaddr_in6>() };
            let (ip, port) = (c.sin6_addr.s6_addr.into(), u16::from_be(c.sin6_port));
            Some(SocketAddrV6::new(ip, port, c.sin6_flowinfo, c.sin6_scope_id).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way_to_c_and_back() {
        for address in ["10.99.0.1:7471", "[fe80::1%3]:80", "[2001:db8::7]:0"] {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(from_c(&to_c(address)), Some(address));
        }
    }
}
