//! `tierloom._native`: what the package of Python is made of.
//!
//! ```text
//!   Python thread ── Job ──► engine thread: SqlSession      (worker)
//!        ▲                        │ batches, at most a few ahead
//!        └──── Batches ◄──────────┘                         (stream)
//! ```
//! A connection has a thread of its own for its session. Calls wait for it without the
//! interpreter's lock and look for signals meanwhile. Nothing is started when the package is
//! imported.

mod adapt;
mod connection;
mod error;
mod report;
mod result;
mod shared;
mod stream;
mod turn;
mod wait;
mod worker;

use pyo3::pymodule;
use tierloom_memory::router::TierAllocator;

/// Serves the Rust code of this library alone; Python and other libraries keep theirs.
#[global_allocator]
static ALLOCATOR: TierAllocator<mimalloc::MiMalloc> = TierAllocator::new(mimalloc::MiMalloc);

/// The native part of the package `tierloom`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::connection::Connection;
    #[pymodule_export]
    use super::error::{Error, InputError};
    #[pymodule_export]
    use super::report::report;
    #[pymodule_export]
    use super::result::{Batch, Rows, Table};
    use pyo3::prelude::*;
    #[pymodule_export]
    use tierloom_python_calls::{document, machine, machines};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
