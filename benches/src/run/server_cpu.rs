//! Processor time that the store's servers use during a phase.

use std::time::Duration;

use crate::target::Target;

/// Measures from its start, or restart, on. Asking costs the server time too (it counts its keys to answer); what one
/// question costs is measured before and taken off.
#[derive(Debug)]
pub struct ServerCpu<'a, T> {
    target: &'a T,
    price: Duration,
    from: Option<Duration>,
}

impl<'a, T: Target> ServerCpu<'a, T> {
    /// Asks twice, and starts.
    #[must_use]
    pub fn start(target: &'a T) -> Self {
        let (first, second) = (target.server_cpu(), target.server_cpu());
        let price = second.zip(first).map_or(Duration::ZERO, |(second, first)| second.saturating_sub(first));
        Self { target, price, from: second }
    }

    /// Starts again from now.
    pub fn restart(&mut self) {
        self.from = self.target.server_cpu();
    }

    /// What was used since; none if the store does not tell.
    #[must_use]
    pub fn used(&self) -> Option<Duration> {
        let until = self.target.server_cpu()?;
        Some(until.saturating_sub(self.from?).saturating_sub(self.price))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

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

        fn server_cpu(&self) -> Option<Duration> {
            Some(Duration::from_nanos(self.0.fetch_add(100, Ordering::Relaxed) + 100))
        }
    }

    #[test]
    fn the_price_of_asking_is_taken_off() {
        let store = Asked(AtomicU64::new(0));
        let mut cpu = ServerCpu::start(&store);
        store.0.fetch_add(7, Ordering::Relaxed);
        assert_eq!(cpu.used(), Some(Duration::from_nanos(7)));
        cpu.restart();
        store.0.fetch_add(30, Ordering::Relaxed);
        assert_eq!(cpu.used(), Some(Duration::from_nanos(30)));
    }

    #[test]
    fn a_store_that_does_not_tell_has_no_figure() {
        assert_eq!(ServerCpu::start(&Papaya::new()).used(), None);
    }
}
