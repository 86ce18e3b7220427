//! What a fabric can do, as data: asked once for each connection, shown to people, and the base on which each kind
//! of operation is one-sided or two-sided.

use farside_protocol::Authority;
pub use farside_protocol::wire::AtomicScope;
use farside_protocol::wire::Rights;
use std::fmt;

/// The variable that takes capabilities away, for tests.
pub const DENY_VARIABLE: &str = "FARSIDE_DENY";

/// What one connection of a fabric can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// READ without the server's CPU.
    pub read: bool,
    /// WRITE without the server's CPU.
    pub write: bool,
    /// Compare-and-swap without the server's CPU.
    pub atomics: AtomicScope,
    /// The steps of a chain execute in order, each after the one before it is visible. Where they do not, each
    /// step is posted on its own.
    pub ordered: bool,
}

/// How an operation reaches the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Path {
    /// The client reads and changes the table's memory itself.
    OneSided,
    /// The server's CPU does it when asked.
    TwoSided,
}

impl Path {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OneSided => "one-sided",
            Self::TwoSided => "two-sided",
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Capabilities {
    /// None at all: the two-sided path alone.
    pub const NONE: Self = Self { read: false, write: false, atomics: AtomicScope::None, ordered: false };

    /// How lookups go.
    pub const fn reads(&self) -> Path {
        if self.read { Path::OneSided } else { Path::TwoSided }
    }

    /// How changes go in a shard whose words `authority` may change, in a session with `rights`.
    pub const fn updates(&self, authority: Authority, rights: Rights) -> Path {
        let may_swap = matches!(
            (authority, self.atomics),
            (Authority::Nic, AtomicScope::Device) | (Authority::Coherent, AtomicScope::Global)
        );
        if self.read && self.write && may_swap && matches!(rights, Rights::ReadWrite) {
            Path::OneSided
        } else {
            Path::TwoSided
        }
    }

    /// What is left of these without `denied`.
    #[must_use]
    pub const fn without(self, denied: Denied) -> Self {
        Self {
            read: self.read && !denied.read,
            write: self.write && !denied.write,
            atomics: if denied.atomic { AtomicScope::None } else { self.atomics },
            ordered: self.ordered && !denied.order,
        }
    }
}

/// Capabilities that are not to be used although the fabric has them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Denied {
    /// One-sided compare-and-swap.
    pub atomic: bool,
    /// One-sided WRITE.
    pub write: bool,
    /// One-sided READ.
    pub read: bool,
    /// Reliance on the order of a chain's steps.
    pub order: bool,
}

/// A word that names no capability.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{DENY_VARIABLE}: unknown capability `{word}`; use a comma-separated list of atomic, write, read, order"
)]
pub struct DenyError {
    word: String,
}

impl Denied {
    /// What [`DENY_VARIABLE`] takes away; unset takes nothing. To be asked once, when a client is built.
    pub fn from_env() -> Result<Self, DenyError> {
        match std::env::var_os(DENY_VARIABLE) {
            Some(list) => Self::parse(&list.to_string_lossy()),
            None => Ok(Self::default()),
        }
    }

    /// Parses a list such as `atomic,order`. Blanks around a word and empty words are let pass.
    pub fn parse(list: &str) -> Result<Self, DenyError> {
        let mut denied = Self::default();
        for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match word {
                "atomic" => denied.atomic = true,
                "write" => denied.write = true,
                "read" => denied.read = true,
                "order" => denied.order = true,
                _ => return Err(DenyError { word: word.into() }),
            }
        }
        Ok(denied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Capabilities =
        Capabilities { read: true, write: true, atomics: AtomicScope::Global, ordered: true };

    #[test]
    fn a_list_denies_what_it_names_and_an_unknown_word_is_an_error() {
        assert_eq!(Denied::parse(""), Ok(Denied::default()));
        let denied = Denied::parse(" atomic, order,").unwrap();
        assert_eq!(denied, Denied { atomic: true, order: true, ..Denied::default() });
        let error = Denied::parse("atomic,atomics").unwrap_err().to_string();
        assert!(error.contains("`atomics`") && error.contains("atomic, write, read, order"), "{error}");
    }

    #[test]
    fn denying_only_takes_away() {
        for bits in 0..16u8 {
            let denied = Denied {
                atomic: bits & 1 != 0,
                write: bits & 2 != 0,
                read: bits & 4 != 0,
                order: bits & 8 != 0,
            };
            assert_eq!(Capabilities::NONE.without(denied), Capabilities::NONE);
            let left = ALL.without(denied);
            assert_eq!(
                (left.atomics == AtomicScope::Global, left.write, left.read, left.ordered),
                (!denied.atomic, !denied.write, !denied.read, !denied.order)
            );
            let needed = !(denied.atomic || denied.write || denied.read);
            assert_eq!(left.updates(Authority::Coherent, Rights::ReadWrite) == Path::OneSided, needed);
        }
    }

    /// NIC and CPU atomics must never meet on one word.
    #[test]
    fn updates_are_one_sided_only_where_the_atomics_are_the_authoritys() {
        for (authority, atomics, path) in [
            (Authority::Nic, AtomicScope::Device, Path::OneSided),
            (Authority::Nic, AtomicScope::Global, Path::TwoSided),
            (Authority::Coherent, AtomicScope::Device, Path::TwoSided),
            (Authority::Coherent, AtomicScope::Global, Path::OneSided),
            (Authority::Cpu, AtomicScope::Global, Path::TwoSided),
            (Authority::Cpu, AtomicScope::Device, Path::TwoSided),
        ] {
            let capabilities = Capabilities { atomics, ..ALL };
            assert_eq!(capabilities.updates(authority, Rights::ReadWrite), path);
            assert_eq!(capabilities.updates(authority, Rights::Read), Path::TwoSided);
            assert_eq!(capabilities.reads(), Path::OneSided);
        }
    }
}
