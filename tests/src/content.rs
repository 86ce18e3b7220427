//! Values as clients see them: bytes somebody put, or a counter.

use crate::operation::Value;
use std::fmt;

/// What a key of a real table holds. A counter is made by FETCH-ADD alone: eight bytes that somebody put are none.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Content {
    /// Bytes that a PUT stored.
    Bytes(Vec<u8>),
    /// A counter, as the bits of its `i64`.
    Counter(u64),
}

impl Value for Content {
    fn from_counter(count: u64) -> Self {
        Self::Counter(count)
    }

    fn counter(&self) -> Option<u64> {
        match self {
            Self::Bytes(_) => None,
            Self::Counter(count) => Some(*count),
        }
    }
}

/// Enough of the bytes to tell which they are.
impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counter(count) => write!(f, "counter {}", *count as i64),
            Self::Bytes(bytes) => {
                let beginning = &bytes[..bytes.len().min(8)];
                beginning.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                write!(f, "({} bytes)", bytes.len())
            }
        }
    }
}
