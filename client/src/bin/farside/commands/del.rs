//! `farside del`: deletes keys.

use super::{CommandError, session};
use crate::cli::{Cli, Del};
use crate::input;
use crate::output::{self, Bytes};
use farside::Delete;
use serde::Serialize;
use std::process::ExitCode;

#[derive(Serialize)]
struct Deleted<'a> {
    key: Bytes<'a>,
    deleted: bool,
    /// The version that the key has instead of the one asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

pub(crate) fn run(cli: &Cli, del: &Del) -> Result<ExitCode, CommandError> {
    let mut session = session(cli)?;
    let mut code = ExitCode::SUCCESS;
    for name in &del.keys {
        let key = input::bytes(name);
        let outcome = match del.if_version {
            Some(version) => session.delete_if(key, version)?,
            None if session.delete(key)? => Delete::Deleted,
            None => Delete::Absent,
        };
        if let Delete::Mismatch { current } = outcome {
            let current = output::version(current);
            output::note(format_args!("not deleted: the key {} has version {current}", name.display()));
            code = ExitCode::FAILURE;
        }
        if cli.json {
            output::json(&Deleted {
                key: Bytes::new(key),
                deleted: outcome == Delete::Deleted,
                version: match outcome {
                    Delete::Mismatch { current } => Some(output::version(current)),
                    Delete::Deleted | Delete::Absent => None,
                },
            })?;
        }
    }
    Ok(code)
}
