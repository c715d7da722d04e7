//! Answers in one text form, so that engines and placements can be compared.

use crate::EngineError;
use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// The rows of `batches` as comma-separated text: a header of column names, then a line per row in order, `\n` line ends.
///
/// Values are written plainly; a value with a comma, quote or line end is quoted as in RFC 4180.
///
/// # Errors
/// Those of Arrow, for a type that has no text form.
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

/// Rows in all batches.
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
