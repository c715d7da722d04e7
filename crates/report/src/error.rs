//! Errors of making a report.

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// There is no record to report on.
    #[error(
        "cannot make a report: there are no records; give a file that `tierloom run --jsonl` or `tierloom bench` wrote"
    )]
    Empty,
    /// A chart could not be drawn.
    #[error("cannot draw the chart {chart:?}: {problem}")]
    Chart {
        /// Title of the chart.
        chart: String,
        /// The message of the drawing library.
        problem: String,
    },
    /// The raw records could not be written into the document.
    #[error("cannot embed the raw records in the report: {0}")]
    Records(#[from] tierloom_record::RecordError),
}
