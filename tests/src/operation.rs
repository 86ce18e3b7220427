//! The operations on one key and what they can report: the vocabulary of model, history and checker.

use std::fmt;
use std::hash::Hash;

/// A moment on the one clock that a test uses: nanoseconds, milliseconds or simulation steps.
pub type Time = u64;

/// The opaque token that names one publication of a value. Tokens are compared, never ordered.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version(pub u64);

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:x}", self.0)
    }
}

/// What a key can hold in a test.
///
/// `u64` suits histories: give every publication its own number and derive the bytes that are stored from it,
/// so that the harness can check the bytes and the checker sees only the number.
/// [`Content`](crate::content::Content) suits comparisons byte for byte.
pub trait Value: Clone + Eq + Hash + fmt::Debug {
    /// The value that FETCH-ADD stores for the number `count`.
    fn from_counter(count: u64) -> Self;

    /// The number FETCH-ADD adds to, or `None` if this value is not a counter.
    fn counter(&self) -> Option<u64>;
}

impl Value for u64 {
    fn from_counter(count: u64) -> Self {
        count
    }

    fn counter(&self) -> Option<u64> {
        Some(*self)
    }
}

/// What a client asks of one key.
///
/// `expires_at` is the moment from which the value counts as absent; `None` keeps it until it is replaced.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operation<V> {
    /// Read the value.
    Get,
    /// Store `value` whatever is there.
    Put {
        /// The value to store.
        value: V,
        /// When it expires.
        expires_at: Option<Time>,
    },
    /// Store `value` if the key is absent.
    PutIfAbsent {
        /// The value to store.
        value: V,
        /// When it expires.
        expires_at: Option<Time>,
    },
    /// Store `value` if the key holds the publication `expected`.
    CompareExchange {
        /// The version the key must have.
        expected: Version,
        /// The value to store.
        value: V,
        /// When it expires.
        expires_at: Option<Time>,
    },
    /// Add `delta`, wrapping; an absent key counts as 0, and an expiry is kept.
    FetchAdd {
        /// The number to add.
        delta: u64,
    },
    /// Remove the value.
    Delete,
}

impl<V> Operation<V> {
    /// The value this operation would store, if the caller names one.
    pub fn value(&self) -> Option<&V> {
        match self {
            Self::Put { value, .. }
            | Self::PutIfAbsent { value, .. }
            | Self::CompareExchange { value, .. } => Some(value),
            Self::Get | Self::FetchAdd { .. } | Self::Delete => None,
        }
    }

    /// Whether `outcome` is of a kind this operation can report at all.
    pub fn can_report(&self, outcome: &Outcome<V>) -> bool {
        match self {
            Self::Get => matches!(outcome, Outcome::Found { .. } | Outcome::NotFound),
            Self::Put { .. } => matches!(outcome, Outcome::Stored { .. }),
            Self::PutIfAbsent { .. } => matches!(outcome, Outcome::Stored { .. } | Outcome::Exists),
            Self::CompareExchange { .. } => matches!(outcome, Outcome::Stored { .. } | Outcome::Mismatch),
            Self::FetchAdd { .. } => matches!(outcome, Outcome::Added { .. } | Outcome::NotACounter),
            Self::Delete => matches!(outcome, Outcome::Deleted | Outcome::NotFound | Outcome::Absent),
        }
    }
}

impl<V: fmt::Debug> fmt::Display for Operation<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expiry = match self {
            Self::Get => return f.write_str("get"),
            Self::Delete => return f.write_str("delete"),
            Self::FetchAdd { delta } => return write!(f, "fetch-add {delta}"),
            Self::Put { value, expires_at } => {
                write!(f, "put {value:?}")?;
                expires_at
            }
            Self::PutIfAbsent { value, expires_at } => {
                write!(f, "put-if-absent {value:?}")?;
                expires_at
            }
            Self::CompareExchange { expected, value, expires_at } => {
                write!(f, "compare-exchange {expected:?} to {value:?}")?;
                expires_at
            }
        };
        match expiry {
            Some(time) => write!(f, " until {time}"),
            None => Ok(()),
        }
    }
}

/// What an operation that took effect reports. A version of `None` was not reported.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome<V> {
    /// Get: the value and the version that names its publication.
    Found {
        /// The value read.
        value: V,
        /// Its version.
        version: Option<Version>,
    },
    /// Get: the key is absent. Delete: it was absent already.
    NotFound,
    /// Put, put-if-absent, compare-exchange: the value was published. An absorbed put reports no version.
    Stored {
        /// The version of the new publication.
        version: Option<Version>,
    },
    /// Put-if-absent: the key is present; nothing was changed.
    Exists,
    /// Compare-exchange: the key is absent or has another version; nothing was changed.
    Mismatch,
    /// Fetch-add: the sum was published.
    Added {
        /// The number before the addition.
        previous: u64,
        /// The version of the new publication.
        version: Option<Version>,
    },
    /// Fetch-add: the value is not a counter; nothing was changed.
    NotACounter,
    /// Delete: this operation removed the value.
    Deleted,
    /// Delete: the key was absent afterwards; whether this operation removed it was not reported.
    Absent,
}

impl<V> Outcome<V> {
    /// Whether this outcome says that its operation left the key as it was.
    pub fn changed_nothing(&self) -> bool {
        match self {
            Self::Found { .. } | Self::NotFound | Self::Exists | Self::Mismatch | Self::NotACounter => true,
            Self::Stored { .. } | Self::Added { .. } | Self::Deleted | Self::Absent => false,
        }
    }

    /// The version this outcome reports for a publication of its own operation.
    pub fn published(&self) -> Option<Version> {
        match self {
            Self::Stored { version } | Self::Added { version, .. } => *version,
            _ => None,
        }
    }
}

impl<V: Value> Outcome<V> {
    /// Whether a caller who was told `self` was told the truth, though maybe not all of it, when `exact` is
    /// what happened.
    pub fn agrees_with(&self, exact: &Self) -> bool {
        match (self, exact) {
            (Self::Found { value, version }, Self::Found { value: exact_value, version: exact_version }) => {
                value == exact_value && (version.is_none() || version == exact_version)
            }
            (Self::Stored { version }, Self::Stored { version: exact_version }) => {
                version.is_none() || version == exact_version
            }
            (
                Self::Added { previous, version },
                Self::Added { previous: exact_previous, version: exact_version },
            ) => previous == exact_previous && (version.is_none() || version == exact_version),
            (Self::Absent, Self::Deleted | Self::NotFound) => true,
            _ => self == exact,
        }
    }
}

impl<V: fmt::Debug> fmt::Display for Outcome<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = match self {
            Self::Found { value, version } => {
                write!(f, "{value:?}")?;
                version
            }
            Self::Stored { version } => {
                f.write_str("stored")?;
                version
            }
            Self::Added { previous, version } => {
                write!(f, "was {previous}")?;
                version
            }
            Self::NotFound => return f.write_str("not found"),
            Self::Exists => return f.write_str("exists"),
            Self::Mismatch => return f.write_str("mismatch"),
            Self::NotACounter => return f.write_str("not a counter"),
            Self::Deleted => return f.write_str("deleted"),
            Self::Absent => return f.write_str("absent now"),
        };
        match version {
            Some(version) => write!(f, " {version:?}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_may_tell_less_than_all_but_nothing_else() {
        let exact = Outcome::Found { value: 1_u64, version: Some(Version(7)) };
        assert!(Outcome::Found { value: 1, version: None }.agrees_with(&exact));
        assert!(!Outcome::Found { value: 1, version: Some(Version(8)) }.agrees_with(&exact));
        assert!(!Outcome::Found { value: 2, version: None }.agrees_with(&exact));
        assert!(Outcome::<u64>::Absent.agrees_with(&Outcome::Deleted));
        assert!(Outcome::<u64>::Absent.agrees_with(&Outcome::NotFound));
        assert!(!Outcome::<u64>::Deleted.agrees_with(&Outcome::NotFound));
    }

    #[test]
    fn operations_and_outcomes_read_as_one_line() {
        let operation =
            Operation::CompareExchange { expected: Version(26), value: 5_u64, expires_at: Some(90) };
        assert_eq!(operation.to_string(), "compare-exchange #1a to 5 until 90");
        assert_eq!(Outcome::Added::<u64> { previous: 3, version: Some(Version(2)) }.to_string(), "was 3 #2");
    }
}
