//! `farside-bench`: see the library's documentation, or `--help`.

use std::process::ExitCode;

use clap::Parser;
use farside_bench::{cli::Cli, job};

fn main() -> ExitCode {
    job::execute(Cli::parse()).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::from(error.exit_code())
    })
}
