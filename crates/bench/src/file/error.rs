//! What is wrong with a workload file, and where.

use std::fmt;
use std::path::PathBuf;

/// Problems of one file that are reported at once; more are counted only.
pub(super) const MAX_PROBLEMS: usize = 10;

/// A place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Place {
    /// Which text: 0 is the file, k the k-th `--set`.
    pub(super) source: u32,
    /// Line, from 1; 0 if there is none.
    pub line: u64,
    /// Column in characters, from 1; 0 if there is none.
    pub column: u64,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// File name, or the `--set` it is in.
    pub file: String,
    /// Line, from 1; 0 if it concerns the file as a whole.
    pub line: u64,
    /// Column in characters, from 1; 0 if it concerns the whole line or file.
    pub column: u64,
    /// What is wrong and what was expected.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// The other place that takes part, with a word on it.
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
    /// The first ones; at least one.
    pub problems: Vec<Problem>,
    /// How many more there are.
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

/// Why workload files gave no runs.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A file or folder cannot be read.
    #[error("cannot read workload file {}: {source}", path.display())]
    Read {
        /// It.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is larger than any workload file.
    #[error("{} has {size_bytes} bytes; workload files have at most {} MiB", path.display(), super::MAX_TEXT_BYTES >> 20)]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        size_bytes: u64,
    },
    /// A folder has no workload files.
    #[error("no workload file (*.yaml, *.yml) in {} or below", path.display())]
    NoFiles {
        /// The folder.
        path: PathBuf,
    },
    /// No workload has the name asked for.
    #[error("no workload is called `{name}`{hint}; there are: {known}")]
    NoWorkload {
        /// The name asked for.
        name: String,
        /// ", did you mean ...?" or empty.
        hint: String,
        /// All names.
        known: String,
    },
    /// Files together have too many runs.
    #[error(
        "the files make more than {limit} runs; give fewer files, or choose workloads by name with --only"
    )]
    TooManyRuns {
        /// The most there may be.
        limit: usize,
    },
    /// Two files give different addresses for one host.
    #[error(
        "host `{name}` is given twice with different addresses, in {first} and {second}; give it once, or name the hosts differently"
    )]
    HostTwice {
        /// Its name.
        name: String,
        /// File and line of the first.
        first: String,
        /// File and line of the second.
        second: String,
    },
    /// The contents are wrong.
    #[error(transparent)]
    Contents(#[from] FileErrors),
}

/// Collects problems while a file is read.
#[derive(Debug)]
pub(super) struct Problems<'a> {
    /// Names of the texts: the file, then each `--set`.
    sources: &'a [String],
    found: Vec<(Place, Problem)>,
}

impl<'a> Problems<'a> {
    pub(super) fn new(sources: &'a [String]) -> Self {
        Self {
            sources,
            found: Vec::new(),
        }
    }

    /// Notes a problem; the same one at the same place (met again in another run of the matrix) once only.
    pub(super) fn push(&mut self, place: Place, trouble: impl Into<Trouble>) {
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

    /// Whether there are enough to stop looking.
    pub(super) fn is_full(&self) -> bool {
        self.found.len() > MAX_PROBLEMS
    }

    /// All problems in file order, the first few of them in full.
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

/// A problem without its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) message: String,
    pub(super) help: Option<String>,
    pub(super) related: Option<(Place, String)>,
}

impl Trouble {
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

    pub(super) fn related(mut self, place: Place, note: impl Into<String>) -> Self {
        self.related = Some((place, note.into()));
        self
    }
}

impl From<String> for Trouble {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

impl From<&str> for Trouble {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

/// The word of `known` that `typed` was probably meant to be.
pub(super) fn nearest<'k>(
    typed: &str,
    known: impl IntoIterator<Item = &'k str>,
) -> Option<&'k str> {
    let typed = typed.to_lowercase();
    known
        .into_iter()
        .map(|word| {
            (
                strsim::damerau_levenshtein(&typed, &word.to_lowercase()),
                word,
            )
        })
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, word)| {
            *distance <= 1 + word.chars().count().min(typed.chars().count()) / 4
        })
        .map(|(_, word)| word)
        .or(None)
}

/// ", did you mean `x`?" or nothing.
pub(super) fn did_you_mean<'k>(typed: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    // The distance takes quadratic time; nobody mistypes a word into a page.
    if typed.len() > 64 {
        return String::new();
    }
    nearest(typed, known).map_or_else(String::new, |word| format!(", did you mean `{word}`?"))
}
