//! How modelled time is distributed over compute, cache, latency and bandwidth; load of the tiers.

use super::missing;
use crate::chart::{Caption, PARTS, StackedRow, share_stack};
use crate::view::RunView;
use crate::{ReportError, words};
use maud::{Markup, html};
use tierloom_record::QueryRecord;

/// Charts and tables for each machine with modelled shares.
pub(crate) fn section(view: &RunView<'_>) -> Result<Markup, ReportError> {
    let mut parts = Vec::new();
    for machine in view
        .machines
        .iter()
        .filter(|m| view.on(m).any(|q| q.shares.is_some()))
    {
        parts.push(machine_part(view, machine)?);
    }
    Ok(html! {
        section id=(format!("{}-time", view.prefix)) {
            h2 { "Where the time goes" }
            @if parts.is_empty() {
                (missing("No modelled machine has figures in this run; a measured time alone cannot be split into computing and waiting."))
            } @else {
                p.note {
                    "Modelled. " b { "Compute" } ": processor work. " b { "Cache" } ": hits in the last-level cache. " b { "Latency" }
                    ": waiting for memory that is not loaded. " b { "Bandwidth" } ": waiting because a tier is loaded or full. More bandwidth helps the last part only."
                }
                (part_legend())
                @for part in &parts { (part) }
            }
        }
    })
}

fn part_legend() -> Markup {
    html! {
        ul.legend {
            @for (index, name) in PARTS.iter().enumerate() {
                li { span.swatch style=(format!("--c:var(--share{index})")) {} (name) }
            }
        }
    }
}

fn machine_part(view: &RunView<'_>, machine: &str) -> Result<Markup, ReportError> {
    let placements = view.placements_on(machine);
    let mut charts = Vec::new();
    for placement in &placements {
        let shares = |query: &&str| {
            Some(StackedRow {
                label: query.to_string(),
                shares: view.find(query, placement, machine)?.shares?,
            })
        };
        let rows: Vec<StackedRow> = view.queries.iter().filter_map(shares).collect();
        if !rows.is_empty() {
            let caption = Caption {
                id: format!("{}-share-{}-{}", view.prefix, words::slug(machine, &view.machines), view.series(placement)),
                title: format!("Where time goes on {machine} under {placement}"),
                description: "Stacked bars, one per query: compute, cache, latency, bandwidth, in per cent of the query's time.".into(),
            };
            charts.push((*placement, share_stack(&caption, &rows)?));
        }
    }
    Ok(html! {
        h3 { "On " (view.machine_title(machine)) }
        div.grid.small { @for (placement, chart) in &charts { figure { figcaption { b { (placement) } } (chart) } } }
        (tier_table(view, machine, &placements))
    })
}

fn tier_table(view: &RunView<'_>, machine: &str, placements: &[&str]) -> Markup {
    let told = |q: &QueryRecord| !q.tiers.is_empty() || q.bottleneck.is_some();
    if !view.on(machine).any(told) {
        return missing("The records hold no tier utilisation for this machine.");
    }
    html! {
        h4 { "Tier utilisation and bottleneck" }
        p.note { "Traffic over the tier's peak, averaged over the query, and what limits the query." }
        div.scroll {
            table {
                thead { tr { th { "query" } @for placement in placements { th { (placement) } } } }
                tbody {
                    @for query in &view.queries {
                        tr {
                            th { (query) }
                            @for placement in placements { td { (tier_cell(view.find(query, placement, machine))) } }
                        }
                    }
                }
            }
        }
    }
}

fn tier_cell(record: Option<&QueryRecord>) -> Markup {
    let Some(record) = record else {
        return html! { span.note { "not modelled" } };
    };
    html! {
        @for tier in &record.tiers {
            div title=(format!("{} GB/s, {} moved", words::number(tier.bandwidth_gbps), words::bytes(tier.bytes.max(0.0) as u64))) {
                span class=(if tier.utilisation >= 0.9 { "meter full" } else { "meter" }) {
                    span style=(format!("--u:{:.0}%", tier.utilisation.clamp(0.0, 1.0) * 100.0)) {}
                }
                (words::share(tier.utilisation)) " " (tier.tier)
            }
        }
        @if let Some(bottleneck) = &record.bottleneck { span.sub { (bottleneck) } }
    }
}
