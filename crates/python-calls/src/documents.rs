//! Documents of the model, and machine profiles.

use super::error::{self, Error};
use pyo3::prelude::*;
use tierloom_model::profiles;

/// The JSON document of `predict`, `tune` or `cost` with arguments as on the command line.
#[pyfunction]
pub fn document(py: Python<'_>, command: String, arguments: Vec<String>) -> PyResult<String> {
    let made = py.detach(|| tierloom::documents::document(&command, &arguments));
    made.map_err(|e| error::failure(py, e))
}

/// Names and titles of the built-in machine profiles.
#[pyfunction]
pub fn machines(py: Python<'_>) -> PyResult<Vec<(String, String)>> {
    let names = profiles::builtin_names();
    let load = |name| profiles::load(name).map(|m| (m.name.clone(), m.title.clone()));
    names
        .into_iter()
        .map(load)
        .collect::<Result<_, _>>()
        .map_err(|e| error::input(py, None, e))
}

/// A machine profile as YAML, each number with its source.
#[pyfunction]
pub fn machine(py: Python<'_>, name: &str) -> PyResult<String> {
    let machine = profiles::load(name).map_err(|e| error::input(py, None, e))?;
    machine.to_yaml().map_err(|e| Error::new_err(e.to_string()))
}
