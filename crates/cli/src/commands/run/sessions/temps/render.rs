//! Scripts with temporary tables as text: the answer first, then a table.

use super::super::output::shown;
use comfy_table::{Table, presets};
use std::fmt::Write;
use tierloom_record::findings::of_temp_tables;
use tierloom_record::{NodeBytes, Spread, TempTablesRecord};
use tierloom_text::Bytes;

/// The findings and the table of all scripts.
pub fn tables(records: &[TempTablesRecord]) -> String {
    let mut text = String::new();
    for sentence in of_temp_tables(records) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{sentence}");
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header([
        "query", "place", "tables", "bytes", "make", "query", "script", "pages",
    ]);
    let some = |spread: &Option<Spread>| spread.as_ref().map_or("-".to_owned(), shown);
    for record in records {
        let pages = match &record.failed {
            Some(why) => format!("failed: {why}"),
            None => record
                .bytes_by_node
                .iter()
                .map(pages)
                .collect::<Vec<_>>()
                .join(", "),
        };
        table.add_row([
            record.query.clone(),
            record.place.clone(),
            record.tables.len().to_string(),
            Bytes(record.size_bytes()).rounded(),
            some(&record.make_ms),
            some(&record.query_ms),
            some(&record.script_ms),
            pages,
        ]);
    }
    let _ = writeln!(text, "\n{table}");
    let times = records.iter().find_map(|record| record.script_ms.as_ref());
    if let (Some(first), Some(times)) = (records.first(), times) {
        let _ = writeln!(
            text,
            "ms, median (least to most) of {} executions; a script makes its tables, reads and \
             drops them; {} {}; {} build; pages are where the kernel found them",
            times.values.len(),
            first.workload,
            first.scale_factor,
            first.build,
        );
    }
    text
}

fn pages(of: &NodeBytes) -> String {
    let name = of
        .node
        .map_or("none".to_owned(), |node| format!("node {node}"));
    format!("{name}: {}", Bytes(of.bytes).rounded())
}
