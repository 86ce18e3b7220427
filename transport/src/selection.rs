//! Which transport was asked for, which is in use, and why it is not a better one. A named transport works or
//! fails; only `auto` chooses.

use crate::capabilities::{AtomicScope, Path};
use std::fmt;
use std::str::FromStr;

/// What was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum TransportChoice {
    /// The best that works: shared memory on the server's host, else RDMA verbs if the server has a device and this
    /// host reaches it, else TCP.
    #[default]
    Auto,
    /// Shared memory.
    Shm,
    /// RDMA verbs.
    Verbs,
    /// libfabric.
    Fabric,
    /// TCP.
    Tcp,
}

/// A word that names no transport.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown transport `{word}`; use auto, shm, verbs or tcp")]
pub struct UnknownTransport {
    word: String,
}

/// A transport that this build does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("this build has no transport `{0}`; use auto, shm, verbs or tcp")]
pub struct NotBuilt(pub TransportChoice);

impl TransportChoice {
    const ALL: [Self; 5] = [Self::Auto, Self::Shm, Self::Verbs, Self::Fabric, Self::Tcp];

    /// Its name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Shm => "shm",
            Self::Verbs => "verbs",
            Self::Fabric => "fabric",
            Self::Tcp => "tcp",
        }
    }

    /// Whether this build can do what was asked for. To be asked before anything is tried.
    pub fn check_built(self) -> Result<(), NotBuilt> {
        match self {
            Self::Fabric => Err(NotBuilt(self)),
            Self::Auto | Self::Shm | Self::Verbs | Self::Tcp => Ok(()),
        }
    }
}

impl fmt::Display for TransportChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TransportChoice {
    type Err = UnknownTransport;

    fn from_str(word: &str) -> Result<Self, UnknownTransport> {
        let known = Self::ALL.into_iter().find(|choice| choice.name() == word);
        known.ok_or_else(|| UnknownTransport { word: word.into() })
    }
}

/// The transports of this build.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Transport {
    /// Shared memory.
    Shm,
    /// RDMA verbs.
    Verbs,
    /// TCP, or requests over a Unix socket.
    Tcp,
}

impl Transport {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Verbs => "verbs",
            Self::Tcp => "tcp",
        }
    }
}

/// What a session runs over. Shown to people in one line, and part of every report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Active {
    /// The transport.
    pub transport: Transport,
    /// Where the session's connection leads, as an address is written.
    pub peer: String,
    /// The device, its port and provider, on a transport that has them.
    pub device: Option<String>,
    /// To what its atomics are atomic.
    pub atomics: AtomicScope,
    /// How lookups go.
    pub reads: Path,
    /// How changes go.
    pub updates: Path,
    /// For each better transport, and for each path that is two-sided where it could be one-sided: why.
    pub reasons: Vec<String>,
}

impl Active {
    /// `path` in words, with what carries requests where the transport's name does not say that.
    const fn words(&self, path: Path) -> &'static str {
        match (self.transport, path) {
            (Transport::Verbs, Path::TwoSided) => "two-sided over SEND/RECV",
            _ => path.name(),
        }
    }
}

impl fmt::Display for Active {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.transport.name(), self.peer)?;
        if let Some(device) = &self.device {
            write!(f, " on {device}")?;
        }
        let (reads, updates) = (self.words(self.reads), self.words(self.updates));
        write!(f, ": reads {reads}, updates {updates}, atomics {}", self.atomics.name())?;
        if !self.reasons.is_empty() {
            write!(f, " (not better because: {})", self.reasons.join("; "))?;
        }
        Ok(())
    }
}

/// What a session must be able to do, or not run at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Require {
    /// Lookups without the server's CPU.
    OneSidedReads,
    /// Changes without the server's CPU, and therefore lookups too.
    OneSidedUpdates,
}

/// A word that names no requirement.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown requirement `{word}`; use one-sided-reads or one-sided-updates")]
pub struct UnknownRequirement {
    word: String,
}

/// A requirement that the session does not meet.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{require} is required, but the session would run over {active}")]
pub struct Unmet {
    /// What was required.
    pub require: Require,
    /// What there would be.
    pub active: Box<Active>,
}

impl Require {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OneSidedReads => "one-sided-reads",
            Self::OneSidedUpdates => "one-sided-updates",
        }
    }

    /// Whether `active` meets it.
    pub fn check(self, active: &Active) -> Result<(), Unmet> {
        let met = match self {
            Self::OneSidedReads => active.reads == Path::OneSided,
            Self::OneSidedUpdates => active.reads == Path::OneSided && active.updates == Path::OneSided,
        };
        if met { Ok(()) } else { Err(Unmet { require: self, active: Box::new(active.clone()) }) }
    }
}

impl fmt::Display for Require {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Require {
    type Err = UnknownRequirement;

    fn from_str(word: &str) -> Result<Self, UnknownRequirement> {
        let known =
            [Self::OneSidedReads, Self::OneSidedUpdates].into_iter().find(|known| known.name() == word);
        known.ok_or_else(|| UnknownRequirement { word: word.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn active(reads: Path, updates: Path) -> Active {
        Active {
            transport: Transport::Tcp,
            peer: "cache-1:7471".into(),
            device: None,
            atomics: AtomicScope::None,
            reads,
            updates,
            reasons: vec!["shm: the server runs on another host".into()],
        }
    }

    #[test]
    fn names_parse_and_others_are_refused() {
        for choice in TransportChoice::ALL {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
        let error = "rdma".parse::<TransportChoice>().unwrap_err().to_string();
        assert_eq!(error, "unknown transport `rdma`; use auto, shm, verbs or tcp");
        for require in [Require::OneSidedReads, Require::OneSidedUpdates] {
            assert_eq!(require.to_string().parse(), Ok(require));
        }
        assert!("one-sided".parse::<Require>().unwrap_err().to_string().contains("one-sided-reads"));
    }

    #[test]
    fn a_transport_that_is_not_built_is_said_to_be() {
        for choice in TransportChoice::ALL {
            assert_eq!(choice.check_built().is_ok(), choice != TransportChoice::Fabric);
        }
        let error = TransportChoice::Fabric.check_built().unwrap_err().to_string();
        assert_eq!(error, "this build has no transport `fabric`; use auto, shm, verbs or tcp");
    }

    #[test]
    fn requirements_hold_a_session_to_its_paths() {
        use Path::{OneSided, TwoSided};
        for (reads, updates, reads_met, updates_met) in [
            (OneSided, OneSided, true, true),
            (OneSided, TwoSided, true, false),
            (TwoSided, OneSided, false, false),
            (TwoSided, TwoSided, false, false),
        ] {
            let active = active(reads, updates);
            assert_eq!(Require::OneSidedReads.check(&active).is_ok(), reads_met);
            assert_eq!(Require::OneSidedUpdates.check(&active).is_ok(), updates_met);
        }
    }

    #[test]
    fn one_line_says_what_runs_and_why_not_better() {
        let line = active(Path::TwoSided, Path::TwoSided).to_string();
        assert_eq!(
            line,
            "tcp at cache-1:7471: reads two-sided, updates two-sided, atomics none \
             (not better because: shm: the server runs on another host)"
        );
        let device = Some("siw0 port 1".into());
        let verbs = Active { transport: Transport::Verbs, device, ..active(Path::OneSided, Path::TwoSided) }
            .to_string();
        let says = "verbs at cache-1:7471 on siw0 port 1: reads one-sided, updates two-sided over SEND/RECV, atomics";
        assert!(verbs.starts_with(says), "{verbs}");
        let unmet = Require::OneSidedReads.check(&active(Path::TwoSided, Path::TwoSided)).unwrap_err();
        assert!(unmet.to_string().starts_with("one-sided-reads is required, but"));
    }
}
