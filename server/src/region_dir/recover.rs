//! Taking a table over from a server that ended, in the middle of anything.

use super::find::Found;
use super::former::{PATIENCE, wait_for_all};
use super::{DirLock, LEDGER, LedgerFile, RegionDir, RegionError, in_file, shard_name};
use crate::shard::Shard;
use farside_hashtable::heap::{Heap, Recovery};
use farside_hashtable::plan::{Repaired, Table, repair};
use farside_protocol::Superblock;
use farside_transport::region::RegionFile;
use farside_transport::shm::Shm;
use farside_transport::{Counts, Denied, Fabric, LaneIo, Region, drive};
use std::sync::Arc;

/// What was found in all shards.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Recovered {
    pub(crate) keys: u64,
    pub(crate) damaged: u64,
}

impl Found {
    /// Waits until nobody of the former run reaches the table, repairs it, and gives its shards `superblocks`.
    pub(crate) fn recover(self, superblocks: &[Superblock]) -> Result<RegionDir, RegionError> {
        let Self { lock, ledger, head, files, .. } = self;
        wait_for_all(&lock.path, head.server, &files, PATIENCE)?;
        let DirLock { path, .. } = &lock;
        let ledger = ledger.map(LedgerFile::len(&superblocks[0])).map_err(in_file(path, LEDGER))?;
        let ledger = LedgerFile::over(ledger, &superblocks[0]);
        let heaps = superblocks.iter().map(|superblock| {
            let (words, table) = (ledger.of_shard(superblock.shard), Table::new(superblock));
            Heap::recover(superblock.geometry, table.quarantine_ns, |unit| words.word(unit))
        });
        let mut heaps: Vec<_> = heaps
            .collect::<Result<_, _>>()
            .map_err(|error| RegionError::Damaged { path: path.join(LEDGER), what: error.to_string() })?;
        let map = |(file, superblock): (RegionFile, &Superblock)| {
            let mapped = file.map(superblock.geometry.region_len());
            mapped.map(Arc::new).map_err(in_file(path, &shard_name(superblock.shard)))
        };
        let regions: Vec<_> = files.into_iter().zip(superblocks).map(map).collect::<Result<_, _>>()?;
        let repaired = repair_all(&regions, superblocks, &mut heaps);
        ledger.note_server();
        let mut recovered = Recovered::default();
        let mut shards = Vec::with_capacity(superblocks.len());
        ledger.drafting(&superblocks[0], || {
            for (((region, heap), found), superblock) in
                regions.into_iter().zip(heaps).zip(repaired).zip(superblocks)
            {
                tell(superblock.shard, &found);
                recovered.keys += found.keys;
                recovered.damaged += found.damaged;
                let heap = heap.finish(ledger.of_shard(superblock.shard));
                shards.push(Arc::new(Shard::over(region, *superblock, heap)));
            }
        });
        Ok(RegionDir { shards: shards.into(), recovered: Some(recovered), lock })
    }
}

/// Repairs the shards side by side.
fn repair_all(regions: &[Arc<Region>], superblocks: &[Superblock], heaps: &mut [Recovery]) -> Vec<Repaired> {
    std::thread::scope(|scope| {
        let shards = regions.iter().zip(superblocks).zip(heaps);
        let repairs =
            shards.map(|((region, superblock), heap)| scope.spawn(|| repair_one(region, superblock, heap)));
        let repairs: Vec<_> = repairs.collect();
        repairs.into_iter().map(|repair| repair.join().expect("a repair does not panic")).collect()
    })
}

fn repair_one(region: &Arc<Region>, superblock: &Superblock, heap: &mut Recovery) -> Repaired {
    let fabric = Shm::new([region.clone()], Denied::default());
    let (mut lane, mut counts) = (fabric.open_lane(), Counts::default());
    let mut io = LaneIo::new(&fabric, &mut lane, &mut counts, 0, u64::MAX);
    let keep = |life, class| heap.keep(life, class);
    drive(repair(&mut io, &Table::new(superblock), keep)).expect("no access to own memory is lost")
}

fn tell(shard: u32, found: &Repaired) {
    let Repaired { keys, lagging, dead, tentative, damaged } = *found;
    tracing::info!(shard, keys, lagging, dead, tentative, "recovered");
    if damaged > 0 {
        tracing::error!(shard, damaged, "damaged records were dropped: their keys are lost");
    }
}
