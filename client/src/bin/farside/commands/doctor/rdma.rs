//! What RDMA transports find here.

use super::Check;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

const NOT_NEEDED: &str = "shm and tcp work without";

pub(super) fn checks() -> Vec<Check> {
    vec![
        devices(Path::new("/sys/class/infiniband"), Path::new("/dev/infiniband")),
        library("libibverbs", "libibverbs.so.1"),
        library("librdmacm", "librdmacm.so.1"),
        library("libfabric", "libfabric.so.1"),
        Check::note(
            "fabric",
            "this transport is not in this build",
            "use shm on the server's host, verbs or tcp from others",
        ),
    ]
}

fn devices(class: &Path, nodes: &Path) -> Check {
    let mut devices: Vec<String> =
        entries(class).iter().flat_map(|device| ports(&class.join(device), device)).collect();
    devices.sort();
    if devices.is_empty() {
        return Check::note("RDMA devices", "none", NOT_NEEDED);
    }
    let found = devices.join("; ");
    if entries(nodes).iter().any(|node| node.starts_with("uverbs")) {
        Check::ok("RDMA devices", found)
    } else {
        let missing = format!("{found}, but no {}/uverbs*", nodes.display());
        Check::note("RDMA devices", missing, "programs reach them after `modprobe ib_uverbs rdma_ucm`")
    }
}

/// One line for each port: `mlx5_0/1 4: ACTIVE InfiniBand`.
fn ports(folder: &Path, device: &str) -> Vec<String> {
    let fact = |port: &str, name: &str| {
        let text = fs::read_to_string(folder.join("ports").join(port).join(name)).unwrap_or_default();
        text.trim().to_owned()
    };
    let line =
        |port: &String| format!("{device}/{port} {} {}", fact(port, "state"), fact(port, "link_layer"));
    entries(&folder.join("ports")).iter().map(line).collect()
}

fn entries(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn library(name: &'static str, file: &str) -> Check {
    let folders = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let path = env::split_paths(&folders).map(|folder| folder.join(file)).find(|path| path.exists());
    match path {
        Some(path) => Check::ok(name, path.display().to_string()),
        None if in_linker_cache(file.as_ref(), Path::new("/etc/ld.so.cache")) => {
            Check::ok(name, format!("{file} is known to the linker"))
        }
        None => Check::note(name, format!("{file} is not installed"), NOT_NEEDED),
    }
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

    #[test]
    fn ports_are_listed_with_their_state() {
        let root = tempfile::tempdir().unwrap();
        let (class, nodes) = (root.path().join("class"), root.path().join("dev"));
        assert_eq!(devices(&class, &nodes).found, "none");
        let port = class.join("mlx5_0/ports/1");
        fs::create_dir_all(&port).unwrap();
        fs::write(port.join("state"), "4: ACTIVE\n").unwrap();
        fs::write(port.join("link_layer"), "InfiniBand\n").unwrap();
        let check = devices(&class, &nodes);
        assert!(check.found.starts_with("mlx5_0/1 4: ACTIVE InfiniBand, but no "), "{check:?}");
        fs::create_dir_all(nodes.join("uverbs0")).unwrap();
        let check = devices(&class, &nodes);
        assert_eq!((check.found.as_str(), check.verdict), ("mlx5_0/1 4: ACTIVE InfiniBand", Verdict::Ok));
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
