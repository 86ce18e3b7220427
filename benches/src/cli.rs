//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

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
    /// Make one report of those that the processes of a shared run wrote with --json.
    Merge(Merge),
}

/// Flags of a load and a run.
#[derive(Debug, Args)]
pub struct Options {
    /// YCSB's workload: a, b, c, d, e or f [default: a, if there is no -P].
    #[arg(long, short, value_name = "NAME", help_heading = "Workload")]
    pub workload: Option<String>,
    /// Workload file with YCSB's properties; a later one overrides an earlier.
    #[arg(short = 'P', value_name = "FILE", help_heading = "Workload")]
    pub files: Vec<PathBuf>,
    /// One of YCSB's properties; overrides those in files.
    #[arg(short = 'p', value_name = "NAME=VALUE", help_heading = "Workload")]
    pub properties: Vec<String>,
    /// Check every byte of every value read, and that none is older than what its thread has seen.
    #[arg(long, help_heading = "Workload")]
    pub verify: bool,
    /// Seed of all random streams: the same seed asks for the same records in the same order.
    #[arg(long, default_value_t = 42, value_name = "N", help_heading = "Workload")]
    pub seed: u64,

    /// Threads in this process [default: 1; without a command, one per core up to 4].
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024), help_heading = "Driving")]
    pub threads: Option<u64>,
    /// Operations a second to aim at, all threads together: an open loop, which also reports response times from the
    /// intended start. Without it, each thread starts an operation when its last has ended.
    #[arg(long, value_name = "OPS/S", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Driving")]
    pub target: Option<u64>,
    /// How long to run, such as 10s or 2m; replaces the operation count of a named workload.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, help_heading = "Driving")]
    pub duration: Option<Duration>,
    /// How long to run before measuring.
    #[arg(long, default_value = "0s", value_name = "TIME", value_parser = humantime::parse_duration, help_heading = "Driving")]
    pub warmup: Duration,
    /// Operations in one request, by the store's batched calls; latencies are then those of whole batches.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096), help_heading = "Driving")]
    pub batch: u64,
    /// Which of the processes that share the run this one is, from 0.
    #[arg(long, default_value_t = 0, value_name = "I", requires = "client_count", help_heading = "Driving")]
    pub client_index: u64,
    /// How many processes share the run: each does its part of all counts and rates.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024), help_heading = "Driving")]
    pub client_count: u64,

    /// The store.
    #[arg(long, value_enum, default_value_t = Db::Papaya, help_heading = "Store")]
    pub db: Db,

    /// Write an HDR interval log, one histogram for each second and kind of operation.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub hdr: Option<PathBuf>,
    /// Forms of the report.
    #[command(flatten)]
    pub output: Files,
}

/// The stores that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Db {
    /// A concurrent map in this process: the reference, without any fabric.
    Papaya,
}

/// Flags of `merge`.
#[derive(Debug, Args)]
pub struct Merge {
    /// Reports in JSON, one of each process.
    #[arg(required = true, value_name = "FILE")]
    pub reports: Vec<PathBuf>,
    /// Forms of the report.
    #[command(flatten)]
    pub output: Files,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

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
            &["farside-bench", "run", "--client-index", "1"],
            &["farside-bench", "--seed", "1", "run"],
            &["farside-bench", "merge"],
            &["farside-bench", "compare"],
        ] {
            assert_eq!(Cli::try_parse_from(wrong).expect_err("wrong usage").exit_code(), 2, "{wrong:?}");
        }
    }
}
