//! The static first page of a shard: what it is, so that nobody reads it as something else.
//!
//! ```text
//! 0       8         12          16           24      32          40              48          52      56
//! +-------+---------+-----------+------------+-------+-----------+---------------+-----------+-------+
//! | magic | layout  | authority | region_len | lines | hash_seed | quarantine_ms | generation| shard |
//! | 8 B   | u32     | u32       | u64        | u64   | u64       | u64           | u32       | u32   |
//! +-------+---------+-----------+------------+-------+-----------+---------------+-----------+-------+
//! 56       60         76         84
//! +--------+----------+----------+
//! | shards | table id | checksum |   the rest of the page is zero
//! | u32    | u128     | u64      |
//! +--------+----------+----------+
//! ```

use crate::geometry::{Geometry, GeometryError};
use crate::hash::TableSeed;
use crate::limits::SHARDS_MAX;

/// Bytes of an encoded superblock.
pub const LEN: usize = 84;

/// The layout that this crate reads and writes.
pub const LAYOUT: u32 = 1;

const MAGIC: [u8; 8] = *b"FARSIDE\n";

/// Who may change a shard's slot and link words. NIC atomics and CPU atomics are not atomic to each other, so a
/// shard has one authority for as long as it lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum Authority {
    /// Remote atomics through the server's device; the server itself goes through its loopback queue pair.
    Nic = 1,
    /// The server's CPU, asked by two-sided requests.
    Cpu = 2,
    /// Both: shared memory on one host, or a device whose atomics are coherent with the CPU's.
    Coherent = 3,
}

impl Authority {
    /// The authority numbered `code`.
    pub const fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            1 => Self::Nic,
            2 => Self::Cpu,
            3 => Self::Coherent,
            _ => return None,
        })
    }

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nic => "nic",
            Self::Cpu => "cpu",
            Self::Coherent => "coherent",
        }
    }
}

/// What a shard is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Its measures.
    pub geometry: Geometry,
    /// Seed of the key hash.
    pub seed: TableSeed,
    /// How long a retired block rests before it is leased again, milliseconds (rule T1), at least 1.
    pub quarantine_ms: u64,
    /// Who may change its words.
    pub authority: Authority,
    /// Rises by one when the shard is rebuilt; hints of another generation are void.
    pub generation: u32,
    /// This shard's number in its server, from 0.
    pub shard: u32,
    /// Shards of the server.
    pub shards: u32,
    /// Names the table for as long as it lives, drawn at random.
    pub table_id: u128,
}

/// Why bytes are no superblock that this build can use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SuperblockError {
    /// Not a Farside region at all.
    #[error("not a Farside region: it does not begin with Farside's magic")]
    Magic,
    /// Another layout.
    #[error("the region has layout {0}, this build uses layout {LAYOUT}; use a build of the same layout")]
    Layout(u32),
    /// Damaged.
    #[error("the superblock's checksum does not match: the region is damaged")]
    Checksum,
    /// Impossible measures.
    #[error("the superblock's measures are impossible: {0}")]
    Geometry(#[from] GeometryError),
    /// A field outside its range.
    #[error("the superblock's {0} is out of range: the region is damaged or of another build")]
    Field(&'static str),
}

impl Superblock {
    /// Its bytes.
    pub fn encode(&self) -> [u8; LEN] {
        let mut out = [0; LEN];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&MAGIC);
        put(&LAYOUT.to_le_bytes());
        put(&(self.authority as u32).to_le_bytes());
        put(&self.geometry.region_len().to_le_bytes());
        put(&self.geometry.lines().to_le_bytes());
        put(&self.seed.0.to_le_bytes());
        put(&self.quarantine_ms.to_le_bytes());
        put(&self.generation.to_le_bytes());
        put(&self.shard.to_le_bytes());
        put(&self.shards.to_le_bytes());
        put(&self.table_id.to_le_bytes());
        let checksum = xxhash_rust::xxh3::xxh3_64(&out[..LEN - 8]);
        out[LEN - 8..].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Decodes and checks.
    pub fn decode(bytes: &[u8; LEN]) -> Result<Self, SuperblockError> {
        if bytes[..8] != MAGIC {
            return Err(SuperblockError::Magic);
        }
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        if u32_at(8) != LAYOUT {
            return Err(SuperblockError::Layout(u32_at(8)));
        }
        if u64_at(LEN - 8) != xxhash_rust::xxh3::xxh3_64(&bytes[..LEN - 8]) {
            return Err(SuperblockError::Checksum);
        }
        let superblock = Self {
            authority: Authority::from_code(u32_at(12)).ok_or(SuperblockError::Field("authority"))?,
            geometry: Geometry::new(u64_at(16), u64_at(24))?,
            seed: TableSeed(u64_at(32)),
            quarantine_ms: u64_at(40),
            generation: u32_at(48),
            shard: u32_at(52),
            shards: u32_at(56),
            table_id: u128::from_le_bytes(bytes[60..76].try_into().expect("sixteen bytes")),
        };
        if superblock.geometry.region_len() != u64_at(16) {
            return Err(SuperblockError::Field("region_len"));
        }
        if superblock.quarantine_ms == 0 || superblock.quarantine_ms > 3_600_000 {
            return Err(SuperblockError::Field("quarantine_ms"));
        }
        if superblock.shards as usize > SHARDS_MAX || superblock.shard >= superblock.shards {
            return Err(SuperblockError::Field("shard"));
        }
        Ok(superblock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Superblock {
        Superblock {
            geometry: Geometry::new(1 << 20, 64).unwrap(),
            seed: TableSeed(7),
            quarantine_ms: 100,
            authority: Authority::Coherent,
            generation: 3,
            shard: 1,
            shards: 2,
            table_id: 99,
        }
    }

    #[test]
    fn a_superblock_reads_back_and_every_flipped_bit_is_found() {
        let bytes = sample().encode();
        assert_eq!(Superblock::decode(&bytes), Ok(sample()));
        for bit in 0..LEN * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::decode(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_foreign_or_newer_region_says_so() {
        assert_eq!(Superblock::decode(&[0; LEN]), Err(SuperblockError::Magic));
        let mut newer = sample().encode();
        newer[8] = 2;
        assert_eq!(Superblock::decode(&newer), Err(SuperblockError::Layout(2)));
    }

    #[test]
    fn sealed_nonsense_is_refused() {
        for broken in [
            Superblock { quarantine_ms: 0, ..sample() },
            Superblock { shard: 2, ..sample() },
            Superblock { shards: 0, shard: 0, ..sample() },
        ] {
            assert!(matches!(Superblock::decode(&broken.encode()), Err(SuperblockError::Field(_))));
        }
    }
}
