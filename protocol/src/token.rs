//! The lines of a token file, which server and client read alike.

use crate::wire::{Rights, TOKEN_LEN_MAX};

/// Why a line is no token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LineError {
    /// A word for rights, and nothing after it.
    #[error("says what a token may do, and no token follows")]
    NoToken,
    /// Two words, of which the first is none for rights.
    #[error(
        "has a blank in it: before the token only `read` or `read-write` may stand, which says what it may do"
    )]
    Blank,
    /// The token is too long.
    #[error("has a token of {0} bytes; a token has 1 to {TOKEN_LEN_MAX}")]
    TooLong(usize),
}

/// The token in a line, and what it may do: `TOKEN` or `read-write TOKEN` both, `read TOKEN` look up alone. `None`:
/// the line is empty or a comment, which begins with `#`. Blanks around the words, of any kind and number, mean
/// nothing. A token has none itself: a misspelt word for rights must not become part of one that may do everything.
pub fn parse_line(line: &[u8]) -> Result<Option<(Rights, &[u8])>, LineError> {
    let line = line.trim_ascii();
    if line.is_empty() || line.starts_with(b"#") {
        return Ok(None);
    }
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let (first, rest) = (&line[..end], line[end..].trim_ascii());
    let (rights, token) = match first {
        b"read" => (Rights::Read, rest),
        b"read-write" => (Rights::ReadWrite, rest),
        _ if rest.is_empty() => (Rights::ReadWrite, first),
        _ => return Err(LineError::Blank),
    };
    match token.len() {
        0 => Err(LineError::NoToken),
        _ if token.iter().any(u8::is_ascii_whitespace) => Err(LineError::Blank),
        1..=TOKEN_LEN_MAX => Ok(Some((rights, token))),
        len => Err(LineError::TooLong(len)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_grants_what_it_says() {
        use Rights::{Read, ReadWrite};
        for (line, expected) in [
            ("plain", Some((ReadWrite, "plain"))),
            (" plain \r", Some((ReadWrite, "plain"))),
            ("read spy", Some((Read, "spy"))),
            ("read\tspy", Some((Read, "spy"))),
            ("\tread \t spy\r", Some((Read, "spy"))),
            ("read-write\tchief", Some((ReadWrite, "chief"))),
            ("read read", Some((Read, "read"))),
            ("reader", Some((ReadWrite, "reader"))),
            ("", None),
            (" \r", None),
            ("# read spy", None),
        ] {
            let expected = expected.map(|(rights, token)| (rights, token.as_bytes()));
            assert_eq!(parse_line(line.as_bytes()), Ok(expected), "{line:?}");
        }
    }

    #[test]
    fn what_is_unclear_grants_nothing() {
        for line in ["read", "read ", "\tread\t", "read-write", "read-write \r"] {
            assert_eq!(parse_line(line.as_bytes()), Err(LineError::NoToken), "{line:?}");
        }
        for line in ["raed spy", "READ spy", "read-only spy", "two words", "read two words", "read a\x0bb c"]
        {
            assert_eq!(parse_line(line.as_bytes()), Err(LineError::Blank), "{line:?}");
        }
        assert_eq!(parse_line(&[b'x'; TOKEN_LEN_MAX + 1]), Err(LineError::TooLong(TOKEN_LEN_MAX + 1)));
        assert!(parse_line(&[b'x'; TOKEN_LEN_MAX]).is_ok());
    }
}
