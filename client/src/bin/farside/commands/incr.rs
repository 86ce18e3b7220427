//! `farside incr`: adds to a counter.

use super::{CommandError, session};
use crate::cli::{Cli, Incr};
use crate::input;
use crate::output::{self, Bytes};
use serde::Serialize;
use std::process::ExitCode;

#[derive(Serialize)]
struct Counter<'a> {
    key: Bytes<'a>,
    counter: i64,
}

pub(crate) fn run(cli: &Cli, incr: &Incr) -> Result<ExitCode, CommandError> {
    let key = input::bytes(&incr.key);
    // It would not have been added if the sum overflowed.
    let counter = session(cli)?.fetch_add(key, incr.delta)?.wrapping_add(incr.delta);
    if cli.json {
        output::json(&Counter { key: Bytes::new(key), counter })?;
    } else {
        output::line(counter)?;
    }
    Ok(ExitCode::SUCCESS)
}
