//! What RDMA finds here: libraries, nodes, devices, and which of them would be used.

use super::Check;
use super::devices;
use super::memlock::{self, Memlock};
use farside_transport::verbs::{SetupError, best, inventory};
use serde::Serialize;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

const NOT_NEEDED: &str = "shm and tcp work without";

/// The facts, for scripts.
#[derive(Serialize, Default)]
pub(super) struct Facts {
    devices: Vec<devices::Device>,
    #[serde(skip_serializing_if = "Option::is_none")]
    choice: Option<devices::Choice>,
}

pub(super) fn checks() -> (Vec<Check>, Facts) {
    let kernel = entries(Path::new("/sys/class/infiniband"));
    let nodes = nodes(&kernel, &entries(Path::new("/dev/infiniband")));
    let libraries = ["libibverbs.so.1", "librdmacm.so.1"].map(|file| (file, find(file)));
    let usable = nodes.is_ok() && !kernel.is_empty() && libraries.iter().all(|(_, found)| found.is_some());
    let mut checks = vec![nodes];
    checks.extend(libraries.map(|(file, found)| library(file, found, !kernel.is_empty())));
    let mut facts = Facts::default();
    if usable {
        match inventory() {
            Ok(found) => {
                checks.extend(found.iter().map(devices::check));
                let listed: Vec<_> = found.iter().map(|found| found.name.as_str()).collect();
                checks.extend(unlisted(&kernel, &listed));
                checks.push(devices::choice_check(&found));
                facts.devices = found.iter().map(devices::Device::of).collect();
                facts.choice = best(&found).map(devices::Choice::of);
            }
            Err(error) => checks.push(unusable(&error)),
        }
    }
    checks.push(memlock::check(Memlock::of_this_process(), !kernel.is_empty()));
    checks.push(Check::note(
        "fabric",
        "this transport is not in this build",
        "use shm on the server's host, verbs or tcp from others",
    ));
    (checks, facts)
}

impl Facts {
    /// How the device that would be used is called, in a few words.
    pub(super) fn choice(&self) -> Option<String> {
        self.choice.as_ref().map(ToString::to_string)
    }
}

/// The kernel's devices beside the files by which programs reach them.
fn nodes(devices: &[String], nodes: &[String]) -> Check {
    const NAME: &str = "RDMA nodes";
    const CONTAINER: &str = "in a container `--device /dev/infiniband`";
    if devices.is_empty() {
        return Check::note(
            NAME,
            "this kernel has no RDMA device",
            "shm and tcp work without; for a software device as root: `modprobe rdma_rxe && rdma link add rxe0 \
             type rxe netdev INTERFACE`",
        );
    }
    let has = |name: &str| nodes.iter().any(|node| node.starts_with(name));
    let named = devices.join(", ");
    if !has("uverbs") {
        let found = format!("{named}, but no /dev/infiniband/uverbs*");
        Check::warn(NAME, found, format!("`modprobe ib_uverbs rdma_ucm`; {CONTAINER}"))
    } else if !has("rdma_cm") {
        let found = format!("{named}, but no /dev/infiniband/rdma_cm, which makes connections");
        Check::warn(NAME, found, format!("`modprobe rdma_ucm`; {CONTAINER}"))
    } else {
        Check::ok(NAME, format!("{named}: /dev/infiniband is there"))
    }
}

/// Devices of the kernel's that libibverbs does not list.
fn unlisted(kernel: &[String], listed: &[&str]) -> Option<Check> {
    let first = kernel.iter().find(|name| !listed.contains(&name.as_str()))?;
    Some(Check::warn(
        "RDMA device",
        format!("{first}: the kernel has it, libibverbs does not list it"),
        "install its provider (`apt install ibverbs-providers`, `dnf install libibverbs`); in a container give it \
         all of /dev/infiniband",
    ))
}

fn unusable(error: &SetupError) -> Check {
    Check::warn("RDMA", error.to_string(), "until then verbs cannot be used; shm and tcp can")
}

fn library(file: &'static str, found: Option<String>, needed: bool) -> Check {
    const PACKAGES: &str = "`apt install libibverbs1 ibverbs-providers librdmacm1`, or `dnf install rdma-core \
                            libibverbs librdmacm`";
    let name = file.split('.').next().unwrap_or(file);
    match found {
        Some(found) => Check::ok(name, found),
        None if needed => Check::warn(name, format!("{file} is not installed"), PACKAGES),
        None => Check::note(
            name,
            format!("{file} is not installed"),
            format!("{NOT_NEEDED}; to have it: {PACKAGES}"),
        ),
    }
}

fn entries(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// Where the dynamic linker would find a library.
fn find(file: &str) -> Option<String> {
    let folders = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let path = env::split_paths(&folders).map(|folder| folder.join(file)).find(|path| path.exists());
    path.map(|path| path.display().to_string()).or_else(|| {
        in_linker_cache(file.as_ref(), Path::new("/etc/ld.so.cache"))
            .then(|| format!("{file} is known to the linker"))
    })
}

/// The linker's cache holds the names of all libraries it finds, each closed by a zero byte.
fn in_linker_cache(file: &OsStr, cache: &Path) -> bool {
    let needle = [b"/", file.as_encoded_bytes(), b"\0"].concat();
    fs::read(cache).is_ok_and(|bytes| bytes.windows(needle.len()).any(|window| window == needle))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::Verdict;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.into()).collect()
    }

    #[test]
    fn devices_without_their_files_are_warned_of() {
        let devices = names(&["mlx5_0", "mlx5_1"]);
        for (devices, files, verdict, says) in [
            (&[][..], &["rdma_cm"][..], Verdict::Note, "modprobe rdma_rxe"),
            (&devices, &[], Verdict::Warn, "modprobe ib_uverbs rdma_ucm"),
            (&devices, &["rdma_cm"], Verdict::Warn, "--device /dev/infiniband"),
            (&devices, &["uverbs0"], Verdict::Warn, "`modprobe rdma_ucm`"),
        ] {
            let check = nodes(devices, &names(files));
            assert_eq!(check.verdict, verdict);
            assert!(check.remedy.as_ref().unwrap().contains(says), "{check:?}");
        }
        assert!(nodes(&devices, &names(&["rdma_cm", "uverbs0"])).is_ok());
        assert!(unlisted(&devices, &["mlx5_0", "mlx5_1"]).is_none());
        let check = unlisted(&devices, &["mlx5_1"]).unwrap();
        assert!(check.found.starts_with("mlx5_0: the kernel has it"), "{check:?}");
    }

    #[test]
    fn a_missing_library_names_its_packages_and_matters_only_with_devices() {
        for (needed, verdict) in [(true, Verdict::Warn), (false, Verdict::Note)] {
            let check = library("librdmacm.so.1", None, needed);
            assert_eq!((check.name, check.verdict), ("librdmacm", verdict));
            assert!(check.remedy.unwrap().contains("apt install libibverbs1"));
        }
        assert!(library("libibverbs.so.1", Some("/lib/x".into()), true).is_ok());
    }

    #[test]
    fn a_library_is_found_by_its_whole_name() {
        let cache = tempfile::NamedTempFile::new().unwrap();
        fs::write(cache.path(), b"junk/lib/libfabric.so.1\0/lib/libibverbs.so.1.2\0").unwrap();
        assert!(in_linker_cache("libfabric.so.1".as_ref(), cache.path()));
        assert!(!in_linker_cache("libibverbs.so.1".as_ref(), cache.path()));
        assert!(!in_linker_cache("fabric.so.1".as_ref(), cache.path()));
    }
}
