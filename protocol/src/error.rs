//! The stable kinds of failure, the same in every language, transport and report.

/// What kind of failure an operation ended with. "Not found" and "mismatch" are answers, not failures.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u16)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No room: memory of the shard is used up, or the key's window has no free slot. Existing data is served.
    Full = 1,
    /// Key or value outside the limits.
    TooLarge = 2,
    /// The deadline passed and the operation had no effect.
    Deadline = 3,
    /// The deadline passed, or the connection was lost, and the operation may or may not have had its effect.
    Indeterminate = 4,
    /// The server cannot be reached now; the operation had no effect.
    Unavailable = 5,
    /// The server will not do this for this session: wrong token, missing right, or a limit.
    Refused = 6,
    /// The two ends do not speak the same protocol or layout.
    Incompatible = 7,
    /// The record does not verify and did not change while it was read again: it is damaged.
    Corrupt = 8,
    /// The request makes no sense: an empty key, a counter operation on a value that is no counter.
    Invalid = 9,
}

impl ErrorKind {
    /// The kind numbered `code` on the wire.
    pub const fn from_code(code: u16) -> Option<Self> {
        Some(match code {
            1 => Self::Full,
            2 => Self::TooLarge,
            3 => Self::Deadline,
            4 => Self::Indeterminate,
            5 => Self::Unavailable,
            6 => Self::Refused,
            7 => Self::Incompatible,
            8 => Self::Corrupt,
            9 => Self::Invalid,
            _ => return None,
        })
    }

    /// Its number on the wire.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// Its stable name in metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::TooLarge => "too_large",
            Self::Deadline => "deadline",
            Self::Indeterminate => "indeterminate",
            Self::Unavailable => "unavailable",
            Self::Refused => "refused",
            Self::Incompatible => "incompatible",
            Self::Corrupt => "corrupt",
            Self::Invalid => "invalid",
        }
    }
}
