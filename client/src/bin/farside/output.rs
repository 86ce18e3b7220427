//! What is printed, and how.

use base64::prelude::BASE64_STANDARD;
use farside::{Value, Version};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
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

/// Prints a value: its bytes as they are, or on a terminal what people can read.
pub(crate) fn value(value: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let text = if out.is_terminal() { for_people(value, value.counter()) } else { Cow::Borrowed(&**value) };
    tolerate_broken_pipe(out.write_all(&text).and_then(|()| out.flush()))
}

/// A counter as its number, anything else as it is; with a line end, so that the prompt does not stick to it.
fn for_people(bytes: &[u8], counter: Option<i64>) -> Cow<'_, [u8]> {
    match counter {
        Some(number) => format!("{number}\n").into_bytes().into(),
        None if bytes.ends_with(b"\n") => bytes.into(),
        None => [bytes, b"\n"].concat().into(),
    }
}

/// A reader that has gone away is no failure.
pub(crate) fn tolerate_broken_pipe(result: io::Result<()>) -> io::Result<()> {
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
    fn people_see_numbers_and_whole_lines() {
        assert_eq!(*for_people(&(-4_i64).to_le_bytes(), Some(-4)), *b"-4\n");
        assert_eq!(*for_people(b"v", None), *b"v\n");
        assert_eq!(*for_people(b"v\n", None), *b"v\n");
    }

    #[test]
    fn columns_line_up() {
        assert_eq!(table([("a", "1"), ("longer", "2")]), "a       1\nlonger  2");
    }
}
