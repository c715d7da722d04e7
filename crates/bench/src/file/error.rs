//! Errors in workload files, with their position.
//!
//! Problems are collected instead of returned at the first one, so that a user can fix a file in
//! one pass. Only the first few are shown.

use std::fmt;
use std::path::PathBuf;

/// Number of problems of one file that are shown; further ones are only counted.
pub(super) const MAX_PROBLEMS: usize = 10;

/// A position in a workload file or in the text of a `--set`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    /// Index of the text: 0 is the file, k the k-th `--set`.
    pub(super) source: u32,
    /// Line, from 1; 0 if the position has none.
    pub line: u64,
    /// Column in characters, from 1; 0 if the position has none.
    pub column: u64,
}

/// One error in a workload file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The name of the file, or the text of the `--set` that the error is in.
    pub file: String,
    /// Line, from 1; 0 if the error concerns the file as a whole.
    pub line: u64,
    /// Column in characters, from 1; 0 if the error concerns the whole line or file.
    pub column: u64,
    /// What is wrong and what was expected.
    pub message: String,
    /// How to fix it, if there is a known way.
    pub help: Option<String>,
    /// A second line that is part of the problem (the first definition, the other key), with a
    /// note.
    pub related: Option<(u64, String)>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
            if self.column > 0 {
                write!(f, ":{}", self.column)?;
            }
        }
        write!(f, ": {}", self.message)?;
        if let Some((line, note)) = &self.related {
            write!(f, "\n  line {line}: {note}")?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

/// The problems of one file, in file order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileErrors {
    /// The first problems; at least one.
    pub problems: Vec<Problem>,
    /// Number of problems that are not in `problems`.
    pub more: usize,
}

impl fmt::Display for FileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        if self.more > 0 {
            write!(f, "\n... and {} more like these", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for FileErrors {}

/// Why workload files could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A file or folder cannot be read.
    #[error("cannot read workload file {}: {source}", path.display())]
    Read {
        /// The file or folder, as given or as found below a folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file is larger than the limit for workload files.
    #[error("{} has {size_bytes} bytes; workload files have at most {} MiB", path.display(), super::MAX_TEXT_BYTES >> 20)]
    TooLarge {
        /// The file, as given or as found below a folder.
        path: PathBuf,
        /// Bytes read before giving up, one above the limit; the file may be larger.
        size_bytes: u64,
    },
    /// A folder has no workload files.
    #[error("no workload file (*.yaml, *.yml) in {} or below", path.display())]
    NoFiles {
        /// The folder, as given on the command line.
        path: PathBuf,
    },
    /// No file has a workload with a name in [`LoadOptions::only`](super::LoadOptions::only).
    #[error("no workload is called `{name}`{hint}; there are: {known}")]
    NoWorkload {
        /// The name as given.
        name: String,
        /// ", did you mean ...?", or empty if no name is similar.
        hint: String,
        /// The names of all workloads, separated by commas.
        known: String,
    },
    /// The files together have too many runs.
    #[error(
        "the files make more than {limit} runs; give fewer files, or choose workloads by name with --only"
    )]
    TooManyRuns {
        /// The limit, [`MAX_RUNS`](super::MAX_RUNS).
        limit: usize,
    },
    /// Two files give different addresses for one host.
    #[error(
        "host `{name}` is given twice with different addresses, in {first} and {second}; give it once, or name the hosts differently"
    )]
    HostTwice {
        /// The name of the host in both files.
        name: String,
        /// File and line of the first definition.
        first: String,
        /// File and line of the second definition.
        second: String,
    },
    /// The contents of a file are wrong.
    #[error(transparent)]
    Contents(#[from] FileErrors),
}

/// Collects the problems of one file while it is read.
#[derive(Debug)]
pub(super) struct Problems<'a> {
    /// Names of the texts: the file, then each `--set`; indexed by [`Position::source`].
    sources: &'a [String],
    found: Vec<(Position, Problem)>,
}

impl<'a> Problems<'a> {
    pub(super) fn new(sources: &'a [String]) -> Self {
        Self {
            sources,
            found: Vec::new(),
        }
    }

    /// Records a problem, unless the same one was recorded at the same position.
    ///
    /// A mistake in `args:` is found again in every run of the matrix.
    pub(super) fn push(&mut self, place: Position, trouble: impl Into<ProblemText>) {
        let trouble = trouble.into();
        let problem = Problem {
            file: self
                .sources
                .get(place.source as usize)
                .cloned()
                .unwrap_or_default(),
            line: place.line,
            column: place.column,
            message: trouble.message,
            help: trouble.help,
            related: trouble.related.map(|(other, note)| (other.line, note)),
        };
        if !self.found.iter().any(|(_, known)| *known == problem) {
            self.found.push((place, problem));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether enough problems were found to stop reading.
    pub(super) fn is_full(&self) -> bool {
        self.found.len() > MAX_PROBLEMS
    }

    /// All problems in file order, the first [`MAX_PROBLEMS`] of them in full.
    pub(super) fn into_errors(mut self) -> FileErrors {
        self.found.sort_by_key(|(place, _)| *place);
        let more = self.found.len().saturating_sub(MAX_PROBLEMS);
        FileErrors {
            problems: self
                .found
                .into_iter()
                .take(MAX_PROBLEMS)
                .map(|(_, problem)| problem)
                .collect(),
            more,
        }
    }
}

/// A problem without its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProblemText {
    pub(super) message: String,
    pub(super) help: Option<String>,
    pub(super) related: Option<(Position, String)>,
}

impl ProblemText {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            help: None,
            related: None,
        }
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(super) fn related(mut self, place: Position, note: impl Into<String>) -> Self {
        self.related = Some((place, note.into()));
        self
    }
}

impl From<String> for ProblemText {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

impl From<&str> for ProblemText {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

/// ", did you mean `x`?", or an empty string if no known word is similar.
pub(super) fn did_you_mean<'k>(typed: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    tierloom_text::nearest(typed, known)
        .map_or_else(String::new, |word| format!(", did you mean `{word}`?"))
}
