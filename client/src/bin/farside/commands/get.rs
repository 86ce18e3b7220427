//! `farside get`: a key's value.

use super::{CommandError, session};
use crate::cli::{Cli, Get};
use crate::input;
use crate::output::{self, Bytes};
use farside::Value;
use serde::Serialize;
use std::fs;
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

#[derive(Serialize)]
struct Found<'a> {
    key: Bytes<'a>,
    found: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counter: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Bytes<'a>>,
}

impl<'a> Found<'a> {
    fn new(key: &'a [u8], value: &'a Option<Value>, with_value: bool) -> Self {
        let value = value.as_ref();
        Self {
            key: Bytes::new(key),
            found: value.is_some(),
            version: value.map(|value| output::version(value.version())),
            expires_at_ms: value
                .and_then(Value::expires_at)
                .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
                .and_then(|since| since.as_millis().try_into().ok()),
            counter: value.and_then(Value::counter),
            value: value.filter(|_| with_value).map(|value| Bytes::new(value)),
        }
    }
}

pub(crate) fn run(cli: &Cli, get: &Get) -> Result<ExitCode, CommandError> {
    let key = input::bytes(&get.key);
    let value = session(cli)?.get(key)?.map(Value::into_owned);
    if let (Some(value), Some(path)) = (&value, &get.out) {
        fs::write(path, value)
            .map_err(|source| CommandError::OutFile { path: path.display().to_string(), source })?;
    }
    match &value {
        _ if cli.json => output::json(&Found::new(key, &value, get.out.is_none()))?,
        Some(value) if get.version => output::line(output::version(value.version()))?,
        Some(value) if get.out.is_none() => output::value(value)?,
        _ => {}
    }
    if value.is_none() {
        output::note(format_args!("no value under the key {}", get.key.display()));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
