//! `farside put`: stores a value.

use super::{CommandError, session};
use crate::cli::{Cli, Put};
use crate::input;
use crate::output::{self, Bytes};
use farside::PutOptions;
use serde::Serialize;
use std::process::ExitCode;

#[derive(Serialize)]
struct Stored<'a> {
    key: Bytes<'a>,
    stored: bool,
    /// Of what is stored now; absent if another value came right behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

pub(crate) fn run(cli: &Cli, put: &Put) -> Result<ExitCode, CommandError> {
    let key = input::bytes(&put.key);
    let value = input::value(&put.source)?;
    let mut options = PutOptions::new();
    if let Some(ttl) = put.ttl {
        options = options.ttl(ttl);
    }
    if put.if_absent {
        options = options.if_absent();
    }
    let (stored, version) = match session(cli)?.put_with(key, &value, options)? {
        farside::Put::Stored { version } => (true, Some(version)),
        farside::Put::Absorbed => (true, None),
        farside::Put::Mismatch { current } => (false, current),
    };
    if cli.json {
        output::json(&Stored { key: Bytes::new(key), stored, version: version.map(output::version) })?;
    }
    if !stored {
        output::note(format_args!("the key {} has a value already", put.key.display()));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
