//! Tables of prices and of the effect of assumptions.

use crate::section::missing;
use crate::words;
use maud::{Markup, html};
use tierloom_record::{CostConfig, CostPoint, CostRecord};

/// One row per demand, with the cheapest configuration of each kind.
pub(super) fn points(record: &CostRecord, id: &str) -> Markup {
    let throughput = record.throughput_of.is_some();
    html! {
        section id=(format!("{id}-table")) {
            h2 { "The cheapest configurations" }
            p.note {
                "Per demand the price in " (record.currency) ", the price per GiB of demand, and what is saved over the first kind. Point at a price to see the configuration."
                @if throughput { " Queries per hour (q/h) are modelled." }
            }
            @if record.points.is_empty() { (missing("No demand was asked for.")) }
            div.scroll {
                table {
                    thead {
                        tr {
                            th { "demand" }
                            @for kind in &record.kinds { th.n colspan=(if throughput { "4" } else { "3" }) { (kind) } }
                        }
                        tr {
                            th {}
                            @for _ in &record.kinds {
                                th.n { "price" } th.n { "per GiB" } th.n { "saved" }
                                @if throughput { th.n { "q/h" } }
                            }
                        }
                    }
                    tbody { @for point in &record.points { (row(record, point)) } }
                }
            }
        }
    }
}

fn row(record: &CostRecord, point: &CostPoint) -> Markup {
    let base = point.cheapest.first().and_then(Option::as_ref);
    let throughput = record.throughput_of.is_some();
    html! {
        tr {
            td { (words::short_bytes(point.demand_gib as f64 * 1024.0 * 1024.0 * 1024.0)) }
            @for (index, config) in point.cheapest.iter().enumerate() {
                @match config {
                    None => { td.n colspan=(if throughput { "4" } else { "3" }) { "cannot meet it" } }
                    Some(config) => { (cells(config, base.filter(|_| index > 0), point.demand_gib, throughput)) }
                }
            }
        }
    }
}

fn cells(config: &CostConfig, base: Option<&CostConfig>, demand: u64, throughput: bool) -> Markup {
    let saved = base.map(|base| 1.0 - config.price / base.price);
    html! {
        td.n title=(config.words) { (words::count(config.price.max(0.0).round() as u64)) }
        td.n { (format!("{:.1}", config.price / demand.max(1) as f64)) }
        td.n { @if let Some(saved) = saved { (format!("{:.0}%", saved * 100.0)) } }
        @if throughput { td.n { @if let Some(queries) = config.queries_per_hour { (words::count(queries.max(0.0).round() as u64)) } } }
    }
}

/// One row per changed assumption, with its effect on the findings.
pub(super) fn sensitivities(record: &CostRecord, id: &str) -> Markup {
    // Assumptions without effect are only named, in one sentence below the table.
    let (moving, still): (Vec<_>, Vec<_>) = record
        .sensitivities
        .iter()
        .partition(|s| s.effect != "nothing moves");
    html! {
        section id=(format!("{id}-sensitivities")) {
            h2 { "What if an assumption is wrong" }
            @if record.sensitivities.is_empty() { (missing("No assumption was changed in this comparison.")) }
            @else {
                p.note { "One assumption at a time. The largest saving is over all kinds and demands." }
                div.scroll {
                    table {
                        thead { tr { th { "assumption" } th { "change" } th.n { "largest saving" } th { "what moves" } } }
                        tbody {
                            @for s in &moving {
                                tr { td { (s.assumption) } td { (s.change) } td.n { (format!("{:.0}%", s.largest_saving * 100.0)) } td { (s.effect) } }
                            }
                        }
                    }
                }
                @if !still.is_empty() {
                    p.note {
                        "Nothing moves with: "
                        (words::list(&still.iter().map(|s| format!("{} ({})", s.assumption, s.change)).collect::<Vec<_>>())) "."
                    }
                }
            }
        }
    }
}
