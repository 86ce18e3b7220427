//! The command line.

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, value_parser};
use farside::{DeviceChoice, Rdma, Require, TransportChoice, Version};
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Read and change a Farside table from the shell, and look after it.
///
/// Exit codes: 0 done; 1 failed, not found, or a condition did not hold; 2 wrong usage; 130 and 143 ended by
/// SIGINT and SIGTERM.
#[derive(Parser, Debug)]
#[command(name = "farside", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) connection: Connection,
    #[command(flatten)]
    pub(crate) rdma: RdmaFlags,
    /// Print JSON, one object a line; bytes are base64
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// How the server is reached.
#[derive(Args, Debug)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// Server: HOST, HOST:PORT or unix:/PATH
    #[arg(
        short,
        long,
        global = true,
        env = "FARSIDE_SERVER",
        value_name = "ADDRESS",
        default_value = farside::DEFAULT_ADDRESS
    )]
    pub(crate) server: String,
    /// Transport; a named one is used or the command fails, `auto` takes the best that works
    #[arg(
        short,
        long,
        global = true,
        env = "FARSIDE_TRANSPORT",
        value_name = "auto|shm|verbs|tcp",
        default_value = "auto"
    )]
    pub(crate) transport: TransportChoice,
    /// File with the server's token
    #[arg(long, global = true, env = "FARSIDE_TOKEN_FILE", value_name = "PATH")]
    pub(crate) token_file: Option<PathBuf>,
    /// Fail unless the transport can do this (repeatable)
    #[arg(long, global = true, value_name = "one-sided-reads|one-sided-updates")]
    pub(crate) require: Vec<Require>,
    /// Longest time for each operation, such as 500ms or 5s
    #[arg(
        long,
        global = true,
        env = "FARSIDE_DEADLINE",
        value_name = "TIME",
        default_value = "5s",
        value_parser = duration
    )]
    pub(crate) deadline: Duration,
}

/// This host's side of RDMA; where a flag has a letter it is perftest's.
#[derive(Args, Debug)]
#[command(next_help_heading = "RDMA")]
pub(crate) struct RdmaFlags {
    /// This host's RDMA device by its IP address [default: the one that leads to the server]
    #[arg(long, global = true, value_name = "ADDRESS")]
    pub(crate) rdma: Option<IpAddr>,
    /// This host's RDMA device by its name: stands for its best address, which `farside doctor` shows
    #[arg(short, long, global = true, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// Port of the device [default: the first that is active and has an IP address]
    #[arg(short = 'i', long, global = true, value_name = "N", value_parser = value_parser!(u8).range(1..))]
    pub(crate) device_port: Option<u8>,
    /// Index of the port's GID, which must be an IP address [default: the best]
    #[arg(short = 'x', long, global = true, value_name = "N")]
    pub(crate) gid_index: Option<u32>,
    /// Type of service of the packets: DSCP and ECN bits [default: the system's]
    #[arg(short = 'T', long, global = true, value_name = "0-255")]
    pub(crate) tos: Option<u8>,
    /// A lost packet is sent again after 4.096 us x 2^N, up to four times that [default: 14]
    #[arg(short = 'u', long, global = true, value_name = "N", value_parser = value_parser!(u8).range(1..=31))]
    pub(crate) ack_timeout: Option<u8>,
    /// How often a lost packet is sent again [default: 6]
    #[arg(long, global = true, value_name = "0-6", value_parser = value_parser!(u8).range(..=6))]
    pub(crate) retry_count: Option<u8>,
}

impl RdmaFlags {
    /// What is wrong with the flags together: clap does not see those before and after the command at once.
    fn misuse(&self) -> Option<&'static str> {
        match (self.rdma, &self.device, self.device_port.is_some() || self.gid_index.is_some()) {
            (Some(_), Some(_), _) => Some("--rdma and --device name the same thing: give one of them"),
            (_, None, true) => Some("--device-port and --gid-index are of a device: name it (--device)"),
            _ => None,
        }
    }

    /// What the flags come to.
    pub(crate) fn settings(&self) -> Rdma {
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

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Measure round trips to the server
    Ping(Ping),
    /// Print a key's value, on a terminal a counter as its number; exit 1 if there is none
    Get(Get),
    /// Store a value
    Put(Put),
    /// Delete keys; a key that is absent already is no failure
    Del(Del),
    /// Store a value only if the key still has a certain version; exit 1 if it has another
    Cas(Cas),
    /// Add to a counter and print what it comes to; an absent key counts from 0
    Incr(Incr),
    /// Print the keys of the table in the order of their hashes; what is no printable ASCII as escapes, such as \x00
    Scan(Scan),
    /// Print the server's figures
    Stats,
    /// Check what this host can do, and say what to do about the rest
    Doctor(Doctor),
}

#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Try what the table relies on of RDMA devices on the one with this address, or on each; exit 1 if one breaks it
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "asked for or not, with an address or without")]
    pub(crate) litmus: Option<Option<IpAddr>>,
}

#[derive(Args, Debug)]
pub(crate) struct Ping {
    /// Number of pings; 0: until stopped
    #[arg(short, long, default_value_t = 10)]
    pub(crate) count: u64,
    /// Time between two pings
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = duration)]
    pub(crate) interval: Duration,
}

#[derive(Args, Debug)]
#[command(disable_version_flag = true)]
pub(crate) struct Get {
    /// The key, 1 to 4096 bytes
    pub(crate) key: OsString,
    /// Write the value to this file in place of the standard output
    #[arg(short, long, value_name = "PATH")]
    pub(crate) out: Option<PathBuf>,
    /// Print the version, for `cas`, in place of the value
    #[arg(long, conflicts_with = "out")]
    pub(crate) version: bool,
}

/// Where the value of a PUT comes from.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct Source {
    /// The value; `-`: read it from the standard input
    pub(crate) value: Option<OsString>,
    /// Read the value from this file
    #[arg(short, long, value_name = "PATH")]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Put {
    /// The key, 1 to 4096 bytes
    pub(crate) key: OsString,
    #[command(flatten)]
    pub(crate) source: Source,
    /// The value expires after this time, such as 500ms, 5s or 2h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) ttl: Option<Duration>,
    /// Only if the key is absent; exit 1 if it exists
    #[arg(long)]
    pub(crate) if_absent: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Del {
    /// The keys
    #[arg(required = true)]
    pub(crate) keys: Vec<OsString>,
    /// Only if the key has this version, as `get --version` prints it; exit 1 if it has another
    #[arg(long, value_name = "VERSION", value_parser = version)]
    pub(crate) if_version: Option<Version>,
}

#[derive(Args, Debug)]
pub(crate) struct Cas {
    /// The key, 1 to 4096 bytes
    pub(crate) key: OsString,
    /// The version that the key must have, as `get --version` prints it
    #[arg(value_parser = version)]
    pub(crate) version: Version,
    #[command(flatten)]
    pub(crate) source: Source,
    /// The value expires after this time, such as 500ms, 5s or 2h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) ttl: Option<Duration>,
}

#[derive(Args, Debug)]
pub(crate) struct Incr {
    /// The key, 1 to 4096 bytes
    pub(crate) key: OsString,
    /// What is added
    #[arg(default_value_t = 1, allow_negative_numbers = true)]
    pub(crate) delta: i64,
}

#[derive(Args, Debug)]
pub(crate) struct Scan {
    /// What the keys begin with [default: all keys]
    pub(crate) prefix: Option<OsString>,
    /// Print the values too, behind a tab
    #[arg(long)]
    pub(crate) values: bool,
    /// Begin at this key's place in that order, and print those to the table's end
    #[arg(long, value_name = "KEY")]
    pub(crate) at: Option<OsString>,
    /// Most keys to print; no more are read
    #[arg(long, value_name = "N")]
    pub(crate) max: Option<u64>,
}

impl Cli {
    /// The command line of this process. Ends it on wrong usage, and on `--help`.
    pub(crate) fn of_this_process() -> Self {
        let matches = without_empty_variables(Self::command()).get_matches();
        let cli = Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        if let Some(misuse) = cli.rdma.misuse() {
            Self::command().error(ErrorKind::ArgumentConflict, misuse).exit();
        }
        cli
    }
}

/// A variable that is set to nothing counts as unset.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    command.mut_args(|argument| {
        let value = argument.get_env().and_then(std::env::var_os);
        if value.is_some_and(|value| value.is_empty()) { argument.env(None::<&str>) } else { argument }
    })
}

/// The longest time that can be asked for: what is added to a clock must not leave its range.
const LONGEST: Duration = Duration::from_secs(100 * 31_557_600);

fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("it must be longer than zero".into()),
        Ok(duration) if duration > LONGEST => Err("it is longer than 100 years".into()),
        Ok(duration) => Ok(duration),
        Err(error) => Err(format!("{error}; write it like 500ms, 5s or 2h")),
    }
}

fn version(text: &str) -> Result<Version, String> {
    u64::from_str_radix(text, 16)
        .map(Version::from_bits)
        .map_err(|_| "a version is 16 hexadecimal digits, as `farside get --version KEY` prints it".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("farside").chain(line.split_whitespace()))
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn global_flags_stand_before_or_after_the_command() {
        for line in ["--json --server db:9 get k", "get k --json -s db:9"] {
            let cli = parse(line).unwrap();
            assert!(cli.json);
            assert_eq!(cli.connection.server, "db:9");
        }
    }

    #[test]
    fn a_value_has_exactly_one_source() {
        for line in ["put k", "put k v --file f", "cas k 1"] {
            let usage = parse(line).unwrap_err();
            assert_eq!(usage.exit_code(), 2, "{line}");
        }
        assert!(parse("put k -").is_ok());
        assert!(parse("put k --file f").is_ok());
        assert!(parse("cas k 00ff v --ttl 5s").is_ok());
        assert!(parse("put k v --ttl 100years").is_ok());
    }

    #[test]
    fn mistakes_are_usage_errors() {
        for line in [
            "",
            "bogus",
            "get",
            "get k --bogus",
            "incr k one",
            "--transport bogus get k",
            "--require bogus get k",
            "--deadline soon get k",
            "--deadline 0s get k",
            "put k v --ttl 5",
            "put k v --ttl 400000000000years",
            "ping --interval 400000000000years",
            "--deadline 101years get k",
            "cas k not-hex v",
            "-u 0 get k",
            "--retry-count 7 get k",
            "-T 256 get k",
        ] {
            let error = parse(line).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}: {error}");
        }
        assert_eq!(parse("--help").unwrap_err().kind(), ErrorKind::DisplayHelp);
    }

    #[test]
    fn a_device_is_named_once_and_its_port_and_gid_with_it() {
        let misuse = |line| parse(line).unwrap().rdma.misuse();
        for line in ["get k", "-d mlx5_0 get k -x 3 -i 1", "get k --rdma 10.0.0.1", "-T 104 get k -u 14"] {
            assert_eq!(misuse(line), None, "{line}");
        }
        for line in
            ["get k -x 3", "get k -i 1", "--rdma 10.0.0.1 get k -d mlx5_0", "--rdma 10.0.0.1 get k -x 3"]
        {
            assert!(misuse(line).is_some(), "{line}");
        }
        let rdma = parse("get k -d mlx5_0 -x 3 -T 104 -u 14 --retry-count 2").unwrap().rdma.settings();
        let device = DeviceChoice::Named { name: "mlx5_0".into(), port: None, gid_index: Some(3) };
        let expected =
            Rdma { device: Some(device), type_of_service: Some(104), ack_timeout: 14, retry_count: 2 };
        assert_eq!(rdma, expected);
    }

    #[test]
    fn a_litmus_test_is_of_one_device_or_all() {
        let litmus = |line| {
            let Command::Doctor(doctor) = parse(line).unwrap().command else { panic!("doctor") };
            doctor.litmus
        };
        assert_eq!(litmus("doctor"), None);
        assert_eq!(litmus("doctor --litmus"), Some(None));
        assert_eq!(litmus("doctor --litmus 10.0.0.1"), Some(Some("10.0.0.1".parse().unwrap())));
        assert_eq!(parse("doctor --litmus mlx5_0").unwrap_err().exit_code(), 2);
    }

    #[test]
    fn a_delta_may_be_negative() {
        let Command::Incr(incr) = parse("incr k -5").unwrap().command else { panic!("incr") };
        assert_eq!(incr.delta, -5);
    }
}
