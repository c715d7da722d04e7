//! Renders query results as text, to compare engines and placements.
//!
//! Rows keep their order and values keep their type's plain form, so equal texts mean equal
//! results.

use crate::EngineError;
use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// The rows of `batches` as CSV: a header line, then one line per row, with `\n` line ends.
///
/// Values with a comma, quote or line end are quoted as in RFC 4180; NULL is an empty field.
///
/// # Errors
/// Arrow's, for a type without a text form.
pub fn to_text(batches: &[RecordBatch]) -> Result<String, EngineError> {
    let mut text = String::new();
    if let Some(first) = batches.first() {
        let names: Vec<String> = first
            .schema()
            .fields()
            .iter()
            .map(|f| quoted(f.name()))
            .collect();
        text.push_str(&names.join(","));
        text.push('\n');
    }
    let options = FormatOptions::default();
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(|c| ArrayFormatter::try_new(c.as_ref(), &options))
            .collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = columns
                .iter()
                .map(|c| quoted(&c.value(row).to_string()))
                .collect();
            text.push_str(&cells.join(","));
            text.push('\n');
        }
    }
    Ok(text)
}

/// Total number of rows in all batches.
pub fn row_count(batches: &[RecordBatch]) -> u64 {
    batches.iter().map(|b| b.num_rows() as u64).sum()
}

fn quoted(value: &str) -> String {
    if value.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value.to_owned()
    }
}
