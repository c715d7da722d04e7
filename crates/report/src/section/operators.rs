//! The measured operators behind the times of queries.

use super::missing;
use crate::view::{BASELINE, RunView};
use crate::words;
use maud::{Markup, html};
use tierloom_record::{CountedRecord, OperatorRecord, QueryRecord};

/// One folded table per query, under DRAM if that was recorded.
pub(crate) fn section(view: &RunView<'_>) -> Markup {
    let of_query = |query: &&str| {
        let records = || {
            view.set
                .queries
                .iter()
                .filter(|q| q.query == **query && !q.operators.is_empty())
        };
        records()
            .find(|q| q.placement == BASELINE)
            .or_else(|| records().next())
    };
    let records: Vec<&QueryRecord> = view.queries.iter().filter_map(of_query).collect();
    html! {
        section id=(format!("{}-operators", view.prefix)) {
            h2 { "Operators" }
            @if records.is_empty() {
                (missing("The records hold no operators."))
            } @else {
                p.note { "Rows and CPU time over all threads, measured. The model prices this work on other machines." }
                @for record in records {
                    details {
                        summary { (record.query) " under " (record.placement) ", " (record.operators.len()) " operators" }
                        (table(&record.operators))
                        (counters(&record.counters))
                    }
                }
            }
        }
    }
}

fn table(operators: &[OperatorRecord]) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr { th { "operator" } th { "phase" } th.n { "rows in" } th.n { "rows out" } th.n { "selectivity" } th.n { "CPU ms" } } }
                tbody {
                    @for operator in operators {
                        tr {
                            td { (operator.operator) } td { (operator.phase) }
                            td.n { (words::count(operator.input_rows)) } td.n { (words::count(operator.output_rows)) }
                            td.n { @if let Some(selectivity) = operator.selectivity { (words::exact_share(selectivity)) } @else { "no input" } }
                            td.n { (words::ms(operator.cpu_ms)) }
                        }
                    }
                }
            }
        }
    }
}

/// What an untimed execution did to the processors: a row for the query, each phase and operator.
fn counters(counters: &[CountedRecord]) -> Markup {
    type At<'c> = (&'c str, Option<&'c str>, Option<&'c str>);
    let mut rows: Vec<(At<'_>, Vec<&CountedRecord>)> = Vec::new();
    for counter in counters {
        let at = (
            &*counter.level,
            counter.phase.as_deref(),
            counter.operator.as_deref(),
        );
        // Each row begins with its time: operators of one name can follow each other.
        match rows.last_mut() {
            Some((known, row)) if *known == at && counter.quantity != "busy_ns" => {
                row.push(counter);
            }
            _ => rows.push((at, vec![counter])),
        }
    }
    let value =
        |row: &[&CountedRecord], quantity: &str| row.iter().find(|c| c.quantity == quantity)?.value;
    let percent = |row: &[&CountedRecord], quantity: &str| match value(row, quantity) {
        Some(value) => format!("{value:.0}%"),
        None => "not counted".to_owned(),
    };
    let missing: Vec<&str> = counters
        .iter()
        .filter(|c| c.value.is_none())
        .filter_map(|c| c.note.as_deref())
        .collect();
    html! {
        @if !rows.is_empty() {
            p.note {
                "Counted in an untimed execution. Shares of pipeline slots and cycles are those of the top-down method."
                @if let Some(why) = missing.first() { " Hardware counters: " (why) "." }
            }
            div.scroll {
                table {
                    thead { tr { th { "level" } th { "phase" } th { "operator" } th.n { "busy ms" } th.n { "instructions per cycle" } th.n { "memory bound" } th.n { "latency bound" } th.n { "bandwidth bound" } th.n { "store bound" } } }
                    tbody {
                        @for ((level, phase, operator), row) in &rows {
                            tr {
                                td { (level) } td { (phase.unwrap_or("all")) } td { (operator.unwrap_or("all")) }
                                td.n { @if let Some(ns) = value(row, "busy_ns") { (words::ms(ns / 1e6)) } @else { "not timed" } }
                                td.n {
                                    @if let (Some(all), Some(cycles)) = (value(row, "instructions"), value(row, "cycles")) { (format!("{:.2}", all / cycles.max(1.0))) }
                                    @else { "not counted" }
                                }
                                td.n { (percent(row, "memory_bound")) } td.n { (percent(row, "latency_bound")) }
                                td.n { (percent(row, "bandwidth_bound")) } td.n { (percent(row, "store_bound")) }
                            }
                        }
                    }
                }
            }
        }
    }
}
