//! Keys and values as they come from the command line, the standard input and files.

use crate::cli::Source;
use farside::VALUE_LEN_MAX;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;

/// A value that cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error("cannot read the value from {from}: {source}")]
    Unreadable { from: String, source: io::Error },
    #[error(
        "the value from {from} is longer than {VALUE_LEN_MAX} bytes (16 MiB): split it over several keys"
    )]
    TooLong { from: String },
}

/// The bytes of an argument, whatever they are.
pub(crate) fn bytes(argument: &OsStr) -> &[u8] {
    argument.as_bytes()
}

/// The value that `source` names.
pub(crate) fn value(source: &Source) -> Result<Cow<'_, [u8]>, InputError> {
    match source {
        Source { file: Some(path), .. } => {
            let from = path.display().to_string();
            match File::open(path) {
                Ok(file) => read(file, from).map(Cow::Owned),
                Err(source) => Err(InputError::Unreadable { from, source }),
            }
        }
        Source { value: Some(value), .. } if value != "-" => Ok(Cow::Borrowed(bytes(value))),
        Source { .. } => read(io::stdin().lock(), "the standard input".into()).map(Cow::Owned),
    }
}

/// Reads everything, one byte past the longest value at most: the input may have no end.
fn read(input: impl Read, from: String) -> Result<Vec<u8>, InputError> {
    let mut value = Vec::new();
    match input.take(VALUE_LEN_MAX as u64 + 1).read_to_end(&mut value) {
        Err(source) => Err(InputError::Unreadable { from, source }),
        Ok(len) if len > VALUE_LEN_MAX => Err(InputError::TooLong { from }),
        Ok(_) => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_input_ends_at_the_longest_value() {
        let error = read(io::repeat(7), "here".into()).unwrap_err();
        assert!(error.to_string().contains("from here is longer than 16777216 bytes"), "{error}");
        let exact = read(io::repeat(7).take(VALUE_LEN_MAX as u64), "here".into()).unwrap();
        assert_eq!(exact.len(), VALUE_LEN_MAX);
    }

    #[test]
    fn a_missing_file_is_named() {
        let source = Source { value: None, file: Some("/nonexistent/value".into()) };
        assert!(value(&source).unwrap_err().to_string().contains("/nonexistent/value"));
    }
}
