//! Starting and ending a server.

use crate::accept::{self, Doors};
use crate::budget::Budget;
use crate::config::{Config, ConfigError};
use crate::fault::Faults;
use crate::listen::{self, ListenError};
use crate::metrics;
use crate::region_dir::{self, Found, RegionError};
use crate::session::Sessions;
use crate::shard::Shard;
use crate::state::{Connections, State, Stop};
use crate::stats::{self, Counters, Threads};
use crate::sweep::{self, SweepCounts, Sweeper};
use crate::token::Tokens;
use crate::worker::Worker;
use crossbeam_epoch::Collector;
use farside_protocol::wire::{Rights, Statistic};
use farside_protocol::{Authority, Superblock, TableSeed};
use farside_transport::AtomicScope;
use farside_transport::host::boot_id;
use farside_transport::region::CreateError;
use farside_transport::verbs::{Device, Listener, SetupError};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// A server that is not started yet.
#[derive(Debug)]
pub struct Server;

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration makes no sense: nothing was taken from the system.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It cannot listen where it was told to.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// There is not enough memory.
    #[error(transparent)]
    Memory(#[from] CreateError),
    /// The table cannot be in the folder it is to be in.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// RDMA was asked for and cannot be had.
    #[error("no RDMA: {0}")]
    Rdma(#[from] SetupError),
    /// The system refused something else.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

impl Server {
    /// Starts a server on threads of its own, with an empty table, or the one in its [region
    /// folder](Config::region_dir). Returns when it can be reached.
    ///
    /// Nothing about the calling thread matters, which may belong to an async runtime or not.
    #[expect(clippy::needless_pass_by_value, reason = "written where it is called: `Config { .. }`")]
    pub fn start(config: Config) -> Result<Running, StartError> {
        config.check()?;
        let found = config.region_dir.as_deref().map(region_dir::find).transpose()?.flatten();
        let (shards, geometry) = match &found {
            Some(found) => {
                found.check(&config).map(|()| (found.superblock.shards, found.superblock.geometry))?
            }
            None => config.measures()?,
        };
        let tokens = config.token_file.as_deref().map(Tokens::load).transpose().map_err(ConfigError::from)?;
        let tcp = listen::tcp(config.listen)?;
        let address =
            tcp.local_addr().map_err(|source| StartError::System { what: "find the port", source })?;
        let scraped = config.metrics.map(listen::tcp).transpose()?;
        let metrics_address = scraped.as_ref().and_then(|listener| listener.local_addr().ok());
        let unix = listen::unix(&config, address.port())?;
        let socket = unix.as_ref().map(|(_, file)| file.path().to_owned());
        let device = rdma_device(&config, address.port())?;
        let authority = match device.as_ref().map(Device::atomics) {
            // Its compare-and-swaps are not atomic to the processor's: all must be its own.
            Some(AtomicScope::Device) => Authority::Nic,
            _ => Authority::Coherent,
        };
        let quarantine_ms = config.quarantine.as_millis() as u64;
        let superblock = match &found {
            Some(Found { superblock: former, .. }) => {
                Superblock { quarantine_ms, authority, generation: former.generation + 1, ..*former }
            }
            None => Superblock {
                geometry,
                seed: TableSeed(rand::random()),
                quarantine_ms,
                authority,
                generation: 1,
                shard: 0,
                shards,
                table_id: rand::random(),
            },
        };
        let superblocks: Vec<_> = (0..shards).map(|shard| Superblock { shard, ..superblock }).collect();
        let (shards, recovered, region_dir) = match (&config.region_dir, found) {
            (_, Some(found)) => found.recover(&superblocks)?.into_parts(),
            (Some(path), None) => region_dir::create(path, &superblocks)?.into_parts(),
            (None, None) => {
                let create = |superblock| Shard::create(superblock, config.huge_pages).map(Arc::new);
                (superblocks.into_iter().map(create).collect::<Result<Box<[_]>, _>>()?, None, None)
            }
        };
        let memory = u64::from(superblock.shards) * geometry.region_len();
        let rdma = device.map(|device| {
            let name = device.name().to_owned();
            let regions =
                shards.iter().map(|shard: &Arc<Shard>| (shard.region.clone(), shard.superblock.geometry));
            device.listen(regions).map(|listener| (listener, name))
        });
        let (rdma, device) = rdma.transpose()?.unzip();
        let bounds_windows = rdma.as_ref().map(Listener::bounds_windows).transpose()?.flatten();
        let (sweeper, orders) = Sweeper::new();
        let state = Arc::new(State {
            instance: rand::random(),
            // Without one no client takes this host for its own, and all use TCP.
            host: boot_id().unwrap_or_default(),
            socket,
            rdma,
            tokens,
            memory_rights: if config.untrusted_writers { Rights::Read } else { Rights::ReadWrite },
            lease: config.session_lease,
            shards,
            region_dir,
            recovered,
            collector: Collector::new(),
            sessions: Sessions::default(),
            connections: Connections::new(config.threads(), config.max_connections),
            budget: Budget::beside(memory),
            sweeper,
            sweeps: SweepCounts::default(),
            counters: (0..config.threads()).map(|_| Counters::default()).collect(),
            faults: Faults::default(),
            threads: Threads::default(),
            started: Instant::now(),
            stop: Stop::default(),
        });
        tell(&state, &config, address, device.as_deref());
        tell_windows(bounds_windows);
        if let Some(address) = metrics_address {
            tracing::info!(%address, "serving /metrics and /healthz");
        }
        let mut running = Running { state, address, metrics_address, threads: Vec::new() };
        running.spawn(Doors { tcp, unix }, scraped, orders, config.expiry_grace).map_err(|source| {
            // `running` is dropped, which ends the threads that did start.
            StartError::System { what: "start the server's threads", source }
        })?;
        Ok(running)
    }
}

/// The RDMA device that `config` asks for; `port` is the one TCP listens on.
fn rdma_device(config: &Config, port: u16) -> Result<Option<Device>, SetupError> {
    let Some(mut address) = config.rdma else { return Ok(None) };
    let mut device = Device::at(address)?;
    if address.port() == 0 {
        // The ports of an iWARP device are TCP's, where this one is taken: it has the next.
        address.set_port(if device.is_iwarp() { port.checked_add(1).unwrap_or(0) } else { port });
        device = Device::at(address)?;
    }
    Ok(Some(match config {
        Config { untrusted_writers: true, .. } => device.for_reading(),
        Config { memory_windows: true, .. } => device.with_windows()?,
        _ => device,
    }))
}

/// Logs what was started, a fact a line.
fn tell(state: &State, config: &Config, address: SocketAddr, device: Option<&str>) {
    let first = &state.shards[0];
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "farside-server");
    tracing::info!(%address, "listening on TCP");
    match &state.socket {
        Some(socket) => tracing::info!(socket = %socket.display(), "listening for clients on this host"),
        None => tracing::info!("no Unix socket: clients on this host use TCP"),
    }
    let authority = first.superblock.authority;
    let shm = match authority {
        _ if state.socket.is_none() => "",
        Authority::Coherent if !config.untrusted_writers => "shm (one-sided), ",
        _ => "shm (reads one-sided, updates two-sided), ",
    };
    let verbs = match (&state.rdma, device) {
        (Some(rdma), Some(device)) => {
            tracing::info!(address = %rdma.address(), device, "listening for queue pairs");
            if authority == Authority::Nic {
                "verbs (one-sided), "
            } else {
                "verbs (reads one-sided, updates two-sided over SEND/RECV), "
            }
        }
        _ => "",
    };
    let transports = format!("{shm}{verbs}tcp (two-sided)");
    tracing::info!(transports, authority = authority.name(), "transports");
    let slots: u64 = state.shards.iter().map(|shard| u64::from(shard.superblock.geometry.slots())).sum();
    let bytes = first.superblock.geometry.region_len() * state.shards.len() as u64;
    tracing::info!(bytes, shards = state.shards.len(), slots, "memory");
    tracing::info!(pages = %first.region.pages(), "pages");
    match &state.region_dir {
        Some(lock) => {
            let generation = first.superblock.generation;
            tracing::info!(folder = %lock.path.display(), generation, "the table outlives this server");
        }
        None => tracing::info!("the table goes with this server"),
    }
    match (&state.tokens, config.insecure, address.ip().is_loopback()) {
        (Some(_), ..) => tracing::info!("clients need a token"),
        (None, true, false) => tracing::warn!("INSECURE: anyone who reaches this address can read and write"),
        (None, ..) => tracing::info!("clients need no token; only this host can connect"),
    }
}

/// Logs how memory windows bound what clients WRITE, if they do.
fn tell_windows(bounded: Option<bool>) {
    match bounded {
        None => {}
        Some(true) => {
            tracing::info!("memory windows: clients WRITE over RDMA only into blocks that they leased");
        }
        Some(false) => tracing::warn!(
            "memory windows: this device does not keep to their bounds (soft-RoCE never does): a client WRITEs over RDMA \
             only while it leases a block, and then into all of its shard's heap"
        ),
    }
}

/// A running server. Dropping it ends it.
pub struct Running {
    state: Arc<State>,
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
    threads: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("address", &self.address).field("socket", &self.socket()).finish()
    }
}

impl Running {
    /// Where TCP connections are accepted, with the port that was chosen if the configuration said 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where `/metrics` and `/healthz` are served, with the port that was chosen if the configuration said 0.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// The Unix socket for clients on this host.
    pub fn socket(&self) -> Option<&Path> {
        self.state.socket.as_deref()
    }

    /// Facts and figures, the same as clients get. Walks the index to count the keys, at the speed of memory.
    pub fn stats(&self) -> Vec<Statistic> {
        stats::collect(&self.state)
    }

    /// Ends the server: accepts nothing more, answers what was asked, closes all connections, removes the socket.
    /// Blocks until that is done, for less than five seconds.
    pub fn shutdown(mut self) {
        self.end();
    }

    /// Completes when the server has come to its end by itself: one of its threads has panicked, which is a defect.
    /// Clients are cut off and its doors are closed; what is left is to [shut it down](Running::shutdown).
    pub async fn failed(&self) {
        let stopped = self.state.stop.notify.notified();
        if !self.state.stop.has_begun() {
            stopped.await;
        }
    }

    #[cfg(test)]
    pub(crate) fn state(&self) -> Arc<State> {
        self.state.clone()
    }

    fn spawn(
        &mut self,
        doors: Doors,
        scraped: Option<TcpListener>,
        orders: sweep::Orders,
        grace: Duration,
    ) -> io::Result<()> {
        self.threads.push(sweep::spawn(self.state.clone(), orders, grace)?);
        let mut workers = Vec::new();
        for index in 0..self.state.counters.len() {
            let (sender, arrivals) = mpsc::unbounded_channel();
            self.threads.push(Worker::spawn(self.state.clone(), index, arrivals)?);
            workers.push(sender);
        }
        if let Some(listener) = scraped {
            self.threads.push(metrics::spawn(self.state.clone(), listener)?);
        }
        self.threads.push(accept::spawn(self.state.clone(), doors, workers)?);
        Ok(())
    }

    fn end(&mut self) {
        self.state.stop.begin();
        self.state.sweeper.stop();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}
