//! SIGINT and SIGTERM end a phase; what was measured is still printed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Whether the job is to stop, and why.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    requested: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Stop {
    /// Set by the signals from now on. A second one ends the process at once.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn on_signals() -> io::Result<Self> {
        let stop = Self::default();
        let first_came = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag unset, and sets it for the second.
            flag::register_conditional_default(signal, first_came.clone())?;
            flag::register(signal, first_came.clone())?;
            flag::register(signal, stop.requested.clone())?;
            flag::register_usize(signal, stop.signal.clone(), signal as usize)?;
        }
        Ok(stop)
    }

    /// The flag that ends a phase.
    #[must_use]
    pub fn flag(&self) -> &AtomicBool {
        &self.requested
    }

    /// The signal that came, if one did.
    #[must_use]
    pub fn signal(&self) -> Option<u8> {
        u8::try_from(self.signal.load(Ordering::Relaxed)).ok().filter(|&signal| signal != 0)
    }
}
