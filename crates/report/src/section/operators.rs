//! The measured operators behind the times of queries.

use super::missing;
use crate::view::{BASELINE, RunView};
use crate::words;
use maud::{Markup, html};
use tierloom_record::{OperatorRecord, QueryRecord};

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
