//! What is printed, and how.

use base64::prelude::BASE64_STANDARD;
use farside::Version;
use serde::{Serialize, Serializer};
use std::io::{self, IsTerminal as _, Write as _};

/// Prints one line to the standard output. A reader that has gone away, as in `farside stats | head -1`, is no
/// failure.
pub(crate) fn line(text: impl std::fmt::Display) -> io::Result<()> {
    tolerate_broken_pipe(writeln!(io::stdout(), "{text}"))
}

/// Tells the user on the standard error, or nobody if that is gone: the exit code says it too.
pub(crate) fn note(text: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "farside: {text}");
}

/// Prints one JSON object.
pub(crate) fn json(object: &impl Serialize) -> io::Result<()> {
    line(serde_json::to_string(object).map_err(io::Error::other)?)
}

/// Prints bytes as they are; on a terminal with a line end, so that the prompt does not stick to them.
pub(crate) fn bytes(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let mut result = out.write_all(bytes);
    if out.is_terminal() && !bytes.ends_with(b"\n") {
        result = result.and_then(|()| out.write_all(b"\n"));
    }
    tolerate_broken_pipe(result.and_then(|()| out.flush()))
}

fn tolerate_broken_pipe(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// A version as people see it: 16 hexadecimal digits.
pub(crate) fn version(version: Version) -> String {
    format!("{:016x}", version.to_bits())
}

/// Bytes in JSON: base64, always, and beside it plain text where they are some.
#[derive(Serialize)]
pub(crate) struct Bytes<'a> {
    #[serde(serialize_with = "base64")]
    pub(crate) base64: &'a [u8],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<&'a str>,
}

impl<'a> Bytes<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { base64: bytes, text: std::str::from_utf8(bytes).ok() }
    }
}

fn base64<S: Serializer>(bytes: &&[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&base64::display::Base64Display::new(bytes, &BASE64_STANDARD))
}

/// Left-aligned names and what belongs to them, in two columns.
pub(crate) fn table<'a>(rows: impl IntoIterator<Item = (&'a str, &'a str)> + Clone) -> String {
    let width = rows.clone().into_iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let lines: Vec<_> = rows.into_iter().map(|(name, value)| format!("{name:width$}  {value}")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_base64_and_text_only_where_they_are_text() {
        assert_eq!(serde_json::to_string(&Bytes::new(b"hi")).unwrap(), r#"{"base64":"aGk=","text":"hi"}"#);
        assert_eq!(serde_json::to_string(&Bytes::new(b"\xff\0")).unwrap(), r#"{"base64":"/wA="}"#);
    }

    #[test]
    fn columns_line_up() {
        assert_eq!(table([("a", "1"), ("longer", "2")]), "a       1\nlonger  2");
    }
}
