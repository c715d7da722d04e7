//! What can go wrong with a report.

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// There is no record to report.
    #[error(
        "cannot make a report: there are no records; give a file that `tierloom run --jsonl` or `tierloom bench` wrote"
    )]
    Empty,
    /// A chart could not be drawn.
    #[error("cannot draw the chart {chart:?}: {problem}")]
    Chart {
        /// The chart's title.
        chart: String,
        /// What the drawing library said.
        problem: String,
    },
    /// The raw records could not be embedded.
    #[error("cannot embed the raw records in the report: {0}")]
    Records(#[from] tierloom_record::RecordError),
}
