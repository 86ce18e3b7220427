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

/// The client's first message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello<'a> {
    /// The secret that the server's `--token-file` holds; empty: none.
    pub token: &'a [u8],
    /// What the client wants to do, at most what the token grants.
    pub rights: Rights,
    /// Whether the client wants the descriptors of the shards' memory. Only a Unix socket can pass them.
    pub wants_memory: bool,
    /// What the client calls itself, for the server's log and statistics.
    pub name: &'a str,
}

impl<'a> Hello<'a> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_short_bytes(out, self.token);
        out.push(self.rights as u8);
        out.push(self.wants_memory.into());
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
            wants_memory: reader.flag("wants_memory")?,
            name: reader.text("name")?,
        })
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
    /// A session that is silent for longer is ended, milliseconds.
    pub lease_ms: u32,
    /// Names the host's running kernel (its boot id): a client with the same one can share memory.
    pub host: String,
    /// Path of the Unix socket on that host, empty if the server has none.
    pub socket: String,
    /// The shards, in order, one at least.
    pub shards: Vec<Superblock>,
}

impl Welcome {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_text(out, &self.server_version);
        out.extend_from_slice(&self.instance.to_le_bytes());
        out.extend_from_slice(&self.session.to_le_bytes());
        out.push(self.rights as u8);
        out.extend_from_slice(&self.lease_ms.to_le_bytes());
        put_text(out, &self.host);
        put_text(out, &self.socket);
        out.push(self.shards.len() as u8);
        for shard in &self.shards {
            out.extend_from_slice(&shard.encode());
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut welcome = Self {
            server_version: reader.text("server_version")?.into(),
            instance: reader.u128()?,
            session: reader.u64()?,
            rights: Rights::from_code(reader.u8()?)?,
            lease_ms: reader.u32()?,
            host: reader.text("host")?.into(),
            socket: reader.text("socket")?.into(),
            shards: Vec::new(),
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
        Ok(welcome)
    }
}
