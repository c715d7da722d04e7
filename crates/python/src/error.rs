//! Errors of the SQL engine as exceptions of Python.

use pyo3::prelude::*;
use tierloom_python_calls as calls;
use tierloom_sql::{Position, SqlError};

pub use calls::{Error, InputError, failure};

/// The exception for `error`.
pub fn sql(py: Python<'_>, error: SqlError) -> PyErr {
    match error {
        SqlError::Input { place, message } => input(py, place, message),
        other => Error::new_err(other.to_string()),
    }
}

/// An `InputError`; `place` becomes part of the message.
pub fn input(py: Python<'_>, place: Option<Position>, message: impl std::fmt::Display) -> PyErr {
    let text = match place {
        Some(place) => format!("{place}: {message}"),
        None => message.to_string(),
    };
    calls::input(py, place.map(|p| (p.line, p.column)), text)
}
