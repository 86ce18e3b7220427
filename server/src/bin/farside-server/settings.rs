//! Flags and file: one list of settings, the same names in both. The environment has those that differ from host to
//! host, as `--help` shows, and `FARSIDE_LOG`.

use bytesize::ByteSize;
use clap::{Args, Parser, ValueEnum};
use farside_server::{Config, HugePages, Socket};
use farside_transport::verbs::DeviceChoice;
use serde::de::{Deserialize, Deserializer, Error};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Holds a Farside table in memory and serves it to clients: over shared memory to those on this host, over RDMA to
/// those on its fabric, over TCP to all.
#[derive(Parser, Debug)]
#[command(name = "farside-server", version, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    /// A TOML file with the settings below, by the same names; flags and environment go before it
    #[arg(long, value_name = "FILE", env = "FARSIDE_CONFIG")]
    config: Option<PathBuf>,

    /// Print the facts of the started server as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    settings: Settings,
}

const AFTER_HELP: &str =
    "Environment: those named above, and FARSIDE_LOG: what is logged, such as `debug` or `warn` \
                          [default: info].
Exit codes: 1 the server failed, 2 wrong usage, 130 and 143 after SIGINT and SIGTERM.";

/// What can be set; `None`: not here.
#[derive(Args, serde::Deserialize, Default, Debug)]
#[serde(rename_all = "kebab-case")]
struct Settings {
    /// IP address on which to accept TCP connections [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS", env = "FARSIDE_LISTEN")]
    listen: Option<IpAddr>,

    /// TCP port; 0: any free one [default: 7471]
    #[arg(short, long, env = "FARSIDE_PORT")]
    port: Option<u16>,

    /// Unix socket for clients on this host, or `off` [default: ${XDG_RUNTIME_DIR:-/tmp}/farside-UID/PORT.sock]
    #[arg(long, value_name = "PATH")]
    shm_socket: Option<PathBuf>,

    /// IP address of the RDMA device over which clients connect queue pairs [default: none, no RDMA]
    #[arg(long, value_name = "ADDRESS", env = "FARSIDE_RDMA")]
    rdma: Option<IpAddr>,

    /// The RDMA device by its name, in place of --rdma: stands for its best address, which `farside doctor` shows
    #[arg(short, long, value_name = "NAME", env = "FARSIDE_DEVICE", conflicts_with = "rdma")]
    device: Option<String>,

    /// Port of the device [default: the first that is active and has an IP address]
    #[arg(short = 'i', long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    device_port: Option<u8>,

    /// Index of the port's GID, which must be an IP address [default: the best]
    #[arg(short = 'x', long, value_name = "N")]
    gid_index: Option<u32>,

    /// Let clients WRITE over RDMA only into blocks that they leased, by memory windows of the device
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    memory_windows: Option<bool>,

    /// Address on which to serve /metrics (Prometheus) and /healthz over HTTP, without a token [default: none]
    #[arg(long, value_name = "ADDRESS:PORT", env = "FARSIDE_METRICS")]
    metrics: Option<SocketAddr>,

    /// Folder on a tmpfs or hugetlbfs in which the table outlives the server, such as /dev/shm/farside [default: none]
    #[arg(long, value_name = "PATH", env = "FARSIDE_REGION_DIR")]
    region_dir: Option<PathBuf>,

    /// Memory for index and records [default: 1GiB, or what the table in --region-dir has]
    #[arg(long, value_name = "SIZE", env = "FARSIDE_MEMORY", value_parser = size)]
    memory: Option<ByteSize>,

    /// Shards that the memory is divided into [default: one for each 256MiB, up to the processors and 8]
    #[arg(long, value_name = "COUNT")]
    shards: Option<u32>,

    /// Keys for which the index has room [default: one for each 128 bytes of memory]
    #[arg(long, value_name = "COUNT")]
    max_keys: Option<u64>,

    /// Whether the memory lies on huge pages [default: auto]
    #[arg(long, value_name = "WHEN")]
    huge_pages: Option<When>,

    /// How long a freed block rests before it is used again [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(default, deserialize_with = "time")]
    quarantine: Option<Duration>,

    /// How long a key must have been expired before its memory is freed: what clients' clocks may differ by
    /// [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(default, deserialize_with = "time")]
    expiry_grace: Option<Duration>,

    /// How long a session may be silent before it is ended [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(default, deserialize_with = "time")]
    session_lease: Option<Duration>,

    /// Threads that serve connections [default: one for each processor]
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,

    /// Most connections at one time [default: 10000]
    #[arg(long, value_name = "COUNT")]
    max_connections: Option<usize>,

    /// File of tokens, one a line, `read ` before those that may only read: clients must present one
    #[arg(long, value_name = "FILE", env = "FARSIDE_TOKEN_FILE")]
    token_file: Option<PathBuf>,

    /// Let clients on other hosts in without a token
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    insecure: Option<bool>,

    /// Let no client change the memory itself: who may write reads it, and has the server make its changes
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    untrusted_writers: Option<bool>,

    /// Form of the log [default: text]
    #[arg(long, value_name = "FORM")]
    log_format: Option<LogFormat>,
}

#[derive(ValueEnum, serde::Deserialize, Clone, Copy, Debug)]
#[serde(rename_all = "kebab-case")]
enum When {
    Auto,
    On,
    Off,
}

/// The form of the log.
#[derive(ValueEnum, serde::Deserialize, Clone, Copy, Default, Debug)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

fn size(text: &str) -> Result<ByteSize, String> {
    // What the library says of a number that is too large is about its unit.
    text.parse().map_err(|_| "write it like 64MiB or 1GiB; it must be less than 16EiB".into())
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text).map(Some).map_err(|error| D::Error::custom(format!("`{text}`: {error}")))
}

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("cannot read the configuration {path}: {source}")]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("the configuration {path} is wrong: {reason}")]
    Wrong { path: PathBuf, reason: String },
    #[error("the configuration {path} has the unknown key `{key}`{}", suggestion(key))]
    UnknownKey { path: PathBuf, key: String },
    #[error("rdma and device name the same thing: give one of them")]
    TwoDevices,
    #[error("device-port and gid-index are of a device: name it (device)")]
    NoDevice,
}

/// The names of all settings, from the flags: there is no second list to forget one in.
fn names() -> Vec<String> {
    let command = Settings::augment_args(clap::Command::new(""));
    command.get_arguments().filter_map(|arg| arg.get_long()).map(str::to_owned).collect()
}

fn suggestion(key: &str) -> String {
    let close = |name: &String| strsim::damerau_levenshtein(key, name);
    match names().into_iter().min_by_key(close) {
        Some(name) if close(&name) <= name.len() / 2 => format!("; did you mean `{name}`?"),
        _ => format!("; it can have {}", names().join(", ")),
    }
}

impl Settings {
    fn load(path: &Path) -> Result<Self, SettingsError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| SettingsError::Unreadable { path: path.into(), source })?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, SettingsError> {
        let wrong =
            |error: toml::de::Error| SettingsError::Wrong { path: path.into(), reason: error.to_string() };
        let table: toml::Table = toml::from_str(text).map_err(wrong)?;
        let names = names();
        if let Some(key) = table.keys().find(|key| !names.contains(key)) {
            return Err(SettingsError::UnknownKey { path: path.into(), key: key.clone() });
        }
        toml::from_str(text).map_err(wrong)
    }

    /// These settings, and those of `other` where these say nothing.
    fn or(self, mut other: Self) -> Self {
        // Who names a device here does not mean that of the other, nor its port and GID.
        if self.rdma.is_some() || self.device.is_some() {
            (other.rdma, other.device, other.device_port, other.gid_index) = (None, None, None, None);
        }
        Self {
            listen: self.listen.or(other.listen),
            port: self.port.or(other.port),
            shm_socket: self.shm_socket.or(other.shm_socket),
            rdma: self.rdma.or(other.rdma),
            device: self.device.or(other.device),
            device_port: self.device_port.or(other.device_port),
            gid_index: self.gid_index.or(other.gid_index),
            memory_windows: self.memory_windows.or(other.memory_windows),
            metrics: self.metrics.or(other.metrics),
            region_dir: self.region_dir.or(other.region_dir),
            memory: self.memory.or(other.memory),
            shards: self.shards.or(other.shards),
            max_keys: self.max_keys.or(other.max_keys),
            huge_pages: self.huge_pages.or(other.huge_pages),
            quarantine: self.quarantine.or(other.quarantine),
            expiry_grace: self.expiry_grace.or(other.expiry_grace),
            session_lease: self.session_lease.or(other.session_lease),
            threads: self.threads.or(other.threads),
            max_connections: self.max_connections.or(other.max_connections),
            token_file: self.token_file.or(other.token_file),
            insecure: self.insecure.or(other.insecure),
            untrusted_writers: self.untrusted_writers.or(other.untrusted_writers),
            log_format: self.log_format.or(other.log_format),
        }
    }

    /// The RDMA device that is named, to be looked for.
    fn device(&self) -> Result<Option<DeviceChoice>, SettingsError> {
        match (self.rdma, &self.device, self.device_port.is_some() || self.gid_index.is_some()) {
            (Some(_), Some(_), _) => Err(SettingsError::TwoDevices),
            (_, None, true) => Err(SettingsError::NoDevice),
            (_, None, false) => Ok(None),
            (None, Some(name), _) => Ok(Some(DeviceChoice::Named {
                name: name.clone(),
                port: self.device_port,
                gid_index: self.gid_index,
            })),
        }
    }

    fn config(self) -> Config {
        let default = Config::default();
        Config {
            listen: SocketAddr::new(
                self.listen.unwrap_or(default.listen.ip()),
                self.port.unwrap_or(default.listen.port()),
            ),
            socket: match self.shm_socket {
                None => default.socket,
                Some(path) if path == Path::new("off") => Socket::Off,
                Some(path) => Socket::At(path),
            },
            rdma: self.rdma.map(|address| SocketAddr::new(address, 0)),
            memory_windows: self.memory_windows.unwrap_or(default.memory_windows),
            metrics: self.metrics,
            region_dir: self.region_dir,
            memory: self.memory.map(|size| size.as_u64()),
            shards: self.shards,
            max_keys: self.max_keys,
            huge_pages: match self.huge_pages {
                None => default.huge_pages,
                Some(When::Auto) => HugePages::Try,
                Some(When::On) => HugePages::Require,
                Some(When::Off) => HugePages::Never,
            },
            quarantine: self.quarantine.unwrap_or(default.quarantine),
            expiry_grace: self.expiry_grace.unwrap_or(default.expiry_grace),
            session_lease: self.session_lease.unwrap_or(default.session_lease),
            threads: self.threads,
            max_connections: self.max_connections.unwrap_or(default.max_connections),
            token_file: self.token_file,
            insecure: self.insecure.unwrap_or(default.insecure),
            untrusted_writers: self.untrusted_writers.unwrap_or(default.untrusted_writers),
        }
    }
}

/// What the settings come to.
pub(crate) struct Settled {
    /// The server's configuration.
    pub(crate) config: Config,
    /// An RDMA device by its name, whose address is yet to be found.
    pub(crate) device: Option<DeviceChoice>,
    /// The form of the log.
    pub(crate) log_format: LogFormat,
}

impl Cli {
    /// What the settings come to.
    pub(crate) fn settle(self) -> Result<Settled, SettingsError> {
        let file = self.config.as_deref().map(Settings::load).transpose()?.unwrap_or_default();
        let settings = self.settings.or(file);
        let log_format = settings.log_format.unwrap_or_default();
        Ok(Settled { device: settings.device()?, config: settings.config(), log_format })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn config(flags: &[&str], file: &str) -> Config {
        let cli = Cli::try_parse_from([&["farside-server"], flags].concat()).unwrap();
        cli.settings.or(Settings::parse(Path::new("f.toml"), file).unwrap()).config()
    }

    #[test]
    fn the_flags_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn nothing_said_is_the_default() {
        assert_eq!(config(&[], ""), Config::default());
    }

    #[test]
    fn flags_go_before_the_file() {
        let file = "port = 1\nmemory = \"64MiB\"\ninsecure = true\nquarantine = \"50ms\"";
        let config = config(&["-p", "2", "--session-lease", "3s", "--insecure=false"], file);
        assert_eq!((config.listen.port(), config.memory, config.insecure), (2, Some(64 << 20), false));
        assert_eq!((config.quarantine.as_millis(), config.session_lease.as_secs()), (50, 3));
    }

    #[test]
    fn every_setting_can_stand_in_the_file() {
        let file = r#"
            listen = "::1"
            port = 5
            shm-socket = "off"
            rdma = "10.0.0.1"
            device = "mlx5_0"
            device-port = 8
            gid-index = 9
            memory-windows = true
            metrics = "[::1]:9100"
            region-dir = "/dev/shm/f"
            memory = "2MiB"
            shards = 3
            max-keys = 4
            huge-pages = "off"
            quarantine = "1s"
            expiry-grace = "3s"
            session-lease = "2m"
            threads = 6
            max-connections = 7
            token-file = "/t"
            insecure = true
            untrusted-writers = true
            log-format = "json"
        "#;
        assert_eq!(file.matches('=').count(), names().len());
        let expected = Config {
            listen: "[::1]:5".parse().unwrap(),
            socket: Socket::Off,
            rdma: Some("10.0.0.1:0".parse().unwrap()),
            memory_windows: true,
            metrics: Some("[::1]:9100".parse().unwrap()),
            region_dir: Some("/dev/shm/f".into()),
            memory: Some(2 << 20),
            shards: Some(3),
            max_keys: Some(4),
            huge_pages: HugePages::Never,
            quarantine: Duration::from_secs(1),
            expiry_grace: Duration::from_secs(3),
            session_lease: Duration::from_secs(120),
            threads: Some(6),
            max_connections: 7,
            token_file: Some("/t".into()),
            insecure: true,
            untrusted_writers: true,
        };
        assert_eq!(config(&[], file), expected);
    }

    #[test]
    fn flags_that_name_a_device_do_not_mean_the_files() {
        let device = |flags: &[&str], file: &str| {
            let cli = Cli::try_parse_from([&["farside-server"], flags].concat()).unwrap();
            let settings = cli.settings.or(Settings::parse(Path::new("f.toml"), file).unwrap());
            let device = settings.device().map_err(|error| error.to_string())?;
            Ok::<_, String>((settings.rdma.map(|address| address.to_string()), device))
        };
        let named = |name: &str, port, gid_index| {
            Ok((None, Some(DeviceChoice::Named { name: name.into(), port, gid_index })))
        };
        let file = "device = \"a\"\ngid-index = 3";
        assert_eq!(device(&[], ""), Ok((None, None)));
        assert_eq!(device(&[], file), named("a", None, Some(3)));
        assert_eq!(device(&["-x", "4", "-i", "2"], file), named("a", Some(2), Some(4)));
        assert_eq!(device(&["-d", "b"], file), named("b", None, None));
        assert_eq!(device(&["--rdma", "10.0.0.1"], file), Ok((Some("10.0.0.1".into()), None)));
        assert!(device(&["-x", "4"], "").unwrap_err().contains("name it"));
        assert!(device(&[], "rdma = \"10.0.0.1\"\ndevice = \"a\"").unwrap_err().contains("one of them"));
    }

    #[test]
    fn a_wrong_file_says_what_is_wrong() {
        for (file, says) in [
            ("max-kyes = 1", "did you mean `max-keys`?"),
            ("colour = 1", "it can have listen, port"),
            ("port = 70000", "port"),
            ("quarantine = \"soon\"", "`soon`"),
            ("memory = \"64 bananas\"", "memory"),
            ("port =", "port"),
        ] {
            let error = Settings::parse(Path::new("f.toml"), file).unwrap_err().to_string();
            assert!(error.contains("f.toml") && error.contains(says), "{file}: {error}");
        }
    }
}
