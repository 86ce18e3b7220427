//! From an address to mapped shards: connect, receive the descriptors, map, and check that they are what the
//! server said they are.

use super::Shm;
use crate::capabilities::Denied;
use crate::channel::{Channel, ConnectError, IoThread, Lifeline, Memory, Options};
use crate::region::{Access, AccessError, MapError, Populate, Region};
use farside_protocol::superblock::{LEN, SuperblockError};
use farside_protocol::wire::{Rights, Wants, Welcome};
use farside_protocol::{ErrorKind, Superblock};
use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use tokio::sync::oneshot;

/// A session over shared memory.
#[derive(Clone, Debug)]
pub struct Attached {
    /// The shards.
    pub fabric: Shm,
    /// The way to the server's CPU. If it breaks, the fabric loses every chain: attach anew.
    pub channel: Channel,
}

/// Why a server's memory cannot be shared.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// No session.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Another server than expected answers at the socket.
    #[error("the socket at {socket} belongs to another server process than the address asked for; retry")]
    OtherServer {
        /// The socket.
        socket: String,
    },
    /// A shard's memory cannot be mapped.
    #[error("cannot map shard {shard}: {source}")]
    Map {
        /// The shard.
        shard: usize,
        /// Why.
        source: MapError,
    },
    /// A shard's memory does not begin as it should.
    #[error("shard {shard}: {source}")]
    Superblock {
        /// The shard.
        shard: usize,
        /// What is wrong.
        source: SuperblockError,
    },
    /// A shard's memory is another than the server described.
    #[error("shard {shard}'s memory is not the shard that the server described; retry")]
    Mismatch {
        /// The shard.
        shard: usize,
    },
}

impl AttachError {
    /// The kind a caller can act on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Connect(error) => error.kind(),
            Self::OtherServer { .. } | Self::Mismatch { .. } => ErrorKind::Unavailable,
            Self::Map { .. } | Self::Superblock { .. } => ErrorKind::Incompatible,
        }
    }
}

/// Opens a session at the Unix socket that `options` name and maps the server's shards with the rights granted.
/// `instance`: the server process that it must be, by its [`Welcome::instance`] on another connection.
pub async fn attach(
    thread: &Arc<IoThread>,
    options: Options,
    instance: Option<u128>,
    denied: Denied,
    populate: Populate,
) -> Result<Attached, AttachError> {
    let socket = options.address.to_string();
    let (channel, memory) = Channel::connect(thread, Options { wants: Wants::Memory, ..options }).await?;
    let welcome = channel.welcome();
    if instance.is_some_and(|instance| instance != welcome.instance) {
        return Err(AttachError::OtherServer { socket });
    }
    let Memory { files, lifeline, ended } = memory.expect("a session that asked for memory has it");
    let fabric = map_shards(files, lifeline, &welcome, denied, populate)?;
    let regions = fabric.regions().iter().map(Arc::downgrade).collect();
    thread.spawn(let_go_after(ended, regions));
    Ok(Attached { fabric, channel })
}

/// Lets the memory go when the session has ended, also that of a client which is not in use and would not find out: a
/// server that starts again on the same memory waits until nobody of the former run has it.
async fn let_go_after(ended: oneshot::Receiver<Infallible>, regions: Vec<Weak<Region>>) {
    let _ = ended.await;
    for region in regions.iter().filter_map(Weak::upgrade) {
        if let Err(error) = region.let_go() {
            tracing::error!(
                "cannot let go of a server's memory: {error}; it cannot start again while this process lives"
            );
        }
    }
}

fn map_shards(
    files: Vec<OwnedFd>,
    lifeline: Lifeline,
    welcome: &Welcome,
    denied: Denied,
    populate: Populate,
) -> Result<Shm, AttachError> {
    let access = match welcome.memory_rights {
        Rights::Read => Access::Read,
        Rights::ReadWrite => Access::ReadWrite,
    };
    let session = Arc::new(lifeline);
    let mut regions = Vec::with_capacity(files.len());
    for (shard, (file, described)) in files.into_iter().zip(&welcome.shards).enumerate() {
        let region = Region::map(file, described.geometry.region_len(), access, populate)
            .map_err(|source| AttachError::Map { shard, source })?
            .keeping(Arc::clone(&session) as _);
        if superblock(&region, shard)? != *described {
            return Err(AttachError::Mismatch { shard });
        }
        regions.push(Arc::new(region));
    }
    Ok(Shm::of_session(regions, denied, session))
}

fn superblock(region: &Region, shard: usize) -> Result<Superblock, AttachError> {
    let mut page = [0; LEN.next_multiple_of(8)];
    let (read, head): (Result<(), AccessError>, _) = (region.read(0, &mut page), page.first_chunk());
    let head = match (read, head) {
        (Ok(()), Some(head)) => head,
        // Shorter than a superblock.
        _ => return Err(AttachError::Mismatch { shard }),
    };
    Superblock::decode(head).map_err(|source| AttachError::Superblock { shard, source })
}

#[cfg(test)]
mod tests;
