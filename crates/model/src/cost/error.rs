//! What can be wrong with prices or with a question about them.

use thiserror::Error;

/// Prices that cannot be used. Messages about a file name the file, the line, the field and what was expected there.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum PriceError {
    /// Not YAML, or a value of the wrong type.
    #[error("{file}:{line}: cannot read prices{}: {message}", at(.field))]
    Syntax {
        /// File as named by the caller.
        file: String,
        /// Line, from 1; 0 if it is not known.
        line: u64,
        /// Path of the field (`devices[0].slots`), empty at the top.
        field: String,
        /// What the parser found and expected.
        message: String,
    },
    /// A key that price files do not have.
    #[error("{file}:{line}: unknown key {key:?}{}: expected {hint}", at(.field))]
    UnknownKey {
        /// File as named by the caller.
        file: String,
        /// Line, from 1.
        line: u64,
        /// Path of the group that holds the key.
        field: String,
        /// The key.
        key: String,
        /// All keys that may stand there, and the nearest one.
        hint: String,
    },
    /// A field that must be there.
    #[error("{file}:{line}: `{field}` is missing: {expected}")]
    Missing {
        /// File as named by the caller.
        file: String,
        /// Line of the group that lacks it.
        line: u64,
        /// Path of the missing field.
        field: String,
        /// What has to be written there.
        expected: &'static str,
    },
    /// A value that is not allowed.
    #[error("{}: `{field}` is {found}, expected {expected}", spot(.file, *.line))]
    Value {
        /// File as named by the caller, or the name of prices that were changed.
        file: String,
        /// Line, from 1; 0 if it was not read from a file.
        line: u64,
        /// Path of the field.
        field: String,
        /// What stands there.
        found: String,
        /// What may stand there.
        expected: String,
    },
    /// Prices could not be turned into YAML.
    #[error("cannot write prices {name:?} as YAML: {message}")]
    Write {
        /// Name of the prices.
        name: String,
        /// The serializer's message.
        message: String,
    },
    /// A path that leads to nothing that can be set.
    #[error("prices {name} have no `{path}`: {hint}")]
    UnknownPath {
        /// Name of the prices.
        name: String,
        /// The path asked for.
        path: String,
        /// The nearest path, or where paths are listed.
        hint: String,
    },
    /// A kind of configuration that does not exist.
    #[error(
        "{text:?} is no kind of configuration; expected cpu, cxl:N (1 to N devices) or reused:N (the same with reused DIMMs)"
    )]
    Kind {
        /// What was asked for.
        text: String,
    },
    /// The model could not price a configuration.
    #[error("cannot model the throughput of {config}: {problem}")]
    Throughput {
        /// The configuration in words.
        config: String,
        /// Why not, and what to do.
        problem: String,
    },
}

/// File and line; the file alone (or the prices' name) where nothing was read from a line.
fn spot(file: &str, line: u64) -> String {
    if line == 0 {
        file.into()
    } else {
        format!("{file}:{line}")
    }
}

fn at(field: &str) -> String {
    if field.is_empty() {
        String::new()
    } else {
        format!(" at `{field}`")
    }
}
