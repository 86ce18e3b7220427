//! Which processes hold a file: by its mappings, or by a lock on it. For messages to people, as far as this process may
//! know.

use rustix::fs::{Stat, fstat, major, minor};
use std::fmt;
use std::fs::{read_dir, read_to_string};
use std::os::fd::AsFd;

/// A process.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Holder {
    /// Its number.
    pub pid: u32,
    /// What it is called.
    pub name: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.pid, self.name)
    }
}

/// The processes that have `file` mapped.
pub(super) fn of(file: impl AsFd) -> Vec<Holder> {
    let (Ok(stat), Ok(processes)) = (fstat(file), read_dir("/proc")) else { return Vec::new() };
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut holders: Vec<_> = pids.filter(|pid| maps(*pid, &stat)).map(named).collect();
    holders.sort();
    holders
}

/// The process that has an exclusive lock on `file`.
pub fn locker(file: impl AsFd) -> Option<Holder> {
    let stat = fstat(file).ok()?;
    // In a container, a process outside has no number.
    find_lock(&read_to_string("/proc/locks").ok()?, &stat).filter(|pid| *pid != 0).map(named)
}

fn named(pid: u32) -> Holder {
    let name = read_to_string(format!("/proc/{pid}/comm"));
    Holder { pid, name: name.map_or_else(|_| "?".into(), |name| name.trim_end().into()) }
}

/// As the kernel writes it in both lists.
fn device(stat: &Stat) -> String {
    format!("{:02x}:{:02x}", major(stat.st_dev), minor(stat.st_dev))
}

fn maps(pid: u32, stat: &Stat) -> bool {
    let Ok(maps) = read_to_string(format!("/proc/{pid}/maps")) else { return false };
    let (device, inode) = (device(stat), stat.st_ino.to_string());
    maps.lines().any(|line| {
        let mut words = line.split_ascii_whitespace().skip(3);
        words.next() == Some(&*device) && words.next() == Some(&*inode)
    })
}

fn find_lock(locks: &str, stat: &Stat) -> Option<u32> {
    let file = format!("{}:{}", device(stat), stat.st_ino);
    locks.lines().find_map(|line| {
        // `1: FLOCK  ADVISORY  WRITE 1234 00:1a:5678 0 EOF`
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        let is_it =
            words.get(1) == Some(&"FLOCK") && words.get(3) == Some(&"WRITE") && words.get(5) == Some(&&*file);
        words.get(4).filter(|_| is_it)?.parse().ok()
    })
}
