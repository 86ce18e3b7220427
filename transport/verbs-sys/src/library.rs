//! Opening the two libraries.

use crate::context::Context;
use crate::ffi::{Ibverbs, Rdmacm};
use libloading::Library;
use parking_lot::Mutex;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Why there are no verbs here.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A library is not installed.
    #[error(
        "{library} cannot be loaded; install rdma-core's libraries: `apt install libibverbs1 ibverbs-providers librdmacm1`, or `dnf install rdma-core libibverbs librdmacm` ({source})"
    )]
    Missing {
        /// Its name.
        library: &'static str,
        /// What the dynamic linker said.
        source: libloading::Error,
    },
    /// A library is there but lacks a function.
    #[error("{library} is too old, it lacks a function; install rdma-core 17 or newer ({source})")]
    TooOld {
        /// Its name.
        library: &'static str,
        /// Which function.
        source: libloading::Error,
    },
}

/// libibverbs and librdmacm, loaded. There is one for the process, and it stays: providers leave threads and
/// callbacks behind that unloading would pull the ground from under.
pub struct Verbs {
    pub(crate) ibv: Ibverbs,
    pub(crate) cm: Rdmacm,
    /// The devices that librdmacm opened and has connected over, which stay open too.
    pub(crate) of_cm: Mutex<Vec<Arc<Context>>>,
}

static LOADED: OnceLock<Verbs> = OnceLock::new();

impl Verbs {
    /// The loaded libraries; loads them when first called. After a failure it may be called again.
    pub fn load() -> Result<&'static Self, LoadError> {
        if let Some(verbs) = LOADED.get() {
            return Ok(verbs);
        }
        let ibv = open("libibverbs.so.1", Ibverbs::find)?;
        let cm = open("librdmacm.so.1", Rdmacm::find)?;
        Ok(LOADED.get_or_init(|| Self { ibv, cm, of_cm: Mutex::default() }))
    }
}

fn open<F>(name: &'static str, find: fn(&Library) -> Result<F, libloading::Error>) -> Result<F, LoadError> {
    // SAFETY: these libraries' initialization is meant to run on loading, in any thread.
    let library =
        unsafe { Library::new(name) }.map_err(|source| LoadError::Missing { library: name, source })?;
    let functions = find(&library).map_err(|source| LoadError::TooOld { library: name, source })?;
    std::mem::forget(library);
    Ok(functions)
}

impl fmt::Debug for Verbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verbs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_an_error_that_names_the_packages() {
        let Err(error) = open("libibverbs-of-nowhere.so.1", Ibverbs::find) else { panic!("it is there") };
        let error = error.to_string();
        assert!(error.contains("libibverbs-of-nowhere.so.1 cannot be loaded"), "{error}");
        assert!(error.contains("libibverbs1") && error.contains("librdmacm1"), "{error}");
        assert!(error.contains("rdma-core"), "{error}");
    }

    #[test]
    fn a_library_without_the_functions_is_too_old() {
        let Err(error) = open("libc.so.6", Ibverbs::find) else { panic!("libc has verbs") };
        assert!(matches!(error, LoadError::TooOld { .. }), "{error}");
    }
}
