//! `farside cas`: compare-exchange by version.

use super::{CommandError, session};
use crate::cli::{Cas, Cli};
use crate::input;
use crate::output::{self, Bytes};
use farside::{Put, PutOptions};
use serde::Serialize;
use std::process::ExitCode;

#[derive(Serialize)]
struct Exchanged<'a> {
    key: Bytes<'a>,
    exchanged: bool,
    /// The key's version now; absent if the key is.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

pub(crate) fn run(cli: &Cli, cas: &Cas) -> Result<ExitCode, CommandError> {
    let key = input::bytes(&cas.key);
    let value = input::value(&cas.source)?;
    let mut options = PutOptions::new().if_version(cas.version);
    if let Some(ttl) = cas.ttl {
        options = options.ttl(ttl);
    }
    let outcome = session(cli)?.put_with(key, &value, options)?;
    let (exchanged, version) = match outcome {
        Put::Mismatch { current } => (false, current.map(output::version)),
        stored => (true, stored.version().map(output::version)),
    };
    if cli.json {
        output::json(&Exchanged { key: Bytes::new(key), exchanged, version: version.clone() })?;
    } else if let (true, Some(version)) = (exchanged, &version) {
        output::line(version)?;
    }
    if !exchanged {
        let now = version.map_or_else(|| "is absent".into(), |version| format!("has version {version}"));
        output::note(format_args!("not exchanged: the key {} {now}", cas.key.display()));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
