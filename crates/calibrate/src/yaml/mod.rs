//! YAML trees with line numbers, for error messages that name line and field.

mod fields;
mod tree;
mod typed;

pub(crate) use fields::Fields;
pub(crate) use tree::{Node, Value, read};
pub(crate) use typed::typed;

use crate::error::CalibrateError;

/// A problem at a position of a file; the caller adds the file name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mistake {
    pub line: u64,
    pub field: String,
    pub problem: String,
    pub expected: String,
}

impl Mistake {
    pub fn new(line: u64, problem: impl Into<String>, expected: impl Into<String>) -> Self {
        Mistake {
            line,
            field: String::new(),
            problem: problem.into(),
            expected: expected.into(),
        }
    }

    /// Adds `key` in front of the path.
    pub fn under(mut self, key: &str) -> Self {
        self.field = match self.field.as_str() {
            "" => key.to_owned(),
            rest if rest.starts_with('[') => format!("{key}{rest}"),
            rest => format!("{key}.{rest}"),
        };
        self
    }

    /// Sets the line if it is still unknown.
    pub fn or_line(mut self, line: u64) -> Self {
        if self.line == 0 {
            self.line = line;
        }
        self
    }

    pub fn in_file(self, file: &str) -> CalibrateError {
        CalibrateError::File {
            file: file.to_owned(),
            line: self.line,
            field: self.field,
            problem: self.problem,
            expected: self.expected,
        }
    }
}
