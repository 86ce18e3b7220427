//! Memory windows: the right to WRITE, for each block to the queue pair that leased it, until the lease ends.
//!
//! With windows the heap is registered for READ and atomic operations alone, and its key is of no use to WRITE with. For
//! each block that is leased the server binds a window over it, on its own side of the queue pair by which the block is
//! going to be written, and its key goes out with the lease. The window ends when the block is reported published or
//! returned, when it is leased anew without having been, and with the queue pair.
//!
//! A window ends in one of two ways: a work request makes it free for another block of the same queue pair; or it is
//! deallocated, which always works. Windows do not outlive the queue pair that bound them (soft-RoCE would keep whoever
//! destroys that, and a process that ends, for most of a minute).

use crate::region::Region;
use farside_protocol::{Block, ErrorKind, Life};
use farside_verbs_sys::{
    BoundsError, Completion, MemoryRegion, MemoryWindow, Operation, PostError, QueuePair, SendFlags,
    SendList, Status, VerbsError,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Windows that are bound, or made free, with one doorbell.
pub(super) const BATCH: usize = 64;

/// Most windows of one queue pair: several of the largest leases. Each takes memory of kernel and device.
const WINDOWS_MAX: usize = 4096;

/// The longest that a device may take for that: nothing of it goes over the network.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why a session got no right to WRITE.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WindowError {
    /// The queue pair that was named is none of the session's.
    #[error("the queue pair that is to write into the blocks is not connected, or not any more")]
    NoQueuePair,
    /// It has as many windows as may be.
    #[error(
        "a queue pair has at most {WINDOWS_MAX} memory windows: report what was published, return what is not needed"
    )]
    TooMany,
    /// A block is not one of the heap.
    #[error(transparent)]
    Bounds(#[from] BoundsError),
    /// The device has no more windows.
    #[error("the RDMA device gives no more memory windows: {0}")]
    None(#[from] VerbsError),
    /// It took no work request.
    #[error(transparent)]
    Post(#[from] PostError),
    /// It did not carry one out.
    #[error("the RDMA device did not change memory windows: {0}")]
    Refused(Status),
    /// It did not say.
    #[error("the RDMA device did not say within {PATIENCE:?} whether it changed memory windows")]
    Silent,
}

impl WindowError {
    /// The kind a caller can act on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TooMany => ErrorKind::Refused,
            Self::NoQueuePair | Self::Bounds(_) => ErrorKind::Invalid,
            _ => ErrorKind::Unavailable,
        }
    }
}

/// A block of a shard.
type Place = (usize, Block);

/// All windows of a server.
#[derive(Default)]
pub(super) struct Windows(Mutex<Table>);

#[derive(Default)]
struct Table {
    /// By the numbers of the server's ends.
    pairs: HashMap<u32, Pair>,
    /// Which of them has a window over a block.
    holders: HashMap<Place, u32>,
}

/// A queue pair with its windows. Fields in the order in which they go.
struct Pair {
    free: Vec<MemoryWindow>,
    /// With the life of the block that it is for.
    bound: HashMap<Place, (Life, MemoryWindow)>,
    /// Names the session.
    ticket: u128,
    token: u32,
    pair: Arc<QueuePair>,
}

/// Where blocks are that are to be written to.
pub(super) struct Blocks<'a> {
    pub(super) shard: usize,
    /// Of one size.
    pub(super) len: usize,
    pub(super) lives: &'a [Life],
    pub(super) heap: &'a MemoryRegion<Arc<Region>>,
    pub(super) heap_at: u64,
}

impl Windows {
    /// A queue pair has connected.
    pub(super) fn enter(&self, ticket: u128, pair: &Arc<QueuePair>) {
        let (number, pair) = (pair.number(), Arc::clone(pair));
        let pair = Pair { free: Vec::new(), bound: HashMap::new(), ticket, token: 0, pair };
        self.0.lock().pairs.insert(number, pair);
    }

    /// It is about to be destroyed.
    pub(super) fn leave(&self, number: u32) {
        let mut table = self.0.lock();
        if let Some(pair) = table.pairs.remove(&number) {
            pair.bound.keys().for_each(|place| {
                table.holders.remove(place);
            });
        }
    }

    /// Lets queue pair `number` of the session that `ticket` names WRITE into blocks that are leased to it. Returns the
    /// keys.
    pub(super) fn bind(
        &self,
        ticket: u128,
        number: u32,
        blocks: &Blocks<'_>,
    ) -> Result<Vec<u32>, WindowError> {
        let mut table = self.0.lock();
        table.reclaim(blocks.shard, blocks.lives);
        let Table { pairs, holders } = &mut *table;
        let pair = pairs.get_mut(&number).filter(|pair| pair.ticket == ticket);
        let pair = pair.ok_or(WindowError::NoQueuePair)?;
        if pair.bound.len() + blocks.lives.len() > WINDOWS_MAX {
            return Err(WindowError::TooMany);
        }
        let mut keys = Vec::with_capacity(blocks.lives.len());
        for lives in blocks.lives.chunks(BATCH) {
            for (&life, mut window) in lives.iter().zip(pair.bind(blocks, lives)?) {
                window.bound();
                keys.push(window.key());
                let place = (blocks.shard, life.block);
                holders.insert(place, number);
                pair.bound.insert(place, (life, window));
            }
        }
        Ok(keys)
    }

    /// The leases of these lives end, as far as the session that `ticket` names has them.
    pub(super) fn end(&self, ticket: u128, shard: usize, lives: impl Iterator<Item = Life>) {
        let mut table = self.0.lock();
        let Table { pairs, holders } = &mut *table;
        let mut ended = HashMap::<u32, Vec<MemoryWindow>>::new();
        for life in lives {
            let place = (shard, life.block);
            let Some(&number) = holders.get(&place) else { continue };
            let pair = pairs.get_mut(&number).expect("it has a window");
            if pair.ticket == ticket && pair.bound.get(&place).is_some_and(|(of, _)| *of == life) {
                holders.remove(&place);
                ended.entry(number).or_default().extend(pair.bound.remove(&place).map(|(_, window)| window));
            }
        }
        for (number, windows) in ended {
            pairs.get_mut(&number).expect("it had windows").set_free(windows);
        }
    }

    /// How many are bound.
    pub(super) fn bound(&self) -> usize {
        self.0.lock().holders.len()
    }

    /// These blocks are leased anew: whoever did not report what became of them loses them now.
    pub(super) fn reclaim(&self, shard: usize, lives: &[Life]) {
        self.0.lock().reclaim(shard, lives);
    }
}

impl Table {
    fn reclaim(&mut self, shard: usize, lives: &[Life]) {
        for life in lives {
            let place = (shard, life.block);
            if let Some(number) = self.holders.remove(&place) {
                self.pairs.get_mut(&number).and_then(|pair| pair.bound.remove(&place));
            }
        }
    }
}

impl Pair {
    fn bind(&mut self, blocks: &Blocks<'_>, lives: &[Life]) -> Result<Vec<MemoryWindow>, WindowError> {
        let domain = self.pair.domain();
        let windows = lives.iter().map(|_| self.free.pop().map_or_else(|| MemoryWindow::new(domain), Ok));
        let windows = windows.collect::<Result<Vec<_>, _>>()?;
        let mut list = SendList::new();
        for (number, (life, window)) in lives.iter().zip(&windows).enumerate() {
            let at = (life.block.offset() - blocks.heap_at) as usize;
            let over = blocks.heap.window_range(at, blocks.len)?;
            let is_last = number + 1 == lives.len();
            list.push(self.token, Operation::Bind { window, over }, last(is_last))?;
        }
        self.run(&mut list)?;
        Ok(windows)
    }

    /// What cannot be made free is deallocated.
    fn set_free(&mut self, mut windows: Vec<MemoryWindow>) {
        while !windows.is_empty() {
            let batch = windows.split_off(windows.len().saturating_sub(BATCH));
            let mut list = SendList::new();
            let pushed = batch.iter().enumerate().try_for_each(|(number, window)| {
                let is_last = number + 1 == batch.len();
                list.push(self.token, Operation::Invalidate { key: window.key() }, last(is_last))
            });
            if pushed.is_ok() && self.run(&mut list).is_ok() {
                self.free.extend(batch);
            }
        }
    }

    /// Posts the list and waits for its completion.
    fn run(&mut self, list: &mut SendList<'_, BATCH>) -> Result<(), WindowError> {
        let token = self.token;
        self.token = token.wrapping_add(1);
        self.pair.post_send(list)?;
        let began = Instant::now();
        let mut completions = [Completion::EMPTY];
        loop {
            if self.pair.send_queue().poll(&mut completions)? == 1 {
                self.pair.retire(&completions[0]);
                match completions[0].result() {
                    // Of one that was given up before.
                    _ if completions[0].token() != token => {}
                    result => return result.map_err(WindowError::Refused),
                }
            } else if began.elapsed() > PATIENCE {
                return Err(WindowError::Silent);
            } else {
                // A software device needs the processor.
                thread::yield_now();
            }
        }
    }
}

const fn last(is_last: bool) -> SendFlags {
    if is_last { SendFlags::SIGNALLED } else { SendFlags::SILENT }
}
