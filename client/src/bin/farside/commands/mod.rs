//! The commands, one file each.

mod cas;
mod del;
mod doctor;
mod get;
mod incr;
mod ping;
mod put;
mod scan;
mod stats;

use crate::cli::{Cli, Command};
use crate::input::InputError;
use crate::output;
use farside::{Client, Session};
use serde::Serialize;
use std::io;
use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error(transparent)]
    Farside(#[from] farside::Error),
    #[error(transparent)]
    Input(#[from] InputError),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    #[error("cannot write {path}: {source}")]
    OutFile { path: String, source: io::Error },
    #[error("the litmus test cannot be run: {0}")]
    Litmus(String),
}

#[derive(Serialize)]
struct Failure {
    error: &'static str,
    message: String,
}

impl CommandError {
    /// The stable name of its kind.
    fn kind(&self) -> &'static str {
        match self {
            Self::Farside(error) => error.kind().name(),
            Self::Input(InputError::TooLong { .. }) => "too_large",
            Self::Input(InputError::Unreadable { .. }) => "input",
            Self::Litmus(_) => "litmus",
            Self::Output(_) | Self::OutFile { .. } => "output",
        }
    }

    /// 2 for what is wrong however the table and the server are, 1 for what failed.
    pub(crate) fn exit_code(&self) -> ExitCode {
        use farside::Error::{Configuration, Size, TokenFile};
        match self {
            Self::Farside(Configuration(_) | Size(_) | TokenFile { .. }) | Self::Input(_) => {
                ExitCode::from(2)
            }
            Self::Farside(_) | Self::Output(_) | Self::OutFile { .. } | Self::Litmus(_) => ExitCode::FAILURE,
        }
    }

    /// Tells the user: to the standard error, and to who reads JSON as JSON.
    pub(crate) fn report(&self, json: bool) {
        output::note(self);
        if json {
            // The exit code tells the rest if this cannot be written either.
            let _ = output::json(&Failure { error: self.kind(), message: self.to_string() });
        }
    }
}

pub(crate) fn run(cli: &Cli) -> Result<ExitCode, CommandError> {
    match &cli.command {
        Command::Ping(ping) => ping::run(cli, ping),
        Command::Get(get) => get::run(cli, get),
        Command::Put(put) => put::run(cli, put),
        Command::Del(del) => del::run(cli, del),
        Command::Cas(cas) => cas::run(cli, cas),
        Command::Incr(incr) => incr::run(cli, incr),
        Command::Scan(scan) => scan::run(cli, scan),
        Command::Stats => stats::run(cli),
        Command::Doctor(doctor) => doctor::run(cli, doctor),
    }
}

fn connect(Cli { connection, rdma, .. }: &Cli) -> Result<Client, CommandError> {
    let mut builder = Client::builder()
        .address(&connection.server)
        .transport(connection.transport)
        .rdma(rdma.settings())
        .deadline(connection.deadline)
        .name("farside command")
        // A command looks one key up, once.
        .hint_memory(0);
    if let Some(path) = &connection.token_file {
        builder = builder.token_file(path);
    }
    for require in &connection.require {
        builder = builder.require(*require);
    }
    Ok(builder.connect_blocking()?)
}

fn session(cli: &Cli) -> Result<Session, CommandError> {
    Ok(connect(cli)?.session()?)
}
