//! What a server answers.

use super::codec::{DecodeError, Reader, frame, put_short_bytes, put_text};
use super::handshake::Welcome;
use super::request::{ScanPosition, lives, put_lives};
use crate::error::ErrorKind;
use crate::geometry::SlotIndex;
use crate::limits::VALUE_LEN_MAX;
use crate::record::Key;
use crate::word::{Life, Locator, Version};
use alloc::string::String;
use alloc::vec::Vec;

/// Where a record was published, so that a client which reads one-sidedly finds it again with one READ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hint {
    /// The record.
    pub locator: Locator,
    /// The slot from which its chain starts.
    pub slot: SlotIndex,
}

/// One figure or fact about a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statistic {
    /// Its name, as in the metrics.
    pub name: String,
    /// Its value, a number or a word.
    pub value: String,
}

/// A key that a SCAN came across.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanEntry<'a> {
    /// The key.
    pub key: Key<'a>,
    /// Its value.
    pub value: &'a [u8],
    /// Its version.
    pub version: Version,
    /// When it expires, milliseconds of the Unix epoch; 0: never.
    pub expires_at_ms: u64,
    /// The record's flags.
    pub flags: u16,
}

/// A response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Response<'a> {
    /// The request failed.
    Error {
        /// The kind a caller can act on.
        kind: ErrorKind,
        /// What happened and what to do, for people.
        message: &'a str,
    },
    /// Accepts a Hello.
    Welcome(Welcome),
    /// Answers a Ping.
    Pong,
    /// Answers Stats.
    Stats(Vec<Statistic>),
    /// GET: the key's value.
    Value {
        /// Its version.
        version: Version,
        /// When it expires, milliseconds of the Unix epoch; 0: never.
        expires_at_ms: u64,
        /// The record's flags.
        flags: u16,
        /// The value.
        value: &'a [u8],
    },
    /// GET: the key is absent.
    Absent,
    /// PUT: done. An absorbed PUT has neither version nor hint.
    Stored {
        /// The version published.
        version: Option<Version>,
        /// Where.
        hint: Option<Hint>,
    },
    /// A conditional change whose condition does not hold.
    Mismatch {
        /// The key's current version; `None`: absent.
        current: Option<Version>,
    },
    /// DELETE: whether there was something to delete.
    Deleted {
        /// Whether this request deleted it.
        existed: bool,
    },
    /// fetch-add: done.
    Counter {
        /// The counter after the addition.
        value: i64,
        /// The version published.
        version: Version,
        /// Where.
        hint: Option<Hint>,
    },
    /// A page of a SCAN.
    Scanned {
        /// Where it goes on; `None`: it is at its end.
        next: Option<ScanPosition>,
        /// The keys.
        entries: Vec<ScanEntry<'a>>,
    },
    /// Leased blocks, perhaps fewer than asked.
    Leased {
        /// Blocks with their counts.
        lives: Vec<Life>,
        /// For each the key with which its queue pair WRITEs to it; none where one key is for all of the heap.
        keys: Vec<u32>,
        /// If none: when to ask again, milliseconds; 0: memory is used up.
        retry_ms: u32,
    },
    /// A report or fence is done.
    Done,
}

mod kind {
    pub(super) const ERROR: u8 = 0x80;
    pub(super) const WELCOME: u8 = 0x81;
    pub(super) const PONG: u8 = 0x82;
    pub(super) const STATS: u8 = 0x83;
    pub(super) const VALUE: u8 = 0x90;
    pub(super) const ABSENT: u8 = 0x91;
    pub(super) const STORED: u8 = 0x92;
    pub(super) const MISMATCH: u8 = 0x93;
    pub(super) const DELETED: u8 = 0x94;
    pub(super) const COUNTER: u8 = 0x95;
    pub(super) const SCANNED: u8 = 0x96;
    pub(super) const LEASED: u8 = 0xa0;
    pub(super) const DONE: u8 = 0xa1;
}

impl<'a> Response<'a> {
    /// Appends this response as a frame that answers request `id`.
    pub fn encode(&self, id: u64, out: &mut Vec<u8>) {
        match self {
            Self::Error { kind: error, message } => frame(out, kind::ERROR, id, |out| {
                out.extend_from_slice(&error.code().to_le_bytes());
                put_text(out, message);
            }),
            Self::Welcome(welcome) => frame(out, kind::WELCOME, id, |out| welcome.encode(out)),
            Self::Pong => frame(out, kind::PONG, id, |_| ()),
            Self::Stats(statistics) => frame(out, kind::STATS, id, |out| {
                out.extend_from_slice(&(statistics.len() as u16).to_le_bytes());
                for Statistic { name, value } in statistics {
                    put_text(out, name);
                    put_text(out, value);
                }
            }),
            Self::Value { version, expires_at_ms, flags, value } => frame(out, kind::VALUE, id, |out| {
                out.extend_from_slice(&version.to_bits().to_le_bytes());
                out.extend_from_slice(&expires_at_ms.to_le_bytes());
                out.extend_from_slice(&flags.to_le_bytes());
                out.extend_from_slice(value);
            }),
            Self::Absent => frame(out, kind::ABSENT, id, |_| ()),
            Self::Stored { version, hint } => frame(out, kind::STORED, id, |out| {
                put_version(out, *version);
                put_hint(out, *hint);
            }),
            Self::Mismatch { current } => frame(out, kind::MISMATCH, id, |out| put_version(out, *current)),
            Self::Deleted { existed } => frame(out, kind::DELETED, id, |out| out.push((*existed).into())),
            Self::Counter { value, version, hint } => frame(out, kind::COUNTER, id, |out| {
                out.extend_from_slice(&value.to_le_bytes());
                out.extend_from_slice(&version.to_bits().to_le_bytes());
                put_hint(out, *hint);
            }),
            Self::Scanned { next, entries } => frame(out, kind::SCANNED, id, |out| {
                out.push(next.is_some().into());
                next.unwrap_or_default().encode(out);
                out.extend_from_slice(&(entries.len() as u16).to_le_bytes());
                for entry in entries {
                    out.extend_from_slice(&entry.version.to_bits().to_le_bytes());
                    out.extend_from_slice(&entry.expires_at_ms.to_le_bytes());
                    out.extend_from_slice(&entry.flags.to_le_bytes());
                    put_short_bytes(out, entry.key.as_bytes());
                    out.extend_from_slice(&(entry.value.len() as u32).to_le_bytes());
                    out.extend_from_slice(entry.value);
                }
            }),
            Self::Leased { lives, keys, retry_ms } => frame(out, kind::LEASED, id, |out| {
                put_lives(out, lives);
                debug_assert!(keys.is_empty() || keys.len() == lives.len());
                out.push((!keys.is_empty()).into());
                keys.iter().for_each(|key| out.extend_from_slice(&key.to_le_bytes()));
                out.extend_from_slice(&retry_ms.to_le_bytes());
            }),
            Self::Done => frame(out, kind::DONE, id, |_| ()),
        }
    }

    /// Whether a frame of `kind` is a [`Response::Error`].
    pub const fn is_error(kind: u8) -> bool {
        kind == kind::ERROR
    }

    /// Decodes the body of a frame of `kind`.
    pub fn decode(kind: u8, body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let response = match kind {
            kind::ERROR => Self::Error {
                kind: ErrorKind::from_code(reader.u16()?).ok_or(DecodeError::Field("error"))?,
                message: reader.text("message")?,
            },
            kind::WELCOME => Self::Welcome(Welcome::decode(&mut reader)?),
            kind::PONG => Self::Pong,
            kind::STATS => {
                let count = reader.u16()?;
                let mut statistics = Vec::new();
                for _ in 0..count {
                    let (name, value) = (reader.text("name")?.into(), reader.text("value")?.into());
                    statistics.push(Statistic { name, value });
                }
                Self::Stats(statistics)
            }
            kind::VALUE => {
                let version = Version::from_bits(reader.u64()?);
                let (expires_at_ms, flags) = (reader.u64()?, reader.u16()?);
                let value = reader.rest();
                if value.len() > VALUE_LEN_MAX {
                    return Err(DecodeError::Field("value"));
                }
                Self::Value { version, expires_at_ms, flags, value }
            }
            kind::ABSENT => Self::Absent,
            kind::STORED => Self::Stored { version: version(&mut reader)?, hint: hint(&mut reader)? },
            kind::MISMATCH => Self::Mismatch { current: version(&mut reader)? },
            kind::DELETED => Self::Deleted { existed: reader.flag("existed")? },
            kind::COUNTER => Self::Counter {
                value: reader.u64()? as i64,
                version: Version::from_bits(reader.u64()?),
                hint: hint(&mut reader)?,
            },
            kind::SCANNED => {
                let next = match (reader.flag("goes on")?, ScanPosition::decode(&mut reader)?) {
                    (true, next) => Some(next),
                    (false, ScanPosition { shard: 0, slot: 0 }) => None,
                    (false, _) => return Err(DecodeError::Field("next")),
                };
                let count = reader.u16()?;
                let entries = (0..count).map(|_| scan_entry(&mut reader)).collect::<Result<_, _>>()?;
                Self::Scanned { next, entries }
            }
            kind::LEASED => {
                let lives = lives(&mut reader)?;
                let keys = if reader.flag("keys")? { lives.len() } else { 0 };
                let keys = (0..keys).map(|_| reader.u32()).collect::<Result<_, _>>()?;
                Self::Leased { lives, keys, retry_ms: reader.u32()? }
            }
            kind::DONE => Self::Done,
            unknown => return Err(DecodeError::Kind(unknown)),
        };
        reader.finish()?;
        Ok(response)
    }
}

fn scan_entry<'a>(reader: &mut Reader<'a>) -> Result<ScanEntry<'a>, DecodeError> {
    let version = Version::from_bits(reader.u64()?);
    let (expires_at_ms, flags) = (reader.u64()?, reader.u16()?);
    let key = Key::new(reader.short_bytes()?).map_err(|_| DecodeError::Field("key"))?;
    let value_len = reader.u32()? as usize;
    Ok(ScanEntry { key, value: reader.take(value_len)?, version, expires_at_ms, flags })
}

/// Version 0 would be the life 0 of block 0, which lies in the superblock: it stands for none.
fn put_version(out: &mut Vec<u8>, version: Option<Version>) {
    out.extend_from_slice(&version.map_or(0, Version::to_bits).to_le_bytes());
}

fn version(reader: &mut Reader<'_>) -> Result<Option<Version>, DecodeError> {
    let bits = reader.u64()?;
    Ok((bits != 0).then_some(Version::from_bits(bits)))
}

/// Locator 0 would name block 0: it stands for none.
fn put_hint(out: &mut Vec<u8>, hint: Option<Hint>) {
    let (locator, slot) = hint.map_or((0, 0), |hint| (hint.locator.to_bits(), hint.slot.0));
    out.extend_from_slice(&locator.to_le_bytes());
    out.extend_from_slice(&slot.to_le_bytes());
}

fn hint(reader: &mut Reader<'_>) -> Result<Option<Hint>, DecodeError> {
    match (reader.u64()?, reader.u32()?) {
        (0, 0) => Ok(None),
        (bits, slot) if Locator::from_bits(bits).to_bits() == bits && bits != 0 => {
            Ok(Some(Hint { locator: Locator::from_bits(bits), slot: SlotIndex(slot) }))
        }
        _ => Err(DecodeError::Field("hint")),
    }
}
