//! Prints and writes the records of measured sessions.

use super::super::args::RunOptions;
use crate::failure::Failure;
use crate::output;
use std::time::SystemTime;
use tierloom_record::{Record, Spread, atomic_write};

/// The time, RFC 3339.
pub(super) fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// Prints `records` as the options ask, or else `shown`, and writes them to `--records`.
///
/// # Errors
/// A file or stdout that cannot be written.
pub(super) fn write(records: &[Record], shown: &str, options: &RunOptions) -> Result<(), Failure> {
    let lines = output::record_lines(records, "the records")?;
    let shown = output::print_records(records, &lines, shown, (options.json, options.jsonl));
    let written = options.records.as_ref().map_or(Ok(()), |path| {
        atomic_write(path, &lines)?;
        note!("wrote records to {}", path.display());
        Ok(())
    });
    shown.and(written)
}

/// Median, least and most of a time in ms.
pub(super) fn shown(spread: &Spread) -> String {
    let short = |ms: f64| match ms {
        ms if ms < 10.0 => format!("{ms:.2}"),
        ms if ms < 100.0 => format!("{ms:.1}"),
        ms => format!("{ms:.0}"),
    };
    format!(
        "{} ({} to {})",
        short(spread.median),
        short(spread.min),
        short(spread.max)
    )
}
