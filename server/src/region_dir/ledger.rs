//! The ledger file: what the next server must know and no client need see.
//!
//! ```text
//! 0       8        12       16         32      40         48   56      64       72 .. 156
//! +-------+--------+--------+----------+-------+----------+-----+-------+--------+-------------+
//! | magic | layout | shards | table id | units | checksum | pid | began | drafts | superblock  |   4 KiB
//! +-------+--------+--------+----------+-------+----------+-----+-------+--------+-------------+
//! | words of the heap of shard 0 | of shard 1 | ..
//! ```
//! *pid, began*: the server that has the table, and when it began, as the kernel counts. *drafts*: 1 while superblocks are
//! being replaced by others that are all like the one behind it, but for the shard's number.

use super::former::Process;
use farside_hashtable::heap::{Heap, Ledger, blank};
use farside_protocol::superblock::{self, Superblock, SuperblockError};
use farside_transport::Region;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: [u8; 8] = *b"FARSIDEL";
const LAYOUT: u32 = 1;

const CHECKSUM_AT: usize = 40;
const PROCESS_AT: u64 = 48;
const DRAFTS_AT: usize = 64;
const DRAFT_AT: usize = 72;
const WORDS_AT: u64 = 4096;

/// Bytes before the words that say something.
pub(super) const HEAD: usize = DRAFT_AT + superblock::LEN.next_multiple_of(8);

/// The head of a ledger, as it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) shards: u32,
    pub(super) table_id: u128,
    pub(super) server: Process,
    /// What the superblocks are, those perhaps being cut off which are being replaced; `None`: they are whole.
    pub(super) draft: Option<Superblock>,
}

/// Why bytes are no ledger's head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum HeadError {
    /// Of another layout.
    Layout(SuperblockError),
    Damaged(&'static str),
}

impl Head {
    pub(super) fn decode(bytes: &[u8; HEAD]) -> Result<Self, HeadError> {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        if bytes[..8] != MAGIC {
            return Err(HeadError::Damaged("it does not begin as a ledger does"));
        }
        let layout = word(8) as u32;
        if layout != LAYOUT {
            return Err(HeadError::Layout(SuperblockError::Layout(layout)));
        }
        if word(CHECKSUM_AT) != xxh3_64(&bytes[..CHECKSUM_AT]) {
            return Err(HeadError::Damaged("its checksum does not match"));
        }
        let draft = match word(DRAFTS_AT) {
            0 => None,
            _ => Some(
                Superblock::decode(bytes[DRAFT_AT..].first_chunk().expect("it has room for one"))
                    .map_err(|_| HeadError::Damaged("its draft of the superblocks does not match"))?,
            ),
        };
        let server = Process { pid: word(PROCESS_AT as usize), began: word(PROCESS_AT as usize + 8) };
        let table_id = u128::from_le_bytes(bytes[16..32].try_into().expect("sixteen bytes"));
        Ok(Self { shards: (word(8) >> 32) as u32, table_id, server, draft })
    }

    fn encode(like: &Superblock) -> [u8; PROCESS_AT as usize] {
        let mut bytes = [0; PROCESS_AT as usize];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&LAYOUT.to_le_bytes());
        bytes[12..16].copy_from_slice(&like.shards.to_le_bytes());
        bytes[16..32].copy_from_slice(&like.table_id.to_le_bytes());
        bytes[32..40].copy_from_slice(&(Heap::ledger_len(like.geometry) as u64).to_le_bytes());
        let checksum = xxh3_64(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }
}

/// A ledger, mapped.
#[derive(Debug)]
pub(super) struct LedgerFile {
    region: Arc<Region>,
    units: u64,
}

impl LedgerFile {
    /// Bytes of the ledger of a table with superblocks like this.
    pub(super) fn len(like: &Superblock) -> u64 {
        WORDS_AT + u64::from(like.shards) * Heap::ledger_len(like.geometry) as u64 * 8
    }

    /// The one in `region`.
    pub(super) fn over(region: Region, like: &Superblock) -> Self {
        Self { region: Arc::new(region), units: Heap::ledger_len(like.geometry) as u64 }
    }

    /// Writes a new one to `region`.
    pub(super) fn create(region: Region, like: &Superblock) -> Self {
        let this = Self::over(region, like);
        for shard in 0..like.shards {
            let mut words = this.of_shard(shard);
            (0..this.units as usize).for_each(|unit| words.note(unit, blank(unit)));
        }
        this.note_server();
        this.put(0, &Head::encode(like));
        this
    }

    /// The words of a shard's heap.
    pub(super) fn of_shard(&self, shard: u32) -> Box<Words> {
        let at = WORDS_AT + u64::from(shard) * self.units * 8;
        Box::new(Words { region: Arc::clone(&self.region), at })
    }

    /// Notes that this process has the table.
    pub(super) fn note_server(&self) {
        let Process { pid, began } = Process::own();
        self.put(PROCESS_AT, &[pid.to_le_bytes(), began.to_le_bytes()].concat());
    }

    /// Has `replace` replace all superblocks by ones like this, so that it is known what they are if it is cut off.
    pub(super) fn drafting(&self, like: &Superblock, replace: impl FnOnce()) {
        let mut bytes = [0; HEAD - DRAFT_AT];
        bytes[..superblock::LEN].copy_from_slice(&like.encode());
        self.put(DRAFT_AT as u64, &bytes);
        self.put(DRAFTS_AT as u64, &1u64.to_le_bytes());
        replace();
        self.put(DRAFTS_AT as u64, &0u64.to_le_bytes());
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.region.write(at, bytes).expect("the head lies in the region, on whole words");
    }
}

/// The words of one heap.
#[derive(Debug)]
pub(super) struct Words {
    region: Arc<Region>,
    at: u64,
}

impl Words {
    pub(super) fn word(&self, unit: usize) -> u64 {
        self.region.load(self.at + unit as u64 * 8).expect("the ledger has a word for each unit")
    }
}

impl Ledger for Words {
    fn note(&mut self, unit: usize, word: u64) {
        let bytes = word.to_le_bytes();
        self.region.write(self.at + unit as u64 * 8, &bytes).expect("the ledger has a word for each unit");
    }
}
