//! How much memory there is for a region. Asked before it is taken: where memory runs out while pages are being
//! provided the kernel does not return an error, it ends a process.

use std::fs::read_to_string;
use std::path::Path;

/// Bytes that can be had without swapping: the kernel's estimate, or the control group's limit if that is lower.
/// `None` if the kernel does not say.
pub(super) fn available() -> Option<u64> {
    let machine = mem_available(&read_to_string("/proc/meminfo").ok()?)?;
    let group = read_to_string("/proc/self/cgroup")
        .ok()
        .and_then(|text| group_limit(&text, Path::new("/sys/fs/cgroup")));
    Some(group.map_or(machine, |limit| limit.min(machine)))
}

fn mem_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// The lowest `memory.max` of the control group (version 2) and the groups around it.
fn group_limit(cgroup: &str, root: &Path) -> Option<u64> {
    let group = cgroup.lines().find_map(|line| line.strip_prefix("0::/"))?;
    root.join(group)
        .ancestors()
        .take_while(|path| path.starts_with(root))
        .filter_map(|path| read_to_string(path.join("memory.max")).ok()?.trim().parse().ok())
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_estimate_is_read() {
        let meminfo = "MemTotal:       24657320 kB\nMemAvailable:   24000000 kB\nHugetlb: 0 kB\n";
        assert_eq!(mem_available(meminfo), Some(24_000_000 << 10));
        assert_eq!(mem_available("MemTotal: 1 kB\n"), None);
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn the_lowest_limit_of_the_groups_around_counts() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("pod/app");
        std::fs::create_dir_all(&inner).unwrap();
        let limit = || group_limit("1:name=x:/\n0::/pod/app\n", root.path());
        assert_eq!(limit(), None);
        std::fs::write(inner.join("memory.max"), "max\n").unwrap();
        assert_eq!(limit(), None);
        std::fs::write(root.path().join("pod/memory.max"), "1000\n").unwrap();
        assert_eq!(limit(), Some(1000));
        std::fs::write(inner.join("memory.max"), "500\n").unwrap();
        assert_eq!(limit(), Some(500));
    }
}
