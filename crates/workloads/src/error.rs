//! The error type of this crate.

use std::path::PathBuf;

/// Why a workload could not be planned, generated or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// The scale factor is not a number, too small, or so large that keys would not fit 32 bits.
    #[error(
        "SSB scale factor {given} is out of range: give a number from {min} to {max} \
         (1 means about 6,000,000 lineorder rows; order keys are 32-bit integers)"
    )]
    ScaleFactor {
        /// The scale factor as given.
        given: f64,
        /// The smallest accepted value.
        min: f64,
        /// The largest accepted value.
        max: f64,
    },
    /// No table, dimension table or column has that name.
    #[error("SSB has no {kind} named '{name}': use one of {known}")]
    UnknownTable {
        /// The kind of thing: "table", "dimension table" or "column".
        kind: &'static str,
        /// The name as given.
        name: String,
        /// The existing names, separated by commas.
        known: String,
    },
    /// No query has that id.
    #[error("unknown SSB query '{id}'{hint}: the queries are {known}")]
    UnknownQuery {
        /// The id as given.
        id: String,
        /// " (did you mean 'q1.1'?)", or empty if no id is similar.
        hint: String,
        /// All ids, separated by commas.
        known: String,
    },
    /// The memory passed to a fill does not have the shape of the table.
    #[error(
        "cannot fill lineorder: {what} is {given}, the table needs {needed}; size the columns from Lineorder::rows()"
    )]
    ColumnLayout {
        /// The number or length that is wrong.
        what: String,
        /// The number or length found.
        given: usize,
        /// The value that the table requires.
        needed: usize,
    },
    /// [`crate::Progress::cancelled`] returned true.
    #[error("generation was cancelled; what was filled so far is incomplete")]
    Cancelled,
    /// A file could not be created, written or renamed.
    #[error("cannot {action} {}: {cause}; check the path, its permissions and the free space of the disk", path.display())]
    Io {
        /// The attempted action, after "cannot".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        cause: std::io::Error,
    },
}
