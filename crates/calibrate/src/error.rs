//! Errors of figures, constants and calibration files, and of computing figures with the model.

use thiserror::Error;
use tierloom_model::{ModelError, ProfileError};

/// Reason why something could not be read, computed, fitted or written.
///
/// Every message says what was attempted, on what, and what helps.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum CalibrateError {
    /// A file with an invalid field.
    #[error("{file}:{line}: {}{problem}; expected {expected}", at(.field))]
    File {
        /// File as named by the caller.
        file: String,
        /// Line, from 1; 0 if unknown.
        line: u64,
        /// Path of the field (`figures[3].work.probe.rows`), empty at the top.
        field: String,
        /// Problem, as part of the message.
        problem: String,
        /// Description of what is valid.
        expected: String,
    },
    /// Two figures with one name.
    #[error(
        "{file}:{line}: figure {id:?} is there already ({first_file}:{first_line}); names are unique over all files, so give it another one"
    )]
    SameId {
        /// File of the second figure.
        file: String,
        /// Line of the second figure.
        line: u64,
        /// Name of both figures.
        id: String,
        /// File of the first figure.
        first_file: String,
        /// Line of the first figure.
        first_line: u64,
    },
    /// A machine that is neither built in nor given.
    #[error("{user} needs machine {name:?}: {hint}")]
    UnknownMachine {
        /// File, line and figure or parameter that refers to it.
        user: String,
        /// Name of the machine, as written in the figure or calibration.
        name: String,
        /// All names, and the most similar one.
        hint: String,
    },
    /// A constant that is in no file.
    #[error("{user} needs constant {name:?}: {hint}")]
    UnknownConstant {
        /// File, line and figure that refers to it.
        user: String,
        /// Name of the constant, as written in the figure.
        name: String,
        /// All names, and the most similar one.
        hint: String,
    },
    /// A figure that the model cannot compute.
    #[error("{file}:{line}: cannot price figure {id:?}: {source}")]
    Price {
        /// File of the figure.
        file: String,
        /// Line of the figure.
        line: u64,
        /// Name of the figure.
        id: String,
        /// Error of the model.
        source: Box<ModelError>,
    },
    /// A figure with a quantity that its work does not have.
    #[error("{file}:{line}: cannot price figure {id:?}: {problem}; {hint}")]
    Quantity {
        /// File of the figure.
        file: String,
        /// Line of the figure.
        line: u64,
        /// Name of the figure.
        id: String,
        /// Missing quantity, as part of the message.
        problem: String,
        /// Quantities to use instead.
        hint: String,
    },
    /// A machine profile that is invalid.
    #[error(transparent)]
    Profile(Box<ProfileError>),
    /// A number that cannot be replaced in the text of a profile or of the constants.
    #[error("{file}:{line}: cannot put a fitted number at `{path}`: {problem}; {hint}")]
    Rewrite {
        /// File of the profile, the constants or the calibration.
        file: String,
        /// Line of the number; 0 if it is absent.
        line: u64,
        /// Path of the number.
        path: String,
        /// Problem, as part of the message.
        problem: String,
        /// Text to write into the file.
        hint: String,
    },
    /// A figure with a role that does not hold.
    #[error("{file}:{line}: figure {id:?} {problem}; {hint}")]
    Role {
        /// File of the figure.
        file: String,
        /// Line of the figure.
        line: u64,
        /// Name of the figure.
        id: String,
        /// Contradiction, as part of the message.
        problem: String,
        /// Role to use instead.
        hint: String,
    },
    /// A fit that cannot start, or whose result cannot be applied.
    #[error("{file}: cannot fit: {problem}; {hint}")]
    Fit {
        /// Calibration file, or machine.
        file: String,
        /// Problem, as part of the message.
        problem: String,
        /// Advice, as part of the message.
        hint: String,
    },
}

impl From<ProfileError> for CalibrateError {
    fn from(error: ProfileError) -> Self {
        CalibrateError::Profile(Box::new(error))
    }
}

fn at(field: &str) -> String {
    if field.is_empty() {
        String::new()
    } else {
        format!("`{field}`: ")
    }
}

/// "one of a, b, c; did you mean b?" for messages.
pub(crate) fn one_of<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let all = known.clone().collect::<Vec<_>>().join(", ");
    match tierloom_text::nearest(word, known) {
        Some(near) => format!("one of {all}; did you mean {near:?}?"),
        None if all.is_empty() => "none, there are none".into(),
        None => format!("one of {all}"),
    }
}
