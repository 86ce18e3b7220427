//! Server and client in one process, in one line.

use crate::builder::Builder;
use crate::client::Client;
use crate::error::{Error, Result};
use farside_server::{Config, Running, Server};
use std::ops::Deref;

/// A server in this process and a client of it, to which this dereferences. Dropping it ends the client's session
/// and the server; clones of the client and sessions that live on find it gone.
#[derive(Debug)]
pub struct Embedded {
    // Before the server, which it takes leave of.
    client: Client,
    server: Running,
}

/// Starts a server with 64 MiB of memory on a free port of the loopback address, and connects to it over shared
/// memory: for tests, examples and caches of one process.
///
/// ```
/// let farside = farside::embedded()?;
/// let mut session = farside.session()?;
/// session.put("key", "value")?;
/// assert_eq!(session.get("key")?.as_deref(), Some(&b"value"[..]));
/// # Ok::<(), farside::Error>(())
/// ```
pub fn embedded() -> Result<Embedded> {
    Embedded::start(Config { memory: Some(64 << 20), ..Config::default() }, Client::builder())
}

impl Embedded {
    /// Starts a server as `config` says, but on a free port of its address, and connects as `client` says.
    ///
    /// ```
    /// use farside::server::Config;
    /// use farside::{Client, Embedded, TransportChoice};
    ///
    /// let config = Config { memory: Some(16 << 20), shards: Some(1), ..Config::default() };
    /// let tcp = Client::builder().transport(TransportChoice::Tcp);
    /// let farside = Embedded::start(config, tcp)?;
    /// assert_eq!(farside.active().transport.name(), "tcp");
    /// # Ok::<(), farside::Error>(())
    /// ```
    pub fn start(mut config: Config, client: Builder) -> Result<Self> {
        config.listen.set_port(0);
        let server = Server::start(config).map_err(|error| Error::Start(error.to_string().into()))?;
        let client = client.address(&server.address().to_string()).connect_blocking()?;
        Ok(Self { client, server })
    }

    /// Where other clients reach the server, in this process or another of the host.
    ///
    /// ```
    /// let farside = farside::embedded()?;
    /// let other = farside::Client::builder().address(&farside.address()).connect_blocking()?;
    /// other.session()?.ping()?;
    /// # Ok::<(), farside::Error>(())
    /// ```
    pub fn address(&self) -> String {
        self.server.address().to_string()
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }
}

impl Deref for Embedded {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}
