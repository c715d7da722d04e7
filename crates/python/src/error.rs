//! Errors as exceptions of Python: `InputError` for what the caller can correct, `Error` for the
//! rest.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use tierloom::failure::Failure;
use tierloom_sql::{Position, SqlError};

create_exception!(
    tierloom,
    Error,
    PyException,
    "A statement or call that failed."
);
create_exception!(
    tierloom,
    InputError,
    Error,
    "Input that has to be corrected: nothing was changed. `line` and `column` say where in the \
     statement, if that is known; else they are None."
);

/// The exception for `error`.
pub fn sql(py: Python<'_>, error: SqlError) -> PyErr {
    match error {
        SqlError::Input { place, message } => input(py, place, message),
        other => Error::new_err(other.to_string()),
    }
}

/// The exception for a failure of a command.
pub fn failure(py: Python<'_>, failure: Failure) -> PyErr {
    match failure {
        Failure::BadInput(message) => input(py, None, message),
        other => Error::new_err(other.to_string()),
    }
}

/// An `InputError`; `place` becomes part of the message.
pub fn input(py: Python<'_>, place: Option<Position>, message: impl std::fmt::Display) -> PyErr {
    let text = match place {
        Some(place) => format!("{place}: {message}"),
        None => message.to_string(),
    };
    let error = InputError::new_err(text);
    let value = error.value(py);
    let set = value
        .setattr("line", place.map(|p| p.line))
        .and_then(|()| value.setattr("column", place.map(|p| p.column)));
    match set {
        Ok(()) => error,
        Err(other) => other,
    }
}
