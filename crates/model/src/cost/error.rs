//! Errors of price files and of requests about prices.

use crate::error::MisreadError;
use thiserror::Error;

/// Prices that cannot be used.
///
/// Messages about a file give its name, the line, the field and what was expected there.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum PriceError {
    /// The file cannot be read.
    #[error(transparent)]
    Misread(#[from] MisreadError),
    /// A value out of range, or of the wrong form.
    #[error("{}: `{field}` is {found}, expected {expected}", spot(.file, *.line))]
    Value {
        /// File as named by the caller, or the name of prices that were changed in memory.
        file: String,
        /// Line, from 1; 0 if it was not read from a file.
        line: u64,
        /// Path of the field.
        field: String,
        /// Value that was found, as text.
        found: String,
        /// Valid values, as part of the message.
        expected: String,
    },
    /// The prices could not be written as YAML.
    #[error("cannot write prices {name:?} as YAML: {message}")]
    Write {
        /// Name of the prices.
        name: String,
        /// Message of the serializer.
        message: String,
    },
    /// A path without a field that can be set.
    #[error("prices {name} have no `{path}`: {hint}")]
    UnknownPath {
        /// Name of the prices.
        name: String,
        /// The unknown path, as requested.
        path: String,
        /// The most similar path, or all paths.
        hint: String,
    },
    /// Text that names no kind of configuration.
    #[error(
        "{text:?} is no kind of configuration; expected cpu, cxl:N (1 to N devices) or reused:N (the same with reused DIMMs)"
    )]
    Kind {
        /// The text, as given by the user.
        text: String,
    },
    /// A configuration whose throughput the model cannot compute.
    #[error("cannot model the throughput of {config}: {problem}")]
    Throughput {
        /// The configuration as text, from [`Config::words`](super::Config::words).
        config: String,
        /// Reason, and what to do.
        problem: String,
    },
}

/// File and line; only the file (or the name of the prices) if the value was not read from a line.
fn spot(file: &str, line: u64) -> String {
    if line == 0 {
        file.into()
    } else {
        format!("{file}:{line}")
    }
}
