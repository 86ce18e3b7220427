//! RDMA devices to test on.

use std::net::IpAddr;

/// Their addresses, with commas between them; unset where the tests are of what every host has.
const VARIABLE: &str = "FARSIDE_TEST_RDMA";

/// The addresses of the devices that are named, if any are.
pub(crate) fn devices() -> Option<Vec<IpAddr>> {
    let list = std::env::var(VARIABLE).ok();
    if list.is_none() {
        eprintln!("SKIPPED over RDMA: {VARIABLE} names no device to test on");
    }
    list.map(|list| list.split(',').map(|address| address.parse().expect("an address")).collect())
}

/// Set where servers on those devices bound WRITEs by memory windows.
const WINDOWS_VARIABLE: &str = "FARSIDE_TEST_WINDOWS";

/// Whether servers do.
pub(crate) fn memory_windows() -> bool {
    std::env::var_os(WINDOWS_VARIABLE).is_some()
}
