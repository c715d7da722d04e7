//! Errors as exceptions of Python: `InputError` for what the caller can correct, `Error` for the
//! rest.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use tierloom::failure::Failure;

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

/// The exception for a failure of a command.
pub fn failure(py: Python<'_>, failure: Failure) -> PyErr {
    match failure {
        Failure::BadInput(message) => input(py, None, message),
        other => Error::new_err(other.to_string()),
    }
}

/// An `InputError`; `place` is the line and the column that it is about.
pub fn input(py: Python<'_>, place: Option<(u64, u64)>, message: impl std::fmt::Display) -> PyErr {
    let error = InputError::new_err(message.to_string());
    let value = error.value(py);
    let set = value
        .setattr("line", place.map(|(line, _)| line))
        .and_then(|()| value.setattr("column", place.map(|(_, column)| column)));
    match set {
        Ok(()) => error,
        Err(other) => other,
    }
}
