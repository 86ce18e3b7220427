//! What operations take and answer.

use farside_protocol::record::FLAG_COUNTER;
use farside_protocol::{Version, wire};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use farside_protocol::wire::Condition;

/// What is known of a value beside its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Meta {
    version: Version,
    expires_at_ms: u64,
    flags: u16,
}

impl Meta {
    pub(crate) const fn new(version: Version, expires_at_ms: u64, flags: u16) -> Self {
        Self { version, expires_at_ms, flags }
    }

    /// The version: the token for [`compare_exchange`](crate::Client::compare_exchange) and
    /// [`delete_if`](crate::Client::delete_if). Unique for each publication of a value, not ordered.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// When the value expires, `None`: never.
    pub fn expires_at(&self) -> Option<SystemTime> {
        (self.expires_at_ms != 0).then(|| UNIX_EPOCH + Duration::from_millis(self.expires_at_ms))
    }

    /// Whether the value is a counter, made and changed by [`fetch_add`](crate::Client::fetch_add).
    pub const fn is_counter(&self) -> bool {
        self.flags & FLAG_COUNTER != 0
    }
}

/// A value that was read: its bytes, to which it dereferences, and what is known of them.
///
/// The [`Client`](crate::Client) answers with bytes of the caller's own, `Value<Vec<u8>>`; the
/// [`Session`](crate::Session) lends those it read, `Value<&[u8]>`.
///
/// ```
/// # let farside = farside::embedded()?;
/// let mut session = farside.session()?;
/// session.put("greeting", "hello")?;
/// let value = session.get("greeting")?.expect("it was just stored");
/// assert_eq!(&*value, b"hello");
/// assert_eq!(value.expires_at(), None);
/// # Ok::<(), farside::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Value<B = Vec<u8>> {
    bytes: B,
    meta: Meta,
}

impl<B: AsRef<[u8]>> Value<B> {
    pub(crate) const fn new(bytes: B, meta: Meta) -> Self {
        Self { bytes, meta }
    }

    /// The same with bytes of its own.
    pub fn into_owned(self) -> Value {
        Value { bytes: self.bytes.as_ref().into(), meta: self.meta }
    }

    /// The same with its bytes lent.
    pub(crate) fn lend(&self) -> Value<&[u8]> {
        Value { bytes: self.bytes.as_ref(), meta: self.meta }
    }

    /// The bytes alone.
    pub fn into_bytes(self) -> B {
        self.bytes
    }

    /// What is known of the value beside its bytes.
    pub const fn meta(&self) -> Meta {
        self.meta
    }

    /// See [`Meta::version`].
    pub const fn version(&self) -> Version {
        self.meta.version()
    }

    /// See [`Meta::expires_at`].
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.meta.expires_at()
    }

    /// The number, if the value is a counter.
    pub fn counter(&self) -> Option<i64> {
        if !self.meta.is_counter() {
            return None;
        }
        self.bytes.as_ref().try_into().ok().map(i64::from_le_bytes)
    }
}

impl<B: AsRef<[u8]>> std::ops::Deref for Value<B> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Value<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

/// How a value is stored. The default: for ever, whatever was there.
///
/// ```
/// use farside::{PutOptions, Put};
/// use std::time::Duration;
/// # let farside = farside::embedded()?;
/// let mut session = farside.session()?;
/// let lock = PutOptions::new().ttl(Duration::from_secs(30)).if_absent();
/// assert!(matches!(session.put_with("lock", "me", lock)?, Put::Stored { .. }));
/// assert!(matches!(session.put_with("lock", "you", lock)?, Put::Mismatch { current: Some(_) }));
/// # Ok::<(), farside::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub struct PutOptions {
    pub(crate) ttl: Option<Duration>,
    pub(crate) condition: Condition,
}

impl Default for PutOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl PutOptions {
    /// For ever, whatever was there.
    pub const fn new() -> Self {
        Self { ttl: None, condition: Condition::Always }
    }

    /// The value expires after `ttl`, counted in whole milliseconds and at least one. Readers see it go within
    /// the error of their wall clocks.
    pub const fn ttl(self, ttl: Duration) -> Self {
        Self { ttl: Some(ttl), ..self }
    }

    /// Only if the key is absent.
    pub const fn if_absent(self) -> Self {
        self.condition(Condition::Absent)
    }

    /// Only if the key's current version is `version`.
    pub const fn if_version(self, version: Version) -> Self {
        self.condition(Condition::Version(version))
    }

    /// Only if `condition` holds.
    pub const fn condition(self, condition: Condition) -> Self {
        Self { condition, ..self }
    }
}

/// How a PUT ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub enum Put {
    /// The value is stored.
    Stored {
        /// Its version.
        version: Version,
    },
    /// The value was stored and another unconditional change came right behind it: there never was a moment for
    /// others to see it, and it has no version. Only unconditional PUTs end so.
    Absorbed,
    /// The condition does not hold; nothing was changed.
    Mismatch {
        /// The key's current version; `None`: it is absent.
        current: Option<Version>,
    },
}

impl Put {
    /// The version that was stored, if one was.
    pub const fn version(self) -> Option<Version> {
        match self {
            Self::Stored { version } => Some(version),
            Self::Absorbed | Self::Mismatch { .. } => None,
        }
    }
}

/// How a conditional DELETE ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub enum Delete {
    /// This operation deleted the key.
    Deleted,
    /// There was nothing to delete.
    Absent,
    /// The key has another version; nothing was changed.
    Mismatch {
        /// That version.
        current: Version,
    },
}

/// When a value stored with `ttl` at `now_ms`, which is asked for only with one, expires: milliseconds of the Unix epoch;
/// 0: never.
pub(crate) fn expires_at_ms(ttl: Option<Duration>, now_ms: impl FnOnce() -> u64) -> u64 {
    ttl.map_or(0, |ttl| now_ms().saturating_add(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).max(1)))
}

/// One figure or fact about a server, as its metrics name it.
pub type Statistic = wire::Statistic;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_shorter_than_a_millisecond_still_expires() {
        assert_eq!(expires_at_ms(None, || 1000), 0);
        assert_eq!(expires_at_ms(Some(Duration::from_nanos(1)), || 1000), 1001);
        assert_eq!(expires_at_ms(Some(Duration::from_secs(5)), || 1000), 6000);
        assert_eq!(expires_at_ms(Some(Duration::MAX), || 1000), u64::MAX);
    }

    #[test]
    fn only_counters_have_a_number() {
        let version = Version::from_bits(1);
        let eight = 7i64.to_le_bytes();
        assert_eq!(Value::new(&eight[..], Meta::new(version, 0, FLAG_COUNTER)).counter(), Some(7));
        assert_eq!(Value::new(&eight[..], Meta::new(version, 0, 0)).counter(), None);
    }
}
