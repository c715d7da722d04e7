//! The one error type of this crate.

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
        /// The value asked for.
        given: f64,
        /// The smallest accepted value.
        min: f64,
        /// The largest accepted value.
        max: f64,
    },
    /// No table, dimension table or column of that name exists.
    #[error("SSB has no {kind} named '{name}': use one of {known}")]
    UnknownTable {
        /// What was looked for: "table", "dimension table" or "column".
        kind: &'static str,
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// No query of that id exists.
    #[error("unknown SSB query '{id}'{hint}: the queries are {known}")]
    UnknownQuery {
        /// The id asked for.
        id: String,
        /// " (did you mean 'q1.1'?)", or empty when nothing is near.
        hint: String,
        /// All ids.
        known: String,
    },
    /// The memory handed to a fill does not have the table's shape.
    #[error(
        "cannot fill lineorder: {what} is {given}, the table needs {needed}; size the columns from Lineorder::rows()"
    )]
    ColumnLayout {
        /// Which count or length is wrong.
        what: String,
        /// What the caller gave.
        given: usize,
        /// What the table needs.
        needed: usize,
    },
    /// The caller's [`crate::Progress`] asked to stop.
    #[error("generation was cancelled; what was filled so far is incomplete")]
    Cancelled,
    /// A file could not be made, written or renamed.
    #[error("cannot {action} {}: {cause}; check the path, its permissions and the free space of the disk", path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// The system's answer.
        cause: std::io::Error,
    },
}
