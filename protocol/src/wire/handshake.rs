//! The first exchange of a connection: who the client is and may be, and what the server holds.

use super::TOKEN_LEN_MAX;
use super::codec::{DecodeError, Reader, put_short_bytes, put_text};
use crate::limits::SHARDS_MAX;
use crate::superblock::{self, Superblock};
use alloc::string::String;
use alloc::vec::Vec;

/// What a session may do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Rights {
    /// Look up.
    Read = 1,
    /// Look up and change.
    ReadWrite = 2,
}

impl Rights {
    pub(super) fn from_code(code: u8) -> Result<Self, DecodeError> {
        match code {
            1 => Ok(Self::Read),
            2 => Ok(Self::ReadWrite),
            _ => Err(DecodeError::Field("rights")),
        }
    }
}

/// What a session wants beside messages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Wants {
    /// Nothing: the server carries out its requests.
    Messages = 0,
    /// The descriptors of the shards' memory. Only a Unix socket can pass them.
    Memory = 1,
    /// To connect RDMA queue pairs.
    QueuePairs = 2,
}

impl Wants {
    fn from_code(code: u8) -> Result<Self, DecodeError> {
        match code {
            0 => Ok(Self::Messages),
            1 => Ok(Self::Memory),
            2 => Ok(Self::QueuePairs),
            _ => Err(DecodeError::Field("wants")),
        }
    }
}

/// The client's first message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello<'a> {
    /// The secret that the server's `--token-file` holds; empty: none.
    pub token: &'a [u8],
    /// What the client wants to do, at most what the token grants.
    pub rights: Rights,
    /// How the client means to reach the table.
    pub wants: Wants,
    /// What the client calls itself, for the server's log and statistics.
    pub name: &'a str,
}

impl<'a> Hello<'a> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_short_bytes(out, self.token);
        out.push(self.rights as u8);
        out.push(self.wants as u8);
        put_text(out, self.name);
    }

    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let token = reader.short_bytes()?;
        if token.len() > TOKEN_LEN_MAX {
            return Err(DecodeError::Field("token"));
        }
        Ok(Self {
            token,
            rights: Rights::from_code(reader.u8()?)?,
            wants: Wants::from_code(reader.u8()?)?,
            name: reader.text("name")?,
        })
    }
}

/// One shard's memory as an RDMA device reaches it: two registrations, so that no stray WRITE can reach the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteMemory {
    /// The address of the region's first byte.
    pub address: u64,
    /// The key of superblock and index.
    pub index_key: u32,
    /// The key of the heap.
    pub heap_key: u32,
}

/// What a session needs to connect queue pairs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueuePairs {
    /// Names the session where its queue pairs connect; known to nobody else.
    pub ticket: u128,
    /// What atomics of the server's device are atomic to.
    pub atomics: AtomicScope,
    /// The shards' memory, in order.
    pub memory: Vec<RemoteMemory>,
}

/// To what a fabric's atomics are atomic.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum AtomicScope {
    /// There are none that a remote side executes by itself.
    None = 0,
    /// To each other on one device (`IBV_ATOMIC_HCA`), not to the CPU's.
    Device = 1,
    /// To each other and to the CPU's (`IBV_ATOMIC_GLOB`, shared memory).
    Global = 2,
}

impl AtomicScope {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Device => "device",
            Self::Global => "global",
        }
    }

    fn from_code(code: u8) -> Result<Self, DecodeError> {
        match code {
            0 => Ok(Self::None),
            1 => Ok(Self::Device),
            2 => Ok(Self::Global),
            _ => Err(DecodeError::Field("atomics")),
        }
    }
}

impl QueuePairs {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.ticket.to_le_bytes());
        out.push(self.atomics as u8);
        for memory in &self.memory {
            out.extend_from_slice(&memory.address.to_le_bytes());
            out.extend_from_slice(&memory.index_key.to_le_bytes());
            out.extend_from_slice(&memory.heap_key.to_le_bytes());
        }
    }

    fn decode(reader: &mut Reader<'_>, shards: usize) -> Result<Self, DecodeError> {
        let (ticket, atomics) = (reader.u128()?, AtomicScope::from_code(reader.u8()?)?);
        let memory = (0..shards).map(|_| {
            Ok(RemoteMemory { address: reader.u64()?, index_key: reader.u32()?, heap_key: reader.u32()? })
        });
        Ok(Self { ticket, atomics, memory: memory.collect::<Result<_, _>>()? })
    }
}

/// The server's answer to a [`Hello`] it accepts. Behind it on a Unix socket come, if asked for, the descriptors
/// of the shards' memory in the order of the shards, with one byte of ordinary data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// The server's build.
    pub server_version: String,
    /// Drawn at random when the server process started: tells whether two connections reach the same one.
    pub instance: u128,
    /// Numbers the session in its server.
    pub session: u64,
    /// What the session may do.
    pub rights: Rights,
    /// What it may do to the shards' memory itself, if it reaches that: less than its `rights` where the server makes
    /// all changes.
    pub memory_rights: Rights,
    /// A session that is silent for longer is ended, milliseconds.
    pub lease_ms: u32,
    /// Names the host's running kernel (its boot id): a client with the same one can share memory.
    pub host: String,
    /// Path of the Unix socket on that host, empty if the server has none.
    pub socket: String,
    /// Where queue pairs connect, `IP:PORT`, empty if the server has no RDMA device.
    pub rdma: String,
    /// The shards, in order, one at least.
    pub shards: Vec<Superblock>,
    /// Present if the client [wants](Wants::QueuePairs) to connect queue pairs.
    pub queue_pairs: Option<QueuePairs>,
}

impl Welcome {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_text(out, &self.server_version);
        out.extend_from_slice(&self.instance.to_le_bytes());
        out.extend_from_slice(&self.session.to_le_bytes());
        out.push(self.rights as u8);
        out.push(self.memory_rights as u8);
        out.extend_from_slice(&self.lease_ms.to_le_bytes());
        put_text(out, &self.host);
        put_text(out, &self.socket);
        put_text(out, &self.rdma);
        out.push(self.shards.len() as u8);
        for shard in &self.shards {
            out.extend_from_slice(&shard.encode());
        }
        out.push(self.queue_pairs.is_some().into());
        if let Some(queue_pairs) = &self.queue_pairs {
            debug_assert_eq!(queue_pairs.memory.len(), self.shards.len());
            queue_pairs.encode(out);
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut welcome = Self {
            server_version: reader.text("server_version")?.into(),
            instance: reader.u128()?,
            session: reader.u64()?,
            rights: Rights::from_code(reader.u8()?)?,
            memory_rights: Rights::from_code(reader.u8()?)?,
            lease_ms: reader.u32()?,
            host: reader.text("host")?.into(),
            socket: reader.text("socket")?.into(),
            rdma: reader.text("rdma")?.into(),
            shards: Vec::new(),
            queue_pairs: None,
        };
        let shards = usize::from(reader.u8()?);
        if shards == 0 || shards > SHARDS_MAX {
            return Err(DecodeError::Field("shards"));
        }
        for number in 0..shards {
            let bytes = reader.take(superblock::LEN)?.try_into().expect("as long as asked");
            let shard = Superblock::decode(bytes).map_err(|_| DecodeError::Field("shard"))?;
            if shard.shard as usize != number || shard.shards as usize != shards {
                return Err(DecodeError::Field("shard"));
            }
            welcome.shards.push(shard);
        }
        if reader.flag("queue_pairs")? {
            welcome.queue_pairs = Some(QueuePairs::decode(reader, shards)?);
        }
        Ok(welcome)
    }
}
