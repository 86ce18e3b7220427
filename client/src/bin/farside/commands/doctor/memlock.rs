//! How much memory this process may lock, which is what registering it with a device does.

use super::Check;
use rustix::process::{Resource, getrlimit};
use std::fs;

const NAME: &str = "memlock";

/// The server's default memory, which it registers twice: for those that may write, and for those that may only read.
const SERVER_NEEDS: u64 = 2 << 30;

/// The bit of the capability `CAP_IPC_LOCK`, with which the limit does not count.
const CAP_IPC_LOCK: u32 = 14;

const REMEDY: &str = "`ulimit -l unlimited` in the shell that starts it, LimitMEMLOCK=infinity in a systemd unit, \
                      `memlock unlimited` in /etc/security/limits.conf for logins, `--ulimit memlock=-1` for a \
                      container";

#[derive(Clone, Copy)]
pub(super) struct Memlock {
    /// Bytes; `None`: no limit.
    limit: Option<u64>,
    /// Whether the limit does not count for this process.
    exempt: bool,
}

impl Memlock {
    pub(super) fn of_this_process() -> Self {
        let read = |file| fs::read_to_string(file).unwrap_or_default();
        let exempt = is_exempt(&read("/proc/self/status"), &read("/proc/self/uid_map"));
        Self { limit: getrlimit(Resource::Memlock).current, exempt }
    }
}

/// The kernel asks for the capability outside of any user namespace, which a whole map of users shows.
fn is_exempt(status: &str, uid_map: &str) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    bits & (1 << CAP_IPC_LOCK) != 0 && uid_map.split_whitespace().eq(["0", "0", "4294967295"])
}

pub(super) fn check(Memlock { limit, exempt }: Memlock, has_devices: bool) -> Check {
    let Some(limit) = limit else { return Check::ok(NAME, "unlimited") };
    let found = format!("limited to {} KiB", limit >> 10);
    if exempt {
        return Check::ok(NAME, format!("{found}, which does not count for this user (CAP_IPC_LOCK)"));
    }
    if !has_devices {
        return Check::note(NAME, found, format!("shm and tcp lock no memory; RDMA does: {REMEDY}"));
    }
    let most = (limit / 2) >> 20;
    let found =
        format!("{found}: a server with RDMA registers its memory twice, so at most {most} MiB of it");
    if limit < SERVER_NEEDS { Check::warn(NAME, found, REMEDY) } else { Check::ok(NAME, found) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::Verdict;

    #[test]
    fn a_limit_matters_where_there_are_devices_and_it_counts() {
        for (limit, exempt, has_devices, verdict) in [
            (None, false, true, Verdict::Ok),
            (Some(64 << 10), true, true, Verdict::Ok),
            (Some(64 << 10), false, false, Verdict::Note),
            (Some(64 << 10), false, true, Verdict::Warn),
            (Some(SERVER_NEEDS - 1), false, true, Verdict::Warn),
            (Some(SERVER_NEEDS), false, true, Verdict::Ok),
        ] {
            let check = check(Memlock { limit, exempt }, has_devices);
            assert_eq!(check.verdict, verdict, "{check:?}");
            if verdict == Verdict::Warn {
                assert!(check.remedy.unwrap().contains("ulimit -l unlimited"));
            }
        }
    }

    #[test]
    fn the_capability_counts_outside_user_namespaces() {
        let (with, without) = ("Name:\tx\nCapEff:\t0000000000004000\n", "CapEff:\t0000000000000400\n");
        let (outside, inside) = ("         0          0 4294967295\n", "         0       1000          1\n");
        assert!(is_exempt(with, outside));
        assert!(!is_exempt(with, inside));
        assert!(!is_exempt(without, outside));
        assert!(!is_exempt("", ""));
    }
}
