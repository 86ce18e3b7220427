//! What Farside relies on of a verbs device, tried on this host's own: one is connected to itself, or one to another.

mod ends;
mod promises;

use crate::{AtomicCapability, best_gid};
use ends::{End, Keys, Server};
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// What went wrong, in words.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A promise, and whether the device keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// What is promised.
    pub promise: &'static str,
    /// How long it took to try.
    pub took: Duration,
    /// What was seen: if it holds, or of how it is broken.
    pub result: Result<String, String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verdict, detail) = match &self.result {
            Ok(detail) => ("holds ", detail),
            Err(detail) => ("BROKEN", detail),
        };
        write!(f, "{:<31} {:>6} ms  {verdict}  {detail}", self.promise, self.took.as_millis())
    }
}

type Promise = fn(&Litmus) -> ends::Result<String>;

const PROMISES: [(&str, Promise); 19] = [
    ("settings are bounded", Litmus::settings),
    ("WRITE, then READ", Litmus::write_then_read),
    ("inline WRITE", Litmus::write_inline),
    ("SEND into posted receives", Litmus::send),
    ("compare-and-swap", Litmus::compare_swap),
    ("a list runs in order", Litmus::ordered_list),
    ("[CAS, READ] of two connections", Litmus::contention),
    ("[WRITE, CAS] as another sees it", Litmus::publication),
    ("places are counted", Litmus::credits),
    ("completion events", Litmus::events),
    ("a connection can be refused", Litmus::rejection),
    ("rights are enforced", Litmus::rights),
    ("a window bounds WRITE", Litmus::windows),
    ("a failed queue pair flushes", Litmus::flush),
    ("the peer learns of the end", Litmus::disconnect),
    ("a fence stops work in flight", Litmus::fence),
    ("work for an end that is gone", Litmus::gone),
    ("deregistered memory", Litmus::deregistered),
    ("costs in READs of 8 B", Litmus::costs),
];

/// A connection on which the promises are tried.
pub struct Litmus {
    server: Server,
    client: End,
    // The server's end of the connection.
    end: End,
    keys: Keys,
    atomics: bool,
}

impl Litmus {
    /// Connects the device of the address `client` to that of `server`, which may be the same.
    pub fn new(client: IpAddr, server: IpAddr) -> Result<Self, Error> {
        let server = Server::new(client, server)?;
        let atomics = server.listener.context()?.attributes()?.atomics != AtomicCapability::None;
        let (client, end, keys) = server.connection()?;
        Ok(Self { server, client, end, keys, atomics })
    }

    /// The server's device, in a line.
    pub fn device(&self) -> Result<String, Error> {
        let (context, port) = (self.server.listener.context()?, self.server.listener.port());
        let attributes = context.port_attributes(port)?;
        let gids = context.gids(port)?;
        Ok(format!(
            "{} ({:?}, {:?}, atomics {:?}), port {}, MTU {}, longest message {} B, GID {}",
            context.name(),
            context.transport(),
            attributes.link_layer,
            context.attributes()?.atomics,
            attributes.state,
            attributes.mtu,
            attributes.message_max,
            best_gid(attributes.link_layer, &gids)
                .map_or("none".into(), |gid| format!("{} {}", gid.index, gid.gid)),
        ))
    }

    /// Tries each promise, and tells of each.
    pub fn outcomes(&self) -> impl Iterator<Item = Outcome> {
        PROMISES.iter().map(|(promise, tried)| {
            let began = Instant::now();
            let result = tried(self).map_err(|error| error.to_string());
            Outcome { promise, took: began.elapsed(), result }
        })
    }
}

impl fmt::Debug for Litmus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Litmus").field("atomics", &self.atomics).finish_non_exhaustive()
    }
}
