//! YAML in which every value knows its line.

mod fields;
mod tree;
mod typed;

pub(crate) use fields::Fields;
pub(crate) use tree::{Node, Value, read};
pub(crate) use typed::typed;

use crate::error::CalibrateError;

/// Something wrong at a place of a file that the caller knows the name of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trouble {
    pub line: u64,
    pub field: String,
    pub problem: String,
    pub expected: String,
}

impl Trouble {
    pub fn new(line: u64, problem: impl Into<String>, expected: impl Into<String>) -> Self {
        Trouble {
            line,
            field: String::new(),
            problem: problem.into(),
            expected: expected.into(),
        }
    }

    /// The same, seen from one level further up.
    pub fn under(mut self, key: &str) -> Self {
        self.field = match self.field.as_str() {
            "" => key.to_owned(),
            rest if rest.starts_with('[') => format!("{key}{rest}"),
            rest => format!("{key}.{rest}"),
        };
        self
    }

    /// The same, on `line` if none is known yet.
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
