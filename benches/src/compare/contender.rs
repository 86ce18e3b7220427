//! A store that takes part: started, empty, to be measured.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::CompareError;
use super::process::{self, Process};
use super::servers;
use super::spec::Spec;
use crate::cli::{Compare, Db};
use crate::plan::Plan;
use crate::run::clock::MonotonicClock;
use crate::run::collector::Observer;
use crate::run::phase::Phase;
use crate::run::{self, Outcome, PhaseError};
use crate::signals::Stop;
use crate::store;
use crate::target::papaya::Papaya;
use crate::target::{Description, Target};

/// A target of any type.
pub(super) trait Measured {
    fn description(&self) -> Description;

    fn run(
        &self,
        phase: &Phase<'_>,
        clock: &MonotonicClock,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, PhaseError>;
}

impl<T: Target> Measured for Arc<T> {
    fn description(&self) -> Description {
        T::description(self)
    }

    fn run(
        &self,
        phase: &Phase<'_>,
        clock: &MonotonicClock,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, PhaseError> {
        run::run(&**self, phase, clock, stop, observer)
    }
}

/// A store that takes part. It goes, with its server, when this is dropped.
pub struct Contender {
    /// What it was called.
    pub spec: Spec,
    /// How its server was started, for people.
    pub started: String,
    /// Whether its memory is that of its records, and not of a process with all else that is in it.
    pub counts_its_own: bool,
    /// Of what its memory is measured, for people.
    pub memory_of: &'static str,
    // Before the server, of which they take leave.
    pub(super) target: Box<dyn Measured>,
    pub(super) memory: Box<dyn Fn() -> Option<u64>>,
    pub(super) _server: Option<Process>,
}

impl Contender {
    /// Starts it, empty, with what it keeps in `folder`.
    ///
    /// # Errors
    /// If it does not start, or a signal comes first.
    pub fn start(
        spec: Spec,
        plan: &Plan,
        flags: &Compare,
        folder: &Path,
        stop: &Stop,
    ) -> Result<Self, CompareError> {
        match spec.db {
            Db::Papaya => Ok(Self::here(spec, Papaya::new())),
            #[cfg(feature = "lmdb")]
            Db::Lmdb => Ok(Self::here(spec, store::lmdb(plan).map_err(Box::new)?)),
            #[cfg(not(feature = "lmdb"))]
            Db::Lmdb => Err(store::StoreError::NotBuilt.into()),
            Db::Farside => servers::farside(spec, plan, flags, folder, stop),
            Db::Redis => servers::redis(spec, flags, folder, stop),
            Db::Memcached => servers::memcached(spec, plan, flags, folder, stop),
        }
    }

    fn here<T: Target + 'static>(spec: Spec, target: T) -> Self {
        Self {
            spec,
            started: "a part of this process".to_owned(),
            counts_its_own: false,
            memory_of: "growth of this process",
            target: Box::new(Arc::new(target)),
            memory: Box::new(|| resident("self")),
            _server: None,
        }
    }

    /// The store and the way to it.
    #[must_use]
    pub fn description(&self) -> Description {
        self.target.description()
    }

    /// Bytes that it uses now, if that can be told.
    #[must_use]
    pub fn memory(&self) -> Option<u64> {
        (self.memory)()
    }

    /// Runs a phase on it.
    ///
    /// # Errors
    /// As [`run::run`].
    pub fn run(
        &self,
        phase: &Phase<'_>,
        clock: &MonotonicClock,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, PhaseError> {
        self.target.run(phase, clock, stop, observer)
    }
}

/// Whether what `spec` needs is there.
///
/// # Errors
/// If not.
pub fn check(spec: Spec, plan: &Plan) -> Result<(), CompareError> {
    store::check_workload(plan, spec.db)?;
    if !spec.programs.is_empty() && process::find(spec.programs).is_none() {
        return Err(CompareError::Missing(spec));
    }
    Ok(())
}

/// Bytes of memory of a process, by its number.
pub(super) fn resident(pid: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_process_is_told() {
        assert!(resident("self").is_some_and(|bytes| bytes > 1 << 20));
        assert_eq!(resident("nobody"), None);
    }
}
