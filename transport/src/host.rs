//! Which host this is: processes with the same id can share memory, if they can reach each other's sockets.

use std::io;

/// The running kernel's boot id. The same in all containers of a host, another after each boot.
pub fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().into())
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_the_same_twice() {
        let id = super::boot_id().unwrap();
        assert_eq!(id.len(), 36);
        assert_eq!(id, super::boot_id().unwrap());
    }
}
