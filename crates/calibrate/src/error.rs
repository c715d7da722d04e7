//! What can be wrong with figures, constants and calibration files, and with asking the model about them.

use thiserror::Error;
use tierloom_model::{ModelError, ProfileError};

/// Why something could not be read, priced, fitted or written. Every message says what was attempted, on what, and what helps.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum CalibrateError {
    /// A file that does not say what it has to.
    #[error("{file}:{line}: {}{problem}; expected {expected}", at(.field))]
    File {
        /// File as named by the caller.
        file: String,
        /// Line, from 1; 0 if it is not known.
        line: u64,
        /// Path of the field (`figures[3].work.probe.rows`), empty at the top.
        field: String,
        /// What is wrong.
        problem: String,
        /// What has to stand there.
        expected: String,
    },
    /// Two figures of one name.
    #[error(
        "{file}:{line}: figure {id:?} is there already ({first_file}:{first_line}); names are unique over all files, so give it another one"
    )]
    SameId {
        /// File of the second one.
        file: String,
        /// Its line.
        line: u64,
        /// The name.
        id: String,
        /// File of the first one.
        first_file: String,
        /// Its line.
        first_line: u64,
    },
    /// A machine that is neither built in nor given.
    #[error("{user} needs machine {name:?}: {hint}")]
    UnknownMachine {
        /// Who asks for it (file, line and figure or parameter).
        user: String,
        /// The name.
        name: String,
        /// The nearest name, or all names.
        hint: String,
    },
    /// A constant that no file has.
    #[error("{user} needs constant {name:?}: {hint}")]
    UnknownConstant {
        /// Who asks for it.
        user: String,
        /// The name.
        name: String,
        /// The nearest name, or all names.
        hint: String,
    },
    /// A figure that the model cannot price.
    #[error("{file}:{line}: cannot price figure {id:?}: {source}")]
    Price {
        /// File of the figure.
        file: String,
        /// Its line.
        line: u64,
        /// Its name.
        id: String,
        /// Why.
        source: Box<ModelError>,
    },
    /// A figure whose quantity its work does not have.
    #[error("{file}:{line}: cannot price figure {id:?}: {problem}; {hint}")]
    Quantity {
        /// File of the figure.
        file: String,
        /// Its line.
        line: u64,
        /// Its name.
        id: String,
        /// What is missing.
        problem: String,
        /// What to write instead.
        hint: String,
    },
    /// A profile that cannot be used.
    #[error(transparent)]
    Profile(Box<ProfileError>),
    /// A number that cannot be replaced in the text of a profile.
    #[error("{file}:{line}: cannot put a fitted number at `{path}`: {problem}; {hint}")]
    Rewrite {
        /// The profile.
        file: String,
        /// Line of the number; 0 if it is not there.
        line: u64,
        /// Path of the number.
        path: String,
        /// What stands in the way.
        problem: String,
        /// What to write into the file.
        hint: String,
    },
    /// A figure whose role is not true.
    #[error("{file}:{line}: figure {id:?} {problem}; {hint}")]
    Role {
        /// File of the figure.
        file: String,
        /// Its line.
        line: u64,
        /// Its name.
        id: String,
        /// What its role says and what is.
        problem: String,
        /// What to write instead.
        hint: String,
    },
    /// A fit that cannot begin.
    #[error("{file}: cannot fit: {problem}; {hint}")]
    Fit {
        /// The calibration file.
        file: String,
        /// What is missing.
        problem: String,
        /// What to do.
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

/// The known word nearest to a mistyped one, if one is near enough to be meant.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.map(|name| (strsim::jaro_winkler(word, name), name));
    scored
        .filter(|(score, _)| *score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// "one of a, b, c; did you mean b?"
pub(crate) fn one_of<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let all = known.clone().collect::<Vec<_>>().join(", ");
    match nearest(word, known) {
        Some(near) => format!("one of {all}; did you mean {near:?}?"),
        None if all.is_empty() => "none, there are none".into(),
        None => format!("one of {all}"),
    }
}
