//! What the `shm` transport and the server's memory need.

use super::Check;
use rustix::fs::{Access, FallocateFlags, MemfdFlags, SealFlags};
use std::env;
use std::fs;
use std::path::PathBuf;

const HUGE_PAGE: u64 = 2 << 20;

pub(super) fn checks() -> Vec<Check> {
    vec![memfd(), dev_shm(), huge_pages(), runtime_folder()]
}

fn memfd() -> Check {
    let attempt = || -> rustix::io::Result<()> {
        let file =
            rustix::fs::memfd_create("farside-doctor", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, 4096)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
    };
    match attempt() {
        Ok(()) => Check::ok("memfd", "can be made and sealed"),
        Err(error) => Check::fail(
            "memfd",
            format!("memfd_create or its seals fail: {error}"),
            "the server's memory and the shm transport need them: Linux 3.17 or later, and no seccomp filter that \
             forbids memfd_create",
        ),
    }
}

fn dev_shm() -> Check {
    match rustix::fs::statvfs("/dev/shm") {
        Ok(status) => {
            let (free, total) = (status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize);
            let found = format!(
                "{} MiB of {} MiB free; Farside's memory is a memfd and does not count against it",
                free >> 20,
                total >> 20
            );
            Check::ok("/dev/shm", found)
        }
        Err(error) => Check::note(
            "/dev/shm",
            format!("not there: {error}"),
            "Farside works without it: its memory is a memfd",
        ),
    }
}

fn huge_pages() -> Check {
    const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";
    const REMEDY: &str = "ordinary pages work and cost more TLB misses; to reserve 1 GiB as root: `sysctl \
                          vm.nr_hugepages=512`";
    let count = |name| fs::read_to_string(format!("{POOL}/{name}")).ok()?.trim().parse::<u64>().ok();
    let (Some(total), Some(free)) = (count("nr_hugepages"), count("free_hugepages")) else {
        return Check::note("huge pages", "this kernel has none of 2 MiB", REMEDY);
    };
    let found = match (free, total) {
        (_, 0) => "none of 2 MiB reserved".to_owned(),
        _ => format!("{free} of {total} pages of 2 MiB free"),
    };
    // The counts include pages that are promised to others: only an allocation tells.
    let attempt = || -> rustix::io::Result<()> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        let file = rustix::fs::memfd_create("farside-doctor", flags)?;
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, HUGE_PAGE)
    };
    match attempt() {
        Ok(()) => Check::ok("huge pages", found),
        Err(error) if free > 0 => {
            Check::note("huge pages", format!("{found}, but one cannot be had: {error}"), REMEDY)
        }
        Err(_) => Check::note("huge pages", found, REMEDY),
    }
}

fn runtime_folder() -> Check {
    // As the server does: one that is not there is done without.
    let folder = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_dir());
    let folder = folder.unwrap_or_else(|| "/tmp".into());
    match rustix::fs::access(&folder, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Check::ok("socket folder", format!("{} can be written", folder.display())),
        Err(error) => Check::fail(
            "socket folder",
            format!("{}: {error}", folder.display()),
            "a server here makes its socket for the shm transport in it: point XDG_RUNTIME_DIR to a folder of \
             yours, or give the server a path of its own",
        ),
    }
}
