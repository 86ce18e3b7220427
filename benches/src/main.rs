//! `farside-bench`: see the library's documentation, or `--help`.
#![forbid(unsafe_code)]
// They panic when their stream is gone.
#![warn(clippy::print_stderr, clippy::print_stdout)]

use std::io::{self, Write};
use std::process::ExitCode;

use farside_bench::{cli::Cli, job};

fn main() -> ExitCode {
    job::execute(Cli::of_this_process()).unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "error: {error}");
        ExitCode::from(error.exit_code())
    })
}
