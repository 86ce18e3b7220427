//! The client's side of a token file.

use crate::error::{Error, Result};
use farside_protocol::token::parse_line;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// A token file larger than this is some other file.
const FILE_LEN_MAX: u64 = 1 << 20;

/// The first token in the file at `path`. A server's file will do, where `read` or `read-write` may stand before a
/// token.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let failed = |reason: String| Error::TokenFile { path: path.into(), reason: reason.into() };
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_LEN_MAX + 1).read_to_end(&mut text))
        .map_err(|error| failed(format!("cannot be read: {error}")))?;
    if text.len() as u64 > FILE_LEN_MAX {
        return Err(failed("is larger than 1 MiB: it holds one token a line".into()));
    }
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        match parse_line(line) {
            Ok(None) => {}
            Ok(Some((_, token))) => return Ok(token.into()),
            Err(error) => return Err(failed(format!("is wrong: line {} {error}", number + 1))),
        }
    }
    Err(failed("holds no token: write the server's token in it".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use farside_protocol::wire::TOKEN_LEN_MAX;

    fn token(text: &[u8]) -> Result<Vec<u8>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(file.path())
    }

    #[test]
    fn the_first_token_counts_whatever_its_rights() {
        for text in
            ["secret", "secret\n", "# mine\n\n  read secret \nother", "read\tsecret", "read-write secret\r\n"]
        {
            assert_eq!(token(text.as_bytes()).unwrap(), b"secret", "{text:?}");
        }
    }

    #[test]
    fn a_file_that_is_of_no_use_says_why() {
        for (text, says) in [
            (Vec::new(), "holds no token"),
            (b"# nothing\n\n".to_vec(), "holds no token"),
            (vec![b'x'; TOKEN_LEN_MAX + 1], "257 bytes"),
            (b"# mine\nread \n".to_vec(), "line 2"),
            (vec![b'x'; FILE_LEN_MAX as usize + 1], "1 MiB"),
        ] {
            let error = token(&text).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
