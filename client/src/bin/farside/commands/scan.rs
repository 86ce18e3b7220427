//! `farside scan`: the keys of the table.

use super::{CommandError, session};
use crate::cli::{Cli, Scan};
use crate::output::{self, Bytes};
use serde::Serialize;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

/// Most keys that are asked for at a time.
const PAGE_MAX: u64 = 256;

#[derive(Serialize)]
struct Found<'a> {
    key: Bytes<'a>,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Bytes<'a>>,
}

pub(crate) fn run(cli: &Cli, arguments: &Scan) -> Result<ExitCode, CommandError> {
    let prefix = arguments.prefix.as_ref().map_or(&[][..], |prefix| prefix.as_bytes());
    let (mut session, mut scan) = (session(cli)?, farside::Scan::new(prefix)?);
    if let Some(key) = &arguments.at {
        scan = scan.at(key.as_bytes())?;
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let (mut left, mut written) = (arguments.max.unwrap_or(u64::MAX), Ok(()));
    let mut goes_on = true;
    while goes_on && left > 0 && written.is_ok() {
        scan = scan.with_page(left.min(PAGE_MAX) as u16);
        goes_on = session.scan(&mut scan, |key, value| {
            if written.is_ok() {
                left -= 1;
                written = if cli.json {
                    let value_bytes = arguments.values.then(|| Bytes::new(&value));
                    let version = output::version(value.version());
                    json(&mut out, &Found { key: Bytes::new(key), version, value: value_bytes })
                } else if arguments.values {
                    writeln!(out, "{}\t{}", key.escape_ascii(), value.escape_ascii())
                } else {
                    writeln!(out, "{}", key.escape_ascii())
                };
            }
        })?;
    }
    output::tolerate_broken_pipe(written.and_then(|()| out.flush()))?;
    Ok(ExitCode::SUCCESS)
}

fn json(out: &mut impl Write, found: &Found<'_>) -> io::Result<()> {
    serde_json::to_writer(&mut *out, found)?;
    out.write_all(b"\n")
}
