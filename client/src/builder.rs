//! How a client is told what to connect to, and how.

use crate::client::Client;
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::settings::Settings;
use crate::shared::Shared;
use crate::token;
use farside_transport::Denied;
use farside_transport::capabilities::DenyError;
use farside_transport::channel::{IoThread, block_on};
use farside_transport::selection::{Require, TransportChoice};
use farside_transport::verbs::Rdma;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Settings of a [`Client`], each with a default.
///
/// ```
/// use farside::{Client, Require, TransportChoice};
/// use std::time::Duration;
/// # let server = farside::embedded()?;
/// # let address = server.address();
/// let client = Client::builder()
///     .address(&address)
///     .transport(TransportChoice::Shm)
///     .require(Require::OneSidedReads)
///     .deadline(Duration::from_millis(200))
///     .hint_memory(64 << 20)
///     .connect_blocking()?;
/// assert_eq!(client.active().transport.name(), "shm");
/// # Ok::<(), farside::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    address: String,
    transport: TransportChoice,
    token: Token,
    deadline: Duration,
    hint_memory: usize,
    read_only: bool,
    requirements: Vec<Require>,
    name: String,
    denied: String,
    rdma: Rdma,
}

#[derive(Clone)]
enum Token {
    None,
    Given(Vec<u8>),
    File(PathBuf),
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Given(_) => f.write_str("given"),
            Self::File(path) => path.fmt(f),
        }
    }
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            address: crate::DEFAULT_ADDRESS.into(),
            transport: TransportChoice::Auto,
            token: Token::None,
            deadline: Duration::from_secs(5),
            hint_memory: 64 << 20,
            read_only: false,
            requirements: Vec::new(),
            name: String::new(),
            denied: String::new(),
            rdma: Rdma::default(),
        }
    }

    /// The server: `HOST`, `HOST:PORT` or `unix:/PATH`. Default: `127.0.0.1:7471`.
    pub fn address(mut self, address: &str) -> Self {
        self.address = address.into();
        self
    }

    /// The transport. Default: [`TransportChoice::Auto`].
    pub fn transport(mut self, transport: TransportChoice) -> Self {
        self.transport = transport;
        self
    }

    /// The token that the server asks for. Default: none.
    pub fn token(mut self, token: impl Into<Vec<u8>>) -> Self {
        self.token = Token::Given(token.into());
        self
    }

    /// The file with the token; its first line that is neither empty nor a comment (`#`) counts. The server's own
    /// token file will do.
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.token = Token::File(path.into());
        self
    }

    /// The longest time for each operation, and for each attempt to connect, which never takes more than 10 s.
    /// Default: 5 s.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Most bytes of memory for hints: of each session, and of the asynchronous client together. It is used as keys
    /// come, 64 to 128 bytes for each. A key with a hint is found in one round trip. Default: 64 MiB.
    pub fn hint_memory(mut self, bytes: usize) -> Self {
        self.hint_memory = bytes;
        self
    }

    /// Whether the client can only read: its memory is mapped read-only, and updates are refused. Default: no.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Refuses to connect unless the connection can do this.
    pub fn require(mut self, requirement: Require) -> Self {
        self.requirements.push(requirement);
        self
    }

    /// What the client calls itself in the server's log. Default: the name of the program.
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// This host's RDMA device, and how queue pairs are made, where the transport is verbs. Default: the device by
    /// which the system reaches the server's.
    pub fn rdma(mut self, rdma: Rdma) -> Self {
        self.rdma = rdma;
        self
    }

    /// Takes capabilities away that the transport has, to test how an application does without: a list such as
    /// `atomic,order` of `atomic`, `write`, `read` and `order`. The variable `FARSIDE_DENY` does the same for a
    /// whole process.
    pub fn deny(mut self, capabilities: &str) -> Self {
        self.denied = capabilities.into();
        self
    }

    /// Connects.
    pub async fn connect(self) -> Result<Client> {
        let settings = self.settings()?;
        let thread = IoThread::start()
            .map_err(|error| Error::Configuration(format!("cannot start the I/O thread: {error}").into()))?;
        let thread = Arc::new(thread);
        let connection = Connection::open(&settings, &thread).await?;
        Ok(Client::of(Shared::new(settings, connection, thread)))
    }

    /// [`Builder::connect`] for callers without an executor.
    pub fn connect_blocking(self) -> Result<Client> {
        block_on(self.connect())
    }

    fn settings(self) -> Result<Settings> {
        let configuration = |error: &dyn std::error::Error| Error::Configuration(error.to_string().into());
        if self.deadline.is_zero() {
            return Err(Error::Configuration("a deadline of zero leaves no time for anything".into()));
        }
        self.rdma.check().map_err(|error| configuration(&error))?;
        Ok(Settings {
            address: self.address.parse().map_err(|error| configuration(&error))?,
            transport: self.transport,
            token: match self.token {
                Token::None => Vec::new(),
                Token::Given(token) => token,
                Token::File(path) => token::read(&path)?,
            },
            deadline: self.deadline,
            hint_memory: self.hint_memory,
            read_only: self.read_only,
            requirements: self.requirements,
            name: if self.name.is_empty() { program() } else { self.name },
            denied: denied(&self.denied).map_err(|error| configuration(&error))?,
            rdma: self.rdma,
        })
    }
}

fn denied(list: &str) -> Result<Denied, DenyError> {
    let (here, process) = (Denied::parse(list)?, Denied::from_env()?);
    Ok(Denied {
        atomic: here.atomic || process.atomic,
        write: here.write || process.write,
        read: here.read || process.read,
        order: here.order || process.order,
    })
}

fn program() -> String {
    let path = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn nonsense_is_found_before_anything_is_connected() {
        for (builder, says) in [
            (Builder::new().address("host:port"), "port"),
            (Builder::new().address(""), "empty"),
            (Builder::new().deadline(Duration::ZERO), "deadline of zero"),
            (Builder::new().deny("atomics"), "`atomics`"),
            (Builder::new().rdma(Rdma { retry_count: 7, ..Rdma::default() }), "retry count of 7"),
            (Builder::new().transport(TransportChoice::Fabric), "no transport `fabric`"),
            (Builder::new().token_file("/nonexistent/token"), "/nonexistent/token"),
        ] {
            let error = builder.connect_blocking().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn a_token_is_not_printed() {
        let builder = Builder::new().token("secret");
        assert!(!format!("{builder:?}").contains("secret"));
    }
}
