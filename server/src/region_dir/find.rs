//! A table that is there. It is judged by reading alone: who is refused finds everything as it was.

use super::ledger::{HEAD, Head, HeadError};
use super::{DirLock, LEDGER, LedgerFile, RegionError, in_file, names, open_folder, shard_name};
use crate::config::{Config, Contradiction};
use farside_protocol::limits::SHARDS_MAX;
use farside_protocol::superblock::{self, Superblock, SuperblockError};
use farside_transport::region::{FileError, RegionFile, check_filesystem};
use std::path::Path;

/// A table that can be used, as soon as nobody of the former run does.
pub(crate) struct Found {
    pub(super) lock: DirLock,
    pub(super) ledger: RegionFile,
    pub(super) head: Head,
    pub(super) files: Vec<RegionFile>,
    /// That of shard 0; those of the others are like it.
    pub(crate) superblock: Superblock,
}

/// Looks for a table in the folder `path`, and locks it; `None`: there is none, and none is in the way of a new one.
pub(crate) fn find(path: &Path) -> Result<Option<Found>, RegionError> {
    let Some(folder) = open_folder(path)? else { return Ok(None) };
    let names = names(path)?;
    if names.is_empty() {
        return Ok(None);
    }
    check_filesystem(&folder).map_err(|source| RegionError::File { path: path.into(), source })?;
    if !names.iter().any(|name| name == LEDGER) {
        return Err(RegionError::Foreign { path: path.into(), what: "holds files, and no table" });
    }
    let lock = DirLock::take(folder, path)?;
    let ledger = RegionFile::open(&lock.folder, LEDGER).map_err(in_table(path, LEDGER))?;
    let bytes = ledger.head::<HEAD>().map_err(in_file(path, LEDGER))?;
    let damaged = |name: &str, what: String| RegionError::Damaged { path: path.join(name), what };
    let head = Head::decode(&bytes).map_err(|error| match error {
        HeadError::Layout(source) => RegionError::Layout { path: path.join(LEDGER), source },
        HeadError::Damaged(what) => damaged(LEDGER, what.into()),
    })?;
    if head.shards == 0 || head.shards as usize > SHARDS_MAX {
        return Err(damaged(LEDGER, format!("it is for {} shards", head.shards)));
    }
    let (mut files, mut superblocks) = (Vec::new(), Vec::new());
    for shard in 0..head.shards {
        let name = shard_name(shard);
        let file = RegionFile::open(&lock.folder, &name).map_err(in_table(path, &name))?;
        let superblock = read_superblock(path, &file, &head, shard)?;
        file.check_len(superblock.geometry.region_len()).map_err(in_table(path, &name))?;
        let first = *superblocks.first().unwrap_or(&superblock);
        let is_like =
            |other: &Superblock| Superblock { shard: 0, ..*other } == Superblock { shard: 0, ..first };
        if superblock.table_id != head.table_id || superblock.shard != shard || !is_like(&superblock) {
            return Err(damaged(&name, "it is a shard of another table".into()));
        }
        files.push(file);
        superblocks.push(superblock);
    }
    let superblock = superblocks[0];
    ledger.check_len(LedgerFile::len(&superblock)).map_err(in_table(path, LEDGER))?;
    Ok(Some(Found { lock, ledger, head, files, superblock }))
}

/// What it means that a file of a table cannot be had.
fn in_table(path: &Path, name: &str) -> impl FnOnce(FileError) -> RegionError {
    let path = path.join(name);
    move |source| match source {
        FileError::NoFile | FileError::Length { .. } | FileError::Missing => {
            RegionError::Damaged { path, what: source.to_string() }
        }
        _ => RegionError::File { path, source },
    }
}

/// What a shard's superblock is. While all are being replaced, one may be cut off: then the draft says it.
fn read_superblock(
    path: &Path,
    file: &RegionFile,
    head: &Head,
    shard: u32,
) -> Result<Superblock, RegionError> {
    let name = shard_name(shard);
    if let Some(draft) = head.draft {
        return Ok(Superblock { shard, ..draft });
    }
    let bytes = file.head::<{ superblock::LEN }>().map_err(in_file(path, &name))?;
    Superblock::decode(&bytes).map_err(|source| match source {
        SuperblockError::Layout(_) => RegionError::Layout { path: path.join(&name), source },
        _ => RegionError::Damaged { path: path.join(&name), what: source.to_string() },
    })
}

impl Found {
    /// Fails if `config` says what is not so of this table.
    pub(crate) fn check(&self, config: &Config) -> Result<(), RegionError> {
        let Superblock { shards, geometry, .. } = self.superblock;
        let contradiction = config.contradicts(shards, geometry);
        let Some(Contradiction { flag, asked, has }) = contradiction else { return Ok(()) };
        Err(RegionError::Contradiction { path: self.lock.path.clone(), flag, asked, has })
    }
}
