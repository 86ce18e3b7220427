//! One shard: its memory, and the books on who may write which block.

use crossbeam_epoch::LocalHandle;
use farside_hashtable::heap::{Heap, LeaseError};
use farside_hashtable::plan::Table;
use farside_protocol::{Class, Life, Superblock, superblock};
use farside_transport::Region;
use farside_transport::clock::coarse_ns;
use farside_transport::region::{CreateError, HugePages};
use parking_lot::Mutex;
use std::sync::Arc;

/// The number under which the server itself leases blocks; clients' sessions count from 1.
pub(crate) const SERVER_SESSION: u64 = 0;

/// Blocks that are taken out of quarantine at a time.
const RELEASE_BATCH: usize = 1024;

/// A shard.
pub(crate) struct Shard {
    pub(crate) superblock: Superblock,
    pub(crate) table: Table,
    pub(crate) region: Arc<Region>,
    pub(crate) heap: Mutex<Heap>,
}

impl Shard {
    /// Takes the memory of a new shard, which goes with this process.
    pub(crate) fn create(superblock: Superblock, huge_pages: HugePages) -> Result<Self, CreateError> {
        let name = format!("farside-{}", superblock.shard);
        let region = Region::create(&name, superblock.geometry.region_len(), huge_pages)?;
        Ok(Self::over(Arc::new(region), superblock, Self::new_heap(&superblock)))
    }

    /// The heap of a new shard.
    pub(crate) fn new_heap(superblock: &Superblock) -> Heap {
        Heap::new(superblock.geometry, Table::new(superblock).quarantine_ns)
    }

    /// The shard in `region`, to which its superblock is written.
    pub(crate) fn over(region: Arc<Region>, superblock: Superblock, mut heap: Heap) -> Self {
        let mut bytes = [0; superblock::LEN.next_multiple_of(8)];
        bytes[..superblock::LEN].copy_from_slice(&superblock.encode());
        region
            .write(0, &bytes)
            .expect("every region has a first page, and this mapping of it can be written");
        heap.open_session(SERVER_SESSION).expect("it is the first session");
        let table = Table::new(&superblock);
        Self { superblock, table, region, heap: Mutex::new(heap) }
    }

    /// Leases blocks to a session, those first whose quarantine is over: memory that was in use is used again
    /// before memory that never was.
    pub(crate) fn lease(
        self: &Arc<Self>,
        epoch: &LocalHandle,
        session: u64,
        class: Class,
        count: usize,
        lives: &mut Vec<Life>,
    ) -> Result<(), LeaseError> {
        self.release_due(epoch);
        self.heap.lock().lease(session, class, count, coarse_ns(), lives)
    }

    /// [Releases](Self::release) blocks if some are due.
    pub(crate) fn release_due(self: &Arc<Self>, epoch: &LocalHandle) {
        let due_ns = self.heap.lock().next_due_ns();
        if due_ns.is_some_and(|due_ns| due_ns <= coarse_ns()) {
            self.release(epoch);
        }
    }

    /// Frees blocks whose quarantine is over as soon as no thread of this server is in an operation that began
    /// before: one that the system put aside for long would else wake up to find its records rewritten.
    fn release(self: &Arc<Self>, epoch: &LocalHandle) {
        let now_ns = coarse_ns();
        loop {
            let mut lives = Vec::new();
            self.heap.lock().due(now_ns, RELEASE_BATCH, &mut lives);
            let is_last = lives.len() < RELEASE_BATCH;
            if !lives.is_empty() {
                let shard = self.clone();
                epoch.pin().defer(move || shard.heap.lock().free(&lives));
            }
            if is_last {
                break;
            }
        }
        // What is deferred runs two epochs later: now, unless an operation is under way.
        for _ in 0..3 {
            epoch.pin().flush();
        }
    }
}
