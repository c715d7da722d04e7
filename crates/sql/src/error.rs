//! Errors of statements, by who has to act.
//!
//! The author of the statement acts on invalid input, nobody on a cancellation, and whoever runs
//! the system on failures.

use datafusion::error::DataFusionError;
use std::fmt;
use tierloom_engine::EngineError;

/// A position in a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Line number, from 1.
    pub line: u64,
    /// Column in characters, from 1.
    pub column: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Why a statement failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SqlError {
    /// The statement, a setting or a file is invalid; nothing was changed.
    #[error("{message}")]
    Input {
        /// Position in the script, if known.
        place: Option<Position>,
        /// What was found, what was expected and what to do.
        message: String,
    },
    /// The statement failed while it ran.
    #[error("{0}")]
    Failed(String),
    /// Too much else ran for too long; nothing was changed.
    #[error("{0}")]
    Busy(String),
    /// The user cancelled the statement.
    #[error("the statement was stopped")]
    Interrupted,
}

impl SqlError {
    /// Creates an input error without a position.
    pub fn input(message: impl fmt::Display) -> Self {
        SqlError::Input {
            place: None,
            message: message.to_string(),
        }
    }

    /// Creates an input error at a position.
    pub fn input_at(place: Position, message: impl fmt::Display) -> Self {
        SqlError::Input {
            place: Some(place),
            message: message.to_string(),
        }
    }

    /// Adds `place` to an input error that has no position.
    pub(super) fn or_at(self, place: Position) -> Self {
        match self {
            SqlError::Input {
                place: None,
                message,
            } => SqlError::input_at(place, message),
            other => other,
        }
    }

    /// Creates a run-time failure.
    pub fn failed(message: impl fmt::Display) -> Self {
        SqlError::Failed(message.to_string())
    }

    /// Converts an error of DataFusion's planner: the statement is at fault.
    pub fn planning(error: &DataFusionError) -> Self {
        let span = error.diagnostic().and_then(|d| d.span);
        let spanned = span.map(|s| Position {
            line: s.start.line,
            column: s.start.column,
        });
        // The parser puts the position into its message, the planner into a diagnostic.
        let (message, said) = split_place(&plain(error));
        SqlError::Input {
            place: spanned.or(said),
            message,
        }
    }

    /// Converts a run-time error of DataFusion.
    pub fn running(error: &DataFusionError) -> Self {
        SqlError::Failed(plain(error))
    }

    /// Converts an engine error from planning: an input error unless it was cancelled or panicked.
    pub fn engine_planning(error: &EngineError) -> Self {
        match error {
            EngineError::Interrupted => SqlError::Interrupted,
            EngineError::DataFusion { source, .. } => SqlError::planning(source),
            EngineError::Panicked { .. } => SqlError::failed(error),
            other => SqlError::input(other),
        }
    }
}

impl From<EngineError> for SqlError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Interrupted
            | EngineError::Workload(tierloom_workloads::WorkloadError::Cancelled) => {
                SqlError::Interrupted
            }
            EngineError::Placement(error) => SqlError::input(error),
            EngineError::Pool(error) => error.into(),
            EngineError::DataFusion { source, .. } => SqlError::running(&source),
            other => SqlError::failed(other),
        }
    }
}

/// The message without prefixes that name error kinds, which mean nothing to the user.
fn plain(error: &DataFusionError) -> String {
    let mut text = error.strip_backtrace();
    // Every wrapping error adds its prefix.
    while let Some(rest) = PREFIXES.iter().find_map(|p| text.strip_prefix(p)) {
        text = rest.to_owned();
    }
    let line = text.replace('\n', " ");
    line.trim_end_matches(['.', ' ']).to_owned()
}

const PREFIXES: [&str; 9] = [
    "SQL error: ",
    "Error during planning: ",
    "Schema error: ",
    "Execution error: ",
    "External error: ",
    "Arrow error: ",
    "Invalid or Unsupported Configuration: ",
    "This feature is not implemented: ",
    "type_coercion\ncaused by\n",
];

/// Splits the parser's own "... at Line: 1, Column: 7" from a message.
fn split_place(message: &str) -> (String, Option<Position>) {
    let text = parser_text(message);
    let Some((before, after)) = text.rsplit_once(" at Line: ") else {
        return (text, None);
    };
    let numbers = after.split_once(", Column: ").and_then(|(line, rest)| {
        let column: String = rest.chars().take_while(char::is_ascii_digit).collect();
        Some(Position {
            line: line.parse().ok()?,
            column: column.parse().ok()?,
        })
    });
    match numbers {
        Some(place) => (before.to_owned(), Some(place)),
        None => (text, None),
    }
}

/// Extracts the parser's message from the debug output of its error.
///
/// The forms are `ParserError("...")` and `TokenizerError("...")`.
fn parser_text(message: &str) -> String {
    for kind in ["ParserError(\"", "TokenizerError(\""] {
        if let Some(inner) = message
            .strip_prefix(kind)
            .and_then(|rest| rest.strip_suffix("\")"))
        {
            return inner.replace("\\\"", "\"").replace("\\\\", "\\");
        }
    }
    message.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parser_error_gives_its_place_as_numbers_and_its_message_once() {
        let text =
            "ParserError(\"Expected: an expression, found: \\\"from\\\" at Line: 3, Column: 8\")";
        let (message, place) = split_place(text);
        assert_eq!(message, "Expected: an expression, found: \"from\"");
        assert_eq!(place, Some(Position { line: 3, column: 8 }));
    }

    #[test]
    fn a_message_without_a_place_stays_as_it_is() {
        for text in ["no such thing", "odd at Line: x, Column: y"] {
            assert_eq!(split_place(text), (text.to_owned(), None));
        }
    }

    #[test]
    fn nested_kinds_of_errors_are_taken_off_and_the_sentence_stays() {
        let inner = DataFusionError::Execution("no room".into());
        let outer = DataFusionError::External(Box::new(inner));
        assert_eq!(
            SqlError::running(&outer),
            SqlError::Failed("no room".into())
        );
    }
}
