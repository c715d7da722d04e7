//! Scripts with temporary tables: how long they take, by where the tables are.

use crate::restart::shown;
use crate::section::tag;
use crate::words;
use maud::{Markup, html};
use tierloom_record::findings::of_temp_tables;
use tierloom_record::{HERE, TempTablesRecord, TierUse};
use tierloom_text::Bytes;

/// All scripts as one article; `alone` if the document contains nothing else.
pub(crate) fn article(records: &[TempTablesRecord], alone: bool) -> Markup {
    html! {
        article #m {
            @if !alone { h2 { (title_of(records)) } }
            ul { @for finding in of_temp_tables(records) { li { (finding) } } }
            p.note {
                "Median, least and most, in ms. The tables that a query names in WITH are made first, then read, then dropped; the script is all three. The nodes are where the kernel found the pages before they were dropped; on a modelled machine it is the traffic of its tiers while the script runs."
            }
            div.scroll {
                table {
                    thead { tr {
                        th { "workload" } th { "machine" } th { "query" } th { "place" }
                        th.n { "tables" } th.n { "rows" } th.n { "bytes" }
                        th.n { "make" } th.n { "query" } th.n { "script" }
                        th { "pages by node, or traffic" }
                        th {}
                    } }
                    tbody { @for record in records { (row(record)) } }
                }
            }
        }
    }
}

/// The title of a report on temporary tables.
pub(crate) fn title_of(records: &[TempTablesRecord]) -> String {
    let mut places: Vec<&str> = Vec::new();
    for record in records {
        if !places.contains(&record.place.as_str()) {
            places.push(&record.place);
        }
    }
    format!("Temporary tables in {}", words::list(&places))
}

fn row(record: &TempTablesRecord) -> Markup {
    let times = [&record.make_ms, &record.query_ms, &record.script_ms];
    let rows: u64 = record.tables.iter().map(|table| table.rows).sum();
    html! {
        tr {
            td { (record.workload) " " (record.scale_factor) }
            td { (record.machine) }
            td { (record.query) }
            td { (record.place) }
            td.n { (record.tables.len()) }
            td.n { (rows) }
            td.n { (Bytes(record.size_bytes()).rounded()) }
            @if let Some(why) = &record.failed {
                td colspan="4" { "failed: " (why) }
            } @else {
                @for time in times { td.n { @if let Some(time) = time { (shown(time)) } } }
                td { (memory(record)) }
            }
            td { (tag(record.provenance)) }
        }
    }
}

/// Where the pages were, or what a modelled machine's tiers carry.
fn memory(record: &TempTablesRecord) -> String {
    let traffic = |tier: &TierUse| format!("{}: {:.1} GB/s", tier.tier, tier.bandwidth_gbps);
    if record.machine != HERE {
        let all: Vec<String> = record.tiers.iter().map(traffic).collect();
        return all.join(", ");
    }
    let of = |node: &tierloom_record::NodeBytes| {
        let name = node.node.map_or("none".to_owned(), |n| format!("node {n}"));
        format!("{name}: {}", Bytes(node.bytes).rounded())
    };
    let all: Vec<String> = record.bytes_by_node.iter().map(of).collect();
    all.join(", ")
}
