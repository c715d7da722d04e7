//! `tierloom_model._native`: the model as the package `tierloom` has it, without the SQL engine.

use pyo3::pymodule;

/// The native part of the package `tierloom_model`.
#[pymodule]
mod _native {
    use pyo3::prelude::*;
    #[pymodule_export]
    use tierloom_python_calls::{Error, InputError, document, machine, machines};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
