//! The command line.

use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use bytesize::ByteSize;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, value_parser};
use farside::{DeviceChoice, Rdma, Require, TransportChoice};

use crate::compare::spec::Spec;
use crate::report::output::Files;

/// Load generator for Farside, with YCSB's workloads.
///
/// Without a command: starts a store in this process, loads it, runs workload A for ten seconds, and prints one table.
#[derive(Debug, Parser)]
#[command(name = "farside-bench", version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Flags of the default job.
    #[command(flatten)]
    pub options: Options,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Put the workload's records into the store.
    Load(Options),
    /// Do the workload's operations on a loaded store.
    Run(Options),
    /// Measure several stores with the same work, in turns, and print one table.
    ///
    /// Each is started for this, empty, on a free port or socket, with one server thread where that can be set, and ended
    /// again. For instance: compare farside:shm redis:unix memcached:unix papaya -w c
    Compare(Compare),
    /// Make one report of those that the processes of a shared run wrote with --json.
    Merge(Merge),
    /// Run a program until it ends, or the standard input does.
    #[command(hide = true)]
    Guard(Guard),
    /// Run a Farside server until the standard input ends.
    #[command(hide = true)]
    Serve(Serve),
}

/// Flags of a load and a run.
#[derive(Debug, Args)]
pub struct Options {
    /// What to do to the store.
    #[command(flatten)]
    pub workload: WorkloadFlags,
    /// How to drive it.
    #[command(flatten)]
    pub driving: DrivingFlags,
    /// Which store.
    #[command(flatten)]
    pub store: StoreFlags,
    /// This host's side of RDMA.
    #[command(flatten)]
    pub rdma: RdmaFlags,
    /// Where reports go.
    #[command(flatten)]
    pub output: OutputFlags,
}

/// What to do to the store.
#[derive(Debug, Args)]
#[command(next_help_heading = "Workload")]
pub struct WorkloadFlags {
    /// YCSB's workload: a, b, c, d, e or f [default: a, if there is no -P]. Scans of e pass records in the store's own
    /// order, which is that of the keys' hashes: they are no scans of key ranges.
    #[arg(short = 'w', long = "workload", value_name = "NAME")]
    pub name: Option<String>,
    /// Workload file with YCSB's properties; a later one overrides an earlier.
    #[arg(short = 'P', value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// One of YCSB's properties; overrides those in files.
    #[arg(short = 'p', value_name = "NAME=VALUE")]
    pub properties: Vec<String>,
    /// Check every byte of every value read, and that none is older than what its thread has seen.
    #[arg(long)]
    pub verify: bool,
    /// Seed of all random streams: the same seed asks for the same records in the same order.
    #[arg(long, default_value_t = 42, value_name = "N")]
    pub seed: u64,
}

/// How to drive the store.
#[derive(Debug, Args)]
#[command(next_help_heading = "Driving")]
pub struct DrivingFlags {
    /// Threads in this process [default: 1; without a command, one per core up to 4].
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1024))]
    pub threads: Option<u64>,
    /// Operations a second to aim at, all threads together: an open loop, which also reports response times from the
    /// intended start. Without it, each thread starts an operation when its last has ended.
    #[arg(long, value_name = "OPS/S", value_parser = value_parser!(u64).range(1..))]
    pub target: Option<u64>,
    /// How long to run, such as 10s or 2m; replaces the operation count of a named workload.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// How long to run before measuring.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    pub warmup: Duration,
    /// Operations in one request, by the store's batched calls; latencies are then those of whole batches.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u64).range(1..=4096))]
    pub batch: u64,
    /// Which of the processes that share the run this one is, from 0.
    #[arg(long, value_name = "I", default_value_t = 0, requires = "client_count")]
    pub client_index: u64,
    /// How many processes share the run: each does its part of all counts and rates.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u64).range(1..=1024))]
    pub client_count: u64,
}

/// Which store, and the way to it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Store")]
pub struct StoreFlags {
    /// The store.
    #[arg(long, value_enum, default_value_t = Db::Farside)]
    pub db: Db,
    /// Server: HOST, HOST:PORT or unix:/PATH [default: 127.0.0.1 with the store's usual port; of farside, without a
    /// command, one in this process].
    #[arg(short, long, env = "FARSIDE_SERVER", value_name = "ADDRESS")]
    pub server: Option<String>,
    /// Transport; a named one is used or the command fails, auto takes the best that works.
    #[arg(short, long, env = "FARSIDE_TRANSPORT", value_name = "auto|shm|verbs|tcp", default_value = "auto")]
    pub transport: TransportChoice,
    /// Fail unless the transport can do this (repeatable).
    #[arg(long, value_name = "one-sided-reads|one-sided-updates")]
    pub require: Vec<Require>,
    /// File with the server's token.
    #[arg(long, env = "FARSIDE_TOKEN_FILE", value_name = "PATH")]
    pub token_file: Option<PathBuf>,
    /// Longest time for each operation.
    #[arg(long, env = "FARSIDE_DEADLINE", value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub deadline: Duration,
    /// Most memory of each thread for hints, 64 to 128 bytes a key; a key with a hint is read in one round trip
    /// [default: the client library's].
    #[arg(long, value_name = "SIZE")]
    pub hint_memory: Option<ByteSize>,
    /// Memory of a server in this process [default: what the workload needs].
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<ByteSize>,
}

/// This host's side of RDMA; where a flag has a letter it is perftest's.
#[derive(Args, Debug)]
#[command(next_help_heading = "RDMA")]
pub struct RdmaFlags {
    /// This host's RDMA device by its IP address [default: the one that leads to the server].
    #[arg(long, value_name = "ADDRESS", conflicts_with = "device")]
    pub rdma: Option<IpAddr>,
    /// This host's RDMA device by its name: stands for its best address, which `farside doctor` shows.
    #[arg(short, long, value_name = "NAME")]
    pub device: Option<String>,
    /// Port of the device [default: the first that is active and has an IP address].
    #[arg(short = 'i', long, value_name = "N", requires = "device", value_parser = value_parser!(u8).range(1..))]
    pub device_port: Option<u8>,
    /// Index of the port's GID, which must be an IP address [default: the best].
    #[arg(short = 'x', long, value_name = "N", requires = "device")]
    pub gid_index: Option<u32>,
    /// Type of service of the packets: DSCP and ECN bits [default: the system's].
    #[arg(short = 'T', long, value_name = "0-255")]
    pub tos: Option<u8>,
    /// A lost packet is sent again after 4.096 us x 2^N, up to four times that [default: 14].
    #[arg(short = 'u', long, value_name = "N", value_parser = value_parser!(u8).range(1..=31))]
    pub ack_timeout: Option<u8>,
    /// How often a lost packet is sent again [default: 6].
    #[arg(long, value_name = "0-6", value_parser = value_parser!(u8).range(..=6))]
    pub retry_count: Option<u8>,
}

impl RdmaFlags {
    /// What the flags come to.
    #[must_use]
    pub fn settings(&self) -> Rdma {
        let default = Rdma::default();
        Rdma {
            device: match (self.rdma, &self.device) {
                (Some(address), _) => Some(DeviceChoice::Address(address)),
                (None, Some(name)) => Some(DeviceChoice::Named {
                    name: name.clone(),
                    port: self.device_port,
                    gid_index: self.gid_index,
                }),
                (None, None) => None,
            },
            type_of_service: self.tos,
            ack_timeout: self.ack_timeout.unwrap_or(default.ack_timeout),
            retry_count: self.retry_count.unwrap_or(default.retry_count),
        }
    }
}

/// Where reports go.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputFlags {
    /// Forms of the report.
    #[command(flatten)]
    pub files: Files,
    /// Write an HDR interval log, one histogram for each second and kind of operation.
    #[arg(long, value_name = "FILE")]
    pub hdr: Option<PathBuf>,
}

/// The stores that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Db {
    /// Farside.
    Farside,
    /// A concurrent map in this process: the reference, without any fabric.
    Papaya,
    /// Redis or Valkey.
    Redis,
    /// memcached.
    Memcached,
    /// LMDB in this process; in builds with the feature lmdb.
    Lmdb,
}

impl fmt::Display for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Farside => "farside",
            Self::Papaya => "papaya",
            Self::Redis => "redis",
            Self::Memcached => "memcached",
            Self::Lmdb => "lmdb",
        })
    }
}

/// Flags of `merge`.
#[derive(Debug, Args)]
pub struct Merge {
    /// Reports in JSON, one of each process.
    #[arg(required = true, value_name = "FILE")]
    pub reports: Vec<PathBuf>,
    /// Forms of the report.
    #[command(flatten)]
    pub files: Files,
}

/// Flags of `compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// What to compare: farside:shm, farside:tcp, redis:unix, redis:tcp, valkey:unix, valkey:tcp, memcached:unix,
    /// memcached:tcp, papaya, lmdb. Ratios are to the first.
    #[arg(required = true, value_name = "STORE")]
    pub targets: Vec<Spec>,
    /// What to do to the stores.
    #[command(flatten)]
    pub workload: WorkloadFlags,
    /// How to drive them.
    #[command(flatten)]
    pub driving: DrivingFlags,
    /// How often they take turns, which share --duration [a workload that inserts: once].
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(1..=100), help_heading = "Driving")]
    pub rounds: u32,
    /// Leave out stores that are not installed, and say so.
    #[arg(long)]
    pub skip_missing: bool,
    /// Longest time for each operation.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub deadline: Duration,
    /// Most memory of each thread for Farside's hints [default: the client library's].
    #[arg(long, value_name = "SIZE")]
    pub hint_memory: Option<ByteSize>,
    /// Write the report, histograms included, as JSON; - for standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Arguments of `guard`.
#[derive(Debug, Args)]
pub struct Guard {
    /// The program and its arguments.
    #[arg(required = true, last = true)]
    pub program: Vec<OsString>,
}

/// Flags of `serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Its address.
    #[arg(long)]
    pub listen: SocketAddr,
    /// Its Unix socket.
    #[arg(long)]
    pub socket: PathBuf,
    /// Bytes of memory.
    #[arg(long)]
    pub memory: u64,
    /// Keys for which it has room.
    #[arg(long)]
    pub max_keys: u64,
}

/// The longest time that can be asked for: what is added to a clock must not leave its range.
pub const LONGEST: Duration = Duration::from_secs(100 * 31_557_600);

fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if duration <= LONGEST => Ok(duration),
        Ok(_) => Err("it is longer than 100 years".into()),
        Err(error) => Err(format!("{error}; write it like 500ms, 10s or 2m")),
    }
}

impl Cli {
    /// The command line of this process. Ends it on wrong usage, and on `--help`.
    #[must_use]
    pub fn of_this_process() -> Self {
        let matches = without_empty_variables(Self::command()).get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

/// A variable that is set to nothing counts as unset.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|argument| {
        let value = argument.get_env().and_then(std::env::var_os);
        if value.is_some_and(|value| value.is_empty()) { argument.env(None::<&str>) } else { argument }
    });
    command.mut_subcommands(without_empty_variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn wrong_usage_exits_with_2() {
        for wrong in [
            &["farside-bench", "--thread", "2"][..],
            &["farside-bench", "run", "--threads", "0"],
            &["farside-bench", "run", "--target", "0"],
            &["farside-bench", "run", "--duration", "ten"],
            &["farside-bench", "run", "--duration", "400000000000years"],
            &["farside-bench", "run", "--warmup", "101years"],
            &["farside-bench", "run", "--deadline", "18446744073709551615s"],
            &["farside-bench", "run", "--client-index", "1"],
            &["farside-bench", "run", "-x", "3"],
            &["farside-bench", "run", "-d", "mlx5_0", "--rdma", "10.0.0.1"],
            &["farside-bench", "--seed", "1", "run"],
            &["farside-bench", "merge"],
            &["farside-bench", "compare"],
            &["farside-bench", "compare", "redis"],
            &["farside-bench", "compare", "papaya", "--rounds", "0"],
        ] {
            assert_eq!(Cli::try_parse_from(wrong).expect_err("wrong usage").exit_code(), 2, "{wrong:?}");
        }
    }
}
