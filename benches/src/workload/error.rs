//! What can be wrong with a workload. All of it is wrong usage: exit code 2.

use std::path::PathBuf;

use super::properties::Origin;

/// A workload that cannot be run as written.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The file cannot be read.
    #[error("cannot read the workload file {}: {source}", path.display())]
    Unreadable {
        /// The file named by `-P`.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line or a `-p` that is no `name=value`.
    #[error("{origin}: expected name=value, found \"{text}\"")]
    Syntax {
        /// Where.
        origin: Origin,
        /// What stands there.
        text: String,
    },
    /// A name that is neither YCSB's nor Farside's.
    #[error("{origin}: unknown property \"{name}\"{}", did_you_mean(suggestion.as_deref()))]
    Unknown {
        /// Where.
        origin: Origin,
        /// The name as written.
        name: String,
        /// The known name that is closest, if one is close.
        suggestion: Option<String>,
    },
    /// A file that gives one property two values.
    #[error("{second}: \"{name}\" already has another value on {first}; keep one of them")]
    Repeated {
        /// The property.
        name: String,
        /// Where it stands first.
        first: Origin,
        /// Where it stands again.
        second: Origin,
    },
    /// A value that the property cannot have.
    #[error("{origin}: {name}={value}: expected {expected}")]
    BadValue {
        /// Where.
        origin: Origin,
        /// The property.
        name: String,
        /// The value as written.
        value: String,
        /// What would be right.
        expected: String,
    },
    /// A YCSB property whose value asks for what is not there.
    #[error("{origin}: {name}={value} is not supported: {reason}")]
    Unsupported {
        /// Where.
        origin: Origin,
        /// The property.
        name: String,
        /// The value as written.
        value: String,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// `recordcount` is missing.
    #[error("recordcount is not set; give the number of records with -p recordcount=N or in a -P file")]
    NoRecords,
    /// Values that do not go together.
    #[error("{0}")]
    Contradiction(String),
    /// `--workload` names none of YCSB's.
    #[error("unknown workload \"{0}\"; there are a, b, c, d, e and f, and -P FILE for your own")]
    NoSuchWorkload(String),
}

/// The end of a message, for the name that was probably meant.
pub(super) fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map(|name| format!("; did you mean \"{name}\"?")).unwrap_or_default()
}
