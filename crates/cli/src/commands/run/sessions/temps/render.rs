//! Scripts with temporary tables as text: the answer first, then a table.

use super::super::output::shown;
use comfy_table::{Table, presets};
use std::fmt::Write;
use tierloom_record::findings::of_temp_tables;
use tierloom_record::{HERE, NodeBytes, Provenance, Spread, TempTablesRecord, TierUse};
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
        "machine",
        "query",
        "place",
        "tables",
        "bytes",
        "make",
        "query",
        "script",
        "pages or traffic",
    ]);
    let some = |spread: &Option<Spread>| spread.as_ref().map_or("-".to_owned(), shown);
    for record in records {
        let pages = match &record.failed {
            Some(why) => format!("failed: {why}"),
            None => record
                .bytes_by_node
                .iter()
                .map(pages)
                .chain(record.tiers.iter().map(traffic))
                .collect::<Vec<_>>()
                .join(", "),
        };
        table.add_row([
            machine(record),
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
             drops them; {} {}; {} build; pages are where the kernel found them{}",
            times.values.len(),
            first.workload,
            first.scale_factor,
            first.build,
            match records.iter().any(|record| record.machine != HERE) {
                true => MODELLED,
                false => "",
            }
        );
    }
    text
}

/// What a modelled row assumes.
const MODELLED: &str = "; modelled rows are of the same scale factor, with tables and operator \
                        memory in dram and the pool on cxl, from the work captured at the first \
                        place";

fn machine(record: &TempTablesRecord) -> String {
    match record.provenance {
        Provenance::Measured => record.machine.clone(),
        Provenance::Modelled => format!("{} (modelled)", record.machine),
    }
}

fn traffic(of: &TierUse) -> String {
    format!("{}: {:.1} GB/s", of.tier, of.bandwidth_gbps)
}

fn pages(of: &NodeBytes) -> String {
    let name = of
        .node
        .map_or("none".to_owned(), |node| format!("node {node}"));
    format!("{name}: {}", Bytes(of.bytes).rounded())
}
