//! What a client asks.

use super::LIVES_MAX;
use super::codec::{DecodeError, Reader, frame, put_short_bytes};
use super::handshake::Hello;
use crate::class::Class;
use crate::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};
use crate::record::Key;
use crate::word::{Life, Version};
use alloc::vec::Vec;

/// On what a change depends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Condition {
    /// On nothing: a blind change.
    Always,
    /// On the key's absence.
    Absent,
    /// On the key's current version.
    Version(Version),
}

/// Where a SCAN goes on: it passes through the slots of one shard after the other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct ScanPosition {
    /// The shard.
    pub shard: u32,
    /// The slot in it.
    pub slot: u32,
}

impl ScanPosition {
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.shard.to_le_bytes());
        out.extend_from_slice(&self.slot.to_le_bytes());
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { shard: reader.u32()?, slot: reader.u32()? })
    }
}

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request<'a> {
    /// Opens the session.
    Hello(Hello<'a>),
    /// Asks for an answer, and renews the session.
    Ping,
    /// Asks for the server's facts and figures.
    Stats,
    /// GET.
    Get {
        /// The key.
        key: Key<'a>,
    },
    /// PUT, put-if-absent, compare-exchange.
    Put {
        /// The key.
        key: Key<'a>,
        /// The value.
        value: &'a [u8],
        /// When it expires, milliseconds of the Unix epoch; 0: never.
        expires_at_ms: u64,
        /// On what it depends.
        condition: Condition,
    },
    /// DELETE; on [`Condition::Absent`] it would make no sense and is refused by the decoder.
    Delete {
        /// The key.
        key: Key<'a>,
        /// On what it depends.
        condition: Condition,
    },
    /// fetch-add on a counter; an absent key counts from 0.
    FetchAdd {
        /// The key.
        key: Key<'a>,
        /// What is added.
        delta: i64,
    },
    /// A page of a SCAN.
    Scan {
        /// Where it goes on.
        from: ScanPosition,
        /// Most keys of the page, one at least; fewer may come, or none, though the scan is not at its end.
        keys_max: u16,
        /// What the keys begin with.
        prefix: &'a [u8],
    },
    /// Asks for blocks to write records into.
    Lease {
        /// Of which shard.
        shard: u32,
        /// Of which size.
        class: Class,
        /// The queue pair that is going to write into them, by the number of the server's end; 0 over shared memory.
        queue_pair: u32,
        /// How many, at most [`LIVES_MAX`]; fewer may come.
        count: u16,
    },
    /// Tells what became of blocks of one shard. Answered by [`Response::Done`](super::Response::Done).
    Report {
        /// The shard.
        shard: u32,
        /// Leases of this session that are spent: their records were published.
        published: Vec<Life>,
        /// Records past which this session moved a slot: nothing leads to them any more.
        retired: Vec<Life>,
        /// Leases of this session that it gives back unspent.
        returned: Vec<Life>,
    },
    /// Asks that nothing an earlier session posted can still execute (rule T5).
    Fence {
        /// The earlier session.
        session: u64,
    },
}

pub(super) mod kind {
    pub(crate) const HELLO: u8 = 0x01;
    pub(crate) const PING: u8 = 0x02;
    pub(crate) const STATS: u8 = 0x03;
    pub(crate) const GET: u8 = 0x10;
    pub(crate) const PUT: u8 = 0x11;
    pub(crate) const DELETE: u8 = 0x12;
    pub(crate) const FETCH_ADD: u8 = 0x13;
    pub(crate) const SCAN: u8 = 0x14;
    pub(crate) const LEASE: u8 = 0x20;
    pub(crate) const REPORT: u8 = 0x21;
    pub(crate) const FENCE: u8 = 0x22;
}

impl<'a> Request<'a> {
    /// Appends this request as a frame numbered `id`.
    pub fn encode(&self, id: u64, out: &mut Vec<u8>) {
        match self {
            Self::Hello(hello) => frame(out, kind::HELLO, id, |out| hello.encode(out)),
            Self::Ping => frame(out, kind::PING, id, |_| ()),
            Self::Stats => frame(out, kind::STATS, id, |_| ()),
            Self::Get { key } => frame(out, kind::GET, id, |out| out.extend_from_slice(key.as_bytes())),
            Self::Put { key, value, expires_at_ms, condition } => frame(out, kind::PUT, id, |out| {
                condition.encode(out);
                out.extend_from_slice(&expires_at_ms.to_le_bytes());
                put_short_bytes(out, key.as_bytes());
                out.extend_from_slice(value);
            }),
            Self::Delete { key, condition } => frame(out, kind::DELETE, id, |out| {
                condition.encode(out);
                out.extend_from_slice(key.as_bytes());
            }),
            Self::FetchAdd { key, delta } => frame(out, kind::FETCH_ADD, id, |out| {
                out.extend_from_slice(&delta.to_le_bytes());
                out.extend_from_slice(key.as_bytes());
            }),
            Self::Scan { from, keys_max, prefix } => frame(out, kind::SCAN, id, |out| {
                from.encode(out);
                out.extend_from_slice(&keys_max.to_le_bytes());
                out.extend_from_slice(prefix);
            }),
            Self::Lease { shard, class, queue_pair, count } => frame(out, kind::LEASE, id, |out| {
                out.extend_from_slice(&shard.to_le_bytes());
                out.extend_from_slice(&queue_pair.to_le_bytes());
                out.push(class.index() as u8);
                out.extend_from_slice(&count.to_le_bytes());
            }),
            Self::Report { shard, published, retired, returned } => frame(out, kind::REPORT, id, |out| {
                out.extend_from_slice(&shard.to_le_bytes());
                for lives in [published, retired, returned] {
                    put_lives(out, lives);
                }
            }),
            Self::Fence { session } => {
                frame(out, kind::FENCE, id, |out| out.extend_from_slice(&session.to_le_bytes()));
            }
        }
    }

    /// Decodes the body of a frame of `kind`.
    pub fn decode(kind: u8, body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let request = match kind {
            kind::HELLO => Self::Hello(Hello::decode(&mut reader)?),
            kind::PING => Self::Ping,
            kind::STATS => Self::Stats,
            kind::GET => Self::Get { key: key(reader.rest())? },
            kind::PUT => {
                let condition = Condition::decode(&mut reader)?;
                let expires_at_ms = reader.u64()?;
                let key = key(reader.short_bytes()?)?;
                let value = reader.rest();
                if value.len() > VALUE_LEN_MAX {
                    return Err(DecodeError::Field("value"));
                }
                Self::Put { key, value, expires_at_ms, condition }
            }
            kind::DELETE => {
                let condition = Condition::decode(&mut reader)?;
                if condition == Condition::Absent {
                    return Err(DecodeError::Field("condition"));
                }
                Self::Delete { key: key(reader.rest())?, condition }
            }
            kind::FETCH_ADD => {
                let delta = reader.u64()? as i64;
                Self::FetchAdd { key: key(reader.rest())?, delta }
            }
            kind::SCAN => {
                let (from, keys_max) = (ScanPosition::decode(&mut reader)?, reader.u16()?);
                let prefix = reader.rest();
                if keys_max == 0 {
                    return Err(DecodeError::Field("keys_max"));
                }
                if prefix.len() > KEY_LEN_MAX {
                    return Err(DecodeError::Field("prefix"));
                }
                Self::Scan { from, keys_max, prefix }
            }
            kind::LEASE => {
                let (shard, queue_pair) = (reader.u32()?, reader.u32()?);
                let class = Class::from_index(reader.u8()?.into()).ok_or(DecodeError::Field("class"))?;
                let count = reader.u16()?;
                if usize::from(count) > LIVES_MAX {
                    return Err(DecodeError::Field("count"));
                }
                Self::Lease { shard, class, queue_pair, count }
            }
            kind::REPORT => Self::Report {
                shard: reader.u32()?,
                published: lives(&mut reader)?,
                retired: lives(&mut reader)?,
                returned: lives(&mut reader)?,
            },
            kind::FENCE => Self::Fence { session: reader.u64()? },
            unknown => return Err(DecodeError::Kind(unknown)),
        };
        reader.finish()?;
        Ok(request)
    }
}

impl Condition {
    fn encode(self, out: &mut Vec<u8>) {
        let (code, version) = match self {
            Self::Always => (0, 0),
            Self::Absent => (1, 0),
            Self::Version(version) => (2, version.to_bits()),
        };
        out.push(code);
        out.extend_from_slice(&version.to_le_bytes());
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match (reader.u8()?, reader.u64()?) {
            (0, 0) => Ok(Self::Always),
            (1, 0) => Ok(Self::Absent),
            (2, version) => Ok(Self::Version(Version::from_bits(version))),
            _ => Err(DecodeError::Field("condition")),
        }
    }
}

fn key(bytes: &[u8]) -> Result<Key<'_>, DecodeError> {
    Key::new(bytes).map_err(|_| DecodeError::Field("key"))
}

/// A life travels as the version that names it.
pub(super) fn put_lives(out: &mut Vec<u8>, lives: &[Life]) {
    assert!(lives.len() <= LIVES_MAX, "batches are cut to LIVES_MAX before a message is made");
    out.extend_from_slice(&(lives.len() as u16).to_le_bytes());
    for life in lives {
        out.extend_from_slice(&Version::of(*life).to_bits().to_le_bytes());
    }
}

pub(super) fn lives(reader: &mut Reader<'_>) -> Result<Vec<Life>, DecodeError> {
    let count = usize::from(reader.u16()?);
    if count > LIVES_MAX {
        return Err(DecodeError::Field("lives"));
    }
    let (words, _) = reader.take(count * 8)?.as_chunks::<8>();
    Ok(words.iter().map(|word| Version::from_bits(u64::from_le_bytes(*word)).life()).collect())
}
