//! Where a shard's bytes lie as its server's device reaches them.

use farside_protocol::Geometry;
use farside_protocol::wire::RemoteMemory;
use farside_verbs_sys::RemoteAddress;

/// One shard. Superblock and index are one registration, the heap is another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RemoteShard {
    memory: RemoteMemory,
    heap_at: u64,
    len: u64,
    /// The key for WRITEs, if that is another: that of a window.
    window: Option<u32>,
}

impl RemoteShard {
    pub(super) fn new(memory: RemoteMemory, geometry: &Geometry) -> Self {
        Self { memory, heap_at: geometry.heap_at(), len: geometry.region_len(), window: None }
    }

    /// The address of `len` bytes from offset `at` on, if one registration has them all.
    #[inline]
    pub(super) fn reach(&self, at: u64, len: u64) -> Option<RemoteAddress> {
        let end = at.checked_add(len)?;
        let key = if end <= self.heap_at {
            self.memory.index_key
        } else if at >= self.heap_at && end <= self.len {
            self.memory.heap_key
        } else {
            return None;
        };
        Some(RemoteAddress { address: self.memory.address.wrapping_add(at), key })
    }

    /// The same shard, to which is written through the window that has this key.
    #[inline]
    pub(super) fn through(&self, key: u32) -> Self {
        Self { window: Some(key), ..*self }
    }

    /// [`RemoteShard::reach`], to WRITE there.
    #[inline]
    pub(super) fn reach_to_write(&self, at: u64, len: u64) -> Option<RemoteAddress> {
        let there = self.reach(at, len)?;
        Some(RemoteAddress { key: self.window.unwrap_or(there.key), ..there })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_has_its_key_and_nothing_lies_across() {
        let geometry = Geometry::new(1 << 20, 16).unwrap();
        let (heap, end) = (geometry.heap_at(), geometry.region_len());
        let memory = RemoteMemory { address: 1 << 32, index_key: 1, heap_key: 2 };
        let shard = RemoteShard::new(memory, &geometry);
        let at = |at, key| Some(RemoteAddress { address: (1 << 32) + at, key });
        assert_eq!(shard.reach(0, 8), at(0, 1));
        assert_eq!(shard.reach(heap - 8, 8), at(heap - 8, 1));
        assert_eq!(shard.reach(heap, 8), at(heap, 2));
        assert_eq!(shard.reach(end - 8, 8), at(end - 8, 2));
        for (from, len) in [(heap - 8, 16), (end - 8, 16), (end, 8), (u64::MAX, 8)] {
            assert_eq!(shard.reach(from, len), None);
        }
        assert_eq!(shard.reach_to_write(heap, 8), at(heap, 2));
        let shard = shard.through(3);
        assert_eq!((shard.reach(heap, 8), shard.reach_to_write(heap, 8)), (at(heap, 2), at(heap, 3)));
        assert_eq!(shard.reach_to_write(end, 8), None);
    }
}
