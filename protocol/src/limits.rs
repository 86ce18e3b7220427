//! The bounds of the format. Each is checked where data enters and asserted where it is used.

/// Alignment and smallest size of a block, bytes. A [`Block`](crate::Block) counts in this unit.
pub const GRANULE: u64 = 64;

/// Longest key, bytes. The shortest is one byte.
pub const KEY_LEN_MAX: usize = 4096;

/// Longest value, bytes (16 MiB). The shortest is empty.
pub const VALUE_LEN_MAX: usize = 16 << 20;

/// Slots in a line: one cache line of 8-byte words.
pub const SLOTS_PER_LINE: usize = 8;

/// Lines in a window, its home line included.
pub const LINES_PER_WINDOW: usize = 4;

/// Slots in a window: what one READ of the index brings.
pub const SLOTS_PER_WINDOW: usize = SLOTS_PER_LINE * LINES_PER_WINDOW;

/// Bytes of a window.
pub const WINDOW_LEN: usize = SLOTS_PER_WINDOW * 8;

/// Largest region of one shard: what the 34 bits of a block can name (1 TiB).
pub const REGION_LEN_MAX: u64 = (1 << 34) * GRANULE;

/// Largest lease count of a block. A block that reaches it is taken out of use for good: its version's 30 bits
/// are used up. At one lease each quarantine of 100 ms that takes more than three years.
pub const LEASE_COUNT_MAX: u64 = (1 << 30) - 1;

/// Lease counts that a slot word's tag tells apart.
pub const TAG_PERIOD: u64 = 1 << 10;

/// How many quarantines old the evidence for a slot word or a `NEXT` may be when it is acted upon (rules T4 and
/// T7): a quarter of the shortest time in which a tag can recur.
pub const EVIDENCE_QUARANTINES: u64 = TAG_PERIOD / 4;

/// How many quarantines old a hint may be when it is used, also one that names a life and expects its `END`. Memory
/// changes its class only after [`TAG_PERIOD`] quarantines of rest; from then on an old record's place may lie
/// inside a value, and hold any bytes.
pub const HINT_QUARANTINES: u64 = TAG_PERIOD / 2;

/// Shards of one server.
pub const SHARDS_MAX: usize = 64;

const _: () = assert!(WINDOW_LEN == 256);
const _: () = assert!(EVIDENCE_QUARANTINES * 4 == TAG_PERIOD);
