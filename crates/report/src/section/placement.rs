//! Where each column was placed, and where the kernel found its pages.

use super::missing;
use crate::view::RunView;
use crate::words;
use maud::{Markup, html};
use tierloom_record::{AuditRecord, ColumnCard, NodeShare, PlacementCard};

/// Tables of placements, columns and page audits.
pub(crate) fn section(view: &RunView<'_>) -> Markup {
    let cards = view
        .set
        .summary
        .as_ref()
        .map(|s| s.placements.as_slice())
        .unwrap_or_default();
    html! {
        section id=(format!("{}-placement", view.prefix)) {
            h2 { "Placement and page audit" }
            @if cards.is_empty() {
                (missing(if view.set.summary.is_none() {
                    "Not known: placements are recorded at the end of a run, and this one was killed."
                } else {
                    "The run recorded no placement."
                }))
            } @else {
                (meanings(cards))
                (columns(cards))
                (audits(cards))
            }
        }
    }
}

fn meanings(cards: &[PlacementCard]) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr { th { "placement" } th { "meaning" } th { "on this machine" } } }
                tbody {
                    @for card in cards {
                        tr {
                            th { (card.placement) }
                            td { (card.meaning) }
                            td {
                                @if card.placed_here { "placed and audited" } @else { "modelled only" }
                                @if let Some(why) = &card.why_not { span.sub { (why) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// One row per column of data and one table column per placement, ordered by bytes read.
fn columns(cards: &[PlacementCard]) -> Markup {
    let mut rows: Vec<&ColumnCard> = Vec::new();
    for column in cards.iter().flat_map(|card| &card.columns) {
        if !rows.iter().any(|known| known.column == column.column) {
            rows.push(column);
        }
    }
    // The columns that are read most matter most for a placement.
    rows.sort_by(|a, b| {
        b.read_bytes
            .cmp(&a.read_bytes)
            .then_with(|| a.column.cmp(&b.column))
    });
    if rows.is_empty() {
        return missing("The run recorded no columns.");
    }
    let place = |card: &PlacementCard, name: &str| {
        card.columns
            .iter()
            .find(|c| c.column == name)
            .map_or("not recorded".to_string(), |c| c.placement.clone())
    };
    html! {
        h3 { "Columns, most read first" }
        div.scroll {
            table {
                thead { tr { th { "column" } th.n { "bytes" } th.n { "read in one round" span.sub { "of all queries" } } @for card in cards { th { (card.placement) } } } }
                tbody {
                    @for row in rows {
                        tr {
                            th { (row.column) }
                            td.n { (words::bytes(row.bytes)) }
                            td.n { @if row.read_bytes == 0 { "never read" } @else { (words::bytes(row.read_bytes)) } }
                            @for card in cards { td { (place(card, &row.column)) } }
                        }
                    }
                }
            }
        }
    }
}

fn audits(cards: &[PlacementCard]) -> Markup {
    let audited: Vec<(&str, &str, &AuditRecord)> = cards
        .iter()
        .flat_map(|card| {
            [("before", &card.audit_before), ("after", &card.audit_after)]
                .map(|(when, audit)| (card.placement.as_str(), when, audit))
        })
        .filter_map(|(placement, when, audit)| Some((placement, when, audit.as_ref()?)))
        .collect();
    html! {
        h3 { "Page audit" }
        @if audited.is_empty() {
            (missing("No placement was audited: nothing was placed on this machine."))
        } @else {
            p.note {
                "Share of pages per NUMA node. Requested: what was asked for. Effective: what whole pages can give. Actual: where the kernel says that the pages are, before and after the queries."
            }
            div.scroll {
                table {
                    thead {
                        tr { th { "placement" } th { "when" } th { "requested" } th { "effective" } th { "actual" } th.n { "worst deviation" } th.n { "pages checked" } th.n { "without memory" } }
                    }
                    tbody {
                        @for (placement, when, audit) in audited {
                            tr {
                                th { (placement) } td { (when) " the queries" }
                                td { (shares(&audit.requested)) } td { (shares(&audit.effective)) } td { (shares(&audit.actual)) }
                                td.n { span class=(if audit.worst_deviation > 0.01 { "slower" } else { "" }) { (words::exact_share(audit.worst_deviation)) } }
                                td.n { (words::count(audit.pages_checked)) " (" (words::bytes(audit.bytes_checked)) ")" } td.n { (words::count(audit.pages_absent)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn shares(shares: &[NodeShare]) -> String {
    let told: Vec<String> = shares
        .iter()
        .map(|s| format!("node {}: {}", s.node, words::exact_share(s.share)))
        .collect();
    if told.is_empty() {
        "nothing".into()
    } else {
        told.join(", ")
    }
}
