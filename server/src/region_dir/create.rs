//! A new table, which is there as a whole or not at all: it is made beside its place and moved there when it is complete.

use super::{
    DirLock, LEDGER, LedgerFile, RegionDir, RegionError, failed, in_file, names, open_folder, parent,
    shard_name,
};
use crate::shard::Shard;
use farside_protocol::Superblock;
use farside_transport::region::{RegionFile, check_filesystem};
use rustix::fs::{Mode, mkdir};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Makes the table whose shards have these superblocks in the folder `path`, which is not there or empty.
pub(crate) fn create(path: &Path, superblocks: &[Superblock]) -> Result<RegionDir, RegionError> {
    let path = &std::path::absolute(path).map_err(|source| RegionError::System {
        path: path.into(),
        step: "find",
        source,
    })?;
    let around = open_folder(parent(path))?.ok_or_else(|| RegionError::NoParent { path: path.clone() })?;
    check_filesystem(open_folder(path)?.unwrap_or(around))
        .map_err(|source| RegionError::File { path: path.clone(), source })?;
    let new = new_name(path);
    let lock = begin(&new)?;
    let made = make(&lock, superblocks).and_then(|made| {
        // An empty folder is replaced; one that another server has made meanwhile is not.
        fs::rename(&new, path).map_err(|source| RegionError::System {
            path: path.clone(),
            step: "make",
            source,
        })?;
        Ok(made)
    });
    match made {
        Ok(shards) => Ok(RegionDir { shards, recovered: None, lock: DirLock { path: path.clone(), ..lock } }),
        Err(error) => {
            // Memory that nobody would miss is not kept; what cannot be removed is at the next start.
            let _ = fs::remove_dir_all(&new);
            Err(error)
        }
    }
}

fn new_name(path: &Path) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(".new");
    name.into()
}

/// Makes the folder in which the table is made, and locks it. What a server left there that was killed meanwhile is removed.
fn begin(new: &Path) -> Result<DirLock, RegionError> {
    match mkdir(new, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(failed(new, "make")(error)),
    }
    let folder = open_folder(new)?.ok_or_else(|| failed(new, "open")(Errno::NOENT))?;
    let lock = DirLock::take(folder, new)?;
    for name in names(new)? {
        let is_ours = name.to_str().is_some_and(|name| name == LEDGER || name.starts_with("shard-"));
        if !is_ours {
            return Err(RegionError::Foreign { path: new.into(), what: "holds files that are no table's" });
        }
        fs::remove_file(new.join(&name)).map_err(|source| RegionError::System {
            path: new.join(&name),
            step: "remove",
            source,
        })?;
    }
    Ok(lock)
}

fn make(lock: &DirLock, superblocks: &[Superblock]) -> Result<Box<[Arc<Shard>]>, RegionError> {
    let DirLock { folder, path } = lock;
    let file = |name: &str, len| RegionFile::create(folder, name, len).and_then(|file| file.map(len));
    let regions: Vec<_> = superblocks
        .iter()
        .map(|superblock| {
            let name = shard_name(superblock.shard);
            file(&name, superblock.geometry.region_len()).map_err(in_file(path, &name))
        })
        .collect::<Result<_, _>>()?;
    let ledger = file(LEDGER, LedgerFile::len(&superblocks[0])).map_err(in_file(path, LEDGER))?;
    let ledger = LedgerFile::create(ledger, &superblocks[0]);
    let shard = |(region, superblock): (_, &Superblock)| {
        let heap = Shard::new_heap(superblock).with_ledger(ledger.of_shard(superblock.shard));
        Arc::new(Shard::over(Arc::new(region), *superblock, heap))
    };
    Ok(regions.into_iter().zip(superblocks).map(shard).collect())
}
