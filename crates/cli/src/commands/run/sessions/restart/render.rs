//! Restarts as text: the answer first, then a table.

use super::super::output::shown;
use comfy_table::{Table, presets};
use std::fmt::Write;
use tierloom_record::findings::of_restarts;
use tierloom_record::{RestartRecord, Spread};
use tierloom_text::Bytes;

/// The findings and the table of all starts.
pub fn tables(records: &[RestartRecord]) -> String {
    let mut text = String::new();
    for sentence in of_restarts(records) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{sentence}");
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header([
        "tables",
        "after",
        "ready",
        "complete",
        "first answer",
        "last answer",
        "load",
        "attach",
        "verify",
    ]);
    for record in records {
        let some = |spread: &Option<Spread>| spread.as_ref().map_or("-".to_owned(), shown);
        table.add_row([
            record.way.clone(),
            record.after.clone(),
            shown(&record.ready_ms),
            some(&record.complete_ms),
            shown(&record.first_answer_ms),
            shown(&record.last_answer_ms),
            some(&record.load_ms),
            some(&record.attach_ms),
            some(&record.verify_ms),
        ]);
    }
    let _ = writeln!(text, "\n{table}");
    if let Some(first) = records.first() {
        let _ = writeln!(
            text,
            "ms since the start of a process (the last three: of that step alone), median (least to \
             most) of {} starts; {} build; {} as Parquet files, in the kernel's page cache; {} in \
             the pool",
            first.ready_ms.values.len(),
            first.build,
            Bytes(first.file_bytes).rounded(),
            Bytes(first.pool_bytes).rounded(),
        );
    }
    text
}
