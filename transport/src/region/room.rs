//! How much memory there is for a region. Asked before it is taken: where memory runs out while pages are being
//! provided the kernel does not return an error, it ends a process.

use std::fs::read_to_string;
use std::path::Path;

/// Bytes that can be had without swapping: by the kernel's estimate for the machine, or what is left of a control
/// group's limit if that is less. `None` if the kernel does not say.
pub(super) fn available() -> Option<u64> {
    let machine = mem_available(&read_to_string("/proc/meminfo").ok()?)?;
    let groups = read_to_string("/proc/self/cgroup").ok();
    let group = groups.and_then(|groups| left_in_groups(&groups, Path::new("/sys/fs/cgroup")));
    Some(group.map_or(machine, |left| left.min(machine)))
}

fn mem_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// The least that is left in the control group (version 2) and the groups around it.
fn left_in_groups(groups: &str, root: &Path) -> Option<u64> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let around = root.join(group);
    around.ancestors().take_while(|path| path.starts_with(root)).filter_map(left_in_group).min()
}

/// `None` for a group without a limit.
fn left_in_group(group: &Path) -> Option<u64> {
    let number = |file| read_to_string(group.join(file)).ok()?.trim().parse::<u64>().ok();
    let limit = number("memory.max")?;
    // Of what is in use, the kernel gives up cached files that nobody looks at.
    let stat = read_to_string(group.join("memory.stat")).unwrap_or_default();
    let idle = stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.trim().parse().ok());
    let in_use = number("memory.current").unwrap_or(0).saturating_sub(idle.unwrap_or(0));
    Some(limit.saturating_sub(in_use))
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
    fn the_least_that_is_left_in_the_groups_around_counts() {
        let root = tempfile::tempdir().unwrap();
        let (outer, inner) = (root.path().join("pod"), root.path().join("pod/app"));
        std::fs::create_dir_all(&inner).unwrap();
        let left = || left_in_groups("1:name=x:/\n0::/pod/app\n", root.path());
        assert_eq!(left(), None);
        std::fs::write(inner.join("memory.max"), "max\n").unwrap();
        assert_eq!(left(), None);
        std::fs::write(outer.join("memory.max"), "1000\n").unwrap();
        assert_eq!(left(), Some(1000));
        std::fs::write(outer.join("memory.current"), "700\n").unwrap();
        assert_eq!(left(), Some(300));
        std::fs::write(outer.join("memory.stat"), "anon 500\ninactive_file 200\n").unwrap();
        assert_eq!(left(), Some(500));
        std::fs::write(inner.join("memory.max"), "400\n").unwrap();
        assert_eq!(left(), Some(400));
    }
}
