//! Tokens: who may open a session, and with what rights.

use farside_protocol::token::{LineError, parse_line};
use farside_protocol::wire::Rights;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use subtle::ConstantTimeEq;

/// A token file larger than this is some other file.
const FILE_LEN_MAX: u64 = 1 << 20;

/// Why a token file is of no use.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It cannot be read.
    #[error("cannot read the token file {path}: {reason}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// Everybody on the host can read it.
    #[error("the token file {0} can be read by every user of this host: run `chmod 600 {0}`")]
    WorldReadable(PathBuf),
    /// It is not a list of tokens.
    #[error("the token file {0} is larger than 1 MiB: it holds one token a line")]
    TooLarge(PathBuf),
    /// Others can change it.
    #[error("the token file {0} can be written by others than its owner: run `chmod 600 {0}`")]
    Writable(PathBuf),
    /// A line is no token.
    #[error("line {line} of the token file {path} {source}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        source: LineError,
    },
    /// No line holds a token.
    #[error(
        "the token file {0} holds no token: write one a line, `read TOKEN` for a token that may only read"
    )]
    Empty(PathBuf),
}

struct Token {
    secret: Box<[u8]>,
    rights: Rights,
}

/// The tokens a server accepts.
pub(crate) struct Tokens(Vec<Token>);

impl Tokens {
    /// Reads a file: one token a line, see [`parse_line`].
    pub(crate) fn load(path: &Path) -> Result<Self, TokenError> {
        let unreadable =
            |error: io::Error| TokenError::Unreadable { path: path.into(), reason: error.to_string() };
        let file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if metadata.is_file() && metadata.mode() & 0o004 != 0 {
            return Err(TokenError::WorldReadable(path.into()));
        }
        // Who can write it can let himself in.
        if metadata.is_file() && metadata.mode() & 0o022 != 0 {
            return Err(TokenError::Writable(path.into()));
        }
        let mut text = Vec::new();
        file.take(FILE_LEN_MAX + 1).read_to_end(&mut text).map_err(unreadable)?;
        if text.len() as u64 > FILE_LEN_MAX {
            return Err(TokenError::TooLarge(path.into()));
        }
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &[u8]) -> Result<Self, TokenError> {
        let mut tokens = Vec::new();
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let wrong = |source| TokenError::Line { path: path.into(), line: number + 1, source };
            let token = parse_line(line).map_err(wrong)?;
            tokens.extend(token.map(|(rights, secret)| Token { secret: secret.into(), rights }));
        }
        if tokens.is_empty() { Err(TokenError::Empty(path.into())) } else { Ok(Self(tokens)) }
    }

    /// What `secret` grants, `None` if it is no token. The time taken tells nothing but the length of `secret`.
    pub(crate) fn rights(&self, secret: &[u8]) -> Option<Rights> {
        // Every token is compared, so that the time does not tell which one matched.
        self.0.iter().fold(None, |found, token| {
            let same = bool::from(token.secret.ct_eq(secret));
            found.or(same.then_some(token.rights))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    fn load(text: &[u8], mode: u32) -> Result<Tokens, TokenError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        Tokens::load(&path)
    }

    #[test]
    fn tokens_grant_what_their_line_says() {
        let tokens = load(b"# who\nplain\n\n read spy \r\nread-write chief\n", 0o640).unwrap();
        for (secret, rights) in [
            ("plain", Some(Rights::ReadWrite)),
            ("spy", Some(Rights::Read)),
            ("chief", Some(Rights::ReadWrite)),
            ("read", None),
            ("read spy", None),
            ("plai", None),
            ("plainer", None),
            ("", None),
            ("# who", None),
        ] {
            assert_eq!(tokens.rights(secret.as_bytes()), rights, "{secret}");
        }
    }

    #[test]
    fn a_file_that_is_of_no_use_says_why() {
        let error = |text: &[u8], mode| load(text, mode).err().unwrap();
        assert!(matches!(error(b"secret", 0o644), TokenError::WorldReadable(_)));
        assert!(matches!(error(b"\n# none\n", 0o600), TokenError::Empty(_)));
        for mode in [0o620, 0o602, 0o660] {
            assert!(matches!(error(b"secret", mode), TokenError::Writable(_)), "{mode:o}");
        }
        let long = error(&[b'x'; 257], 0o600).to_string();
        assert!(long.contains("line 1") && long.contains("257 bytes"), "{long}");
        for line in [&b"read "[..], b"read", b"read-write\t"] {
            let bare = error(&[b"good\n", line].concat(), 0o600).to_string();
            assert!(bare.contains("line 2") && bare.contains("no token follows"), "{bare}");
        }
        assert!(matches!(error(&vec![b'\n'; (1 << 20) + 1], 0o600), TokenError::TooLarge(_)));
        let missing = Tokens::load(Path::new("/nonexistent/tokens")).err().unwrap();
        assert!(matches!(missing, TokenError::Unreadable { .. }));
    }
}
