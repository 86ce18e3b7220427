//! The `farside` command: a Farside table from the shell.
#![forbid(unsafe_code)]
// They panic when their stream is gone.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod cli;
mod commands;
mod input;
mod output;

use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::of_this_process();
    commands::run(&cli).unwrap_or_else(|error| {
        error.report(cli.json);
        error.exit_code()
    })
}
