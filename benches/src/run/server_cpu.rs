//! Processor time that the store's servers use during a phase.

use crate::target::{ServerCpu, Target};

/// Reads it from its start, or restart, on. Asking costs the server time too (it counts its keys to answer); what one
/// question costs is measured before and taken off.
#[derive(Debug)]
pub struct CpuMeter<'a, T> {
    target: &'a T,
    price: ServerCpu,
    from: Option<ServerCpu>,
}

impl<'a, T: Target> CpuMeter<'a, T> {
    /// Asks twice, and starts.
    #[must_use]
    pub fn start(target: &'a T) -> Self {
        let (first, second) = (target.server_cpu(), target.server_cpu());
        let price = second.zip(first).map_or_else(ServerCpu::default, |(second, first)| second.since(&first));
        Self { target, price, from: second }
    }

    /// Starts again from now.
    pub fn restart(&mut self) {
        self.from = self.target.server_cpu();
    }

    /// What was used since; none if the store does not tell.
    #[must_use]
    pub fn used(&self) -> Option<ServerCpu> {
        let used = self.target.server_cpu()?.since(&self.from?);
        // Upkeep goes by time, not by questions.
        Some(ServerCpu { serving: used.serving.saturating_sub(self.price.serving), ..used })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::target::papaya::{Papaya, PapayaSession};
    use crate::target::{Description, SessionError};

    /// A store of which each question costs 100 ns.
    struct Asked(AtomicU64);

    impl Target for Asked {
        type Session<'a> = PapayaSession<'a>;

        fn description(&self) -> Description {
            Papaya::new().description()
        }

        fn session(&self) -> Result<PapayaSession<'_>, SessionError> {
            Err(SessionError("nobody asks for one".to_owned()))
        }

        fn server_cpu(&self) -> Option<ServerCpu> {
            let serving = Duration::from_nanos(self.0.fetch_add(100, Ordering::Relaxed) + 100);
            Some(ServerCpu { serving, upkeep: serving })
        }
    }

    #[test]
    fn the_price_of_asking_is_taken_off() {
        let store = Asked(AtomicU64::new(0));
        let mut cpu = CpuMeter::start(&store);
        let used = |serving, upkeep| {
            Some(ServerCpu { serving: Duration::from_nanos(serving), upkeep: Duration::from_nanos(upkeep) })
        };
        store.0.fetch_add(7, Ordering::Relaxed);
        assert_eq!(cpu.used(), used(7, 107));
        cpu.restart();
        store.0.fetch_add(30, Ordering::Relaxed);
        assert_eq!(cpu.used(), used(30, 130));
    }

    #[test]
    fn a_store_that_does_not_tell_has_no_figure() {
        assert_eq!(CpuMeter::start(&Papaya::new()).used(), None);
    }
}
