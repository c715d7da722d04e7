//! Times of queries under each placement, and speed-ups over DRAM only.

use super::{legend, missing, tag};
use crate::chart::{Bar, BarGroup, Caption, RatioRange, ratio_bars};
use crate::view::{BASELINE, RunView};
use crate::{ReportError, words};
use maud::{Markup, html};
use tierloom_record::{HERE, Provenance, QueryRecord};

/// Charts and tables for each machine.
pub(crate) fn section(view: &RunView<'_>) -> Result<Markup, ReportError> {
    let mut machines = Vec::new();
    for machine in &view.machines {
        machines.push(machine_part(view, machine)?);
    }
    Ok(html! {
        section id=(format!("{}-speedups", view.prefix)) {
            h2 { "Queries under each placement" }
            @if view.machines.is_empty() { (missing("No query finished, so there is nothing to show.")) }
            @if !view.machines.is_empty() && view.set.run.machines.is_empty() {
                p.note { "No machine profile was asked for, so nothing is modelled." }
            }
            @for part in &machines { (part) }
        }
    })
}

fn machine_part(view: &RunView<'_>, machine: &str) -> Result<Markup, ReportError> {
    let placements: Vec<&str> = view.placements_on(machine);
    let charts = charts(view, machine)?;
    let provenance: Vec<Provenance> = view.on(machine).map(|q| q.provenance).collect();
    // DRAM itself is the baseline, so it has no bars.
    let compared: Vec<&str> = placements
        .iter()
        .copied()
        .filter(|p| *p != BASELINE)
        .collect();
    Ok(html! {
        h3 { "On " (view.machine_title(machine)) }
        @if charts.is_empty() {
            (missing(&why_no_chart(view, machine, &placements)))
        } @else {
            p.note {
                "Speed-up over DRAM only. Bars start at 1×: to the right is faster, to the left slower. The axis is logarithmic, so that twice and half as fast are equally long."
            }
            (legend(view, &compared, &provenance))
            div.grid { @for chart in &charts { figure { (chart) } } }
        }
        @if !placements.is_empty() { (times_table(view, machine, &placements)) }
    })
}

fn why_no_chart(view: &RunView<'_>, machine: &str, placements: &[&str]) -> String {
    if placements.is_empty() {
        return "There are no figures of Tierloom's engine for this machine.".into();
    }
    if !placements.contains(&BASELINE) {
        return format!(
            "No chart: it would compare with placement {BASELINE}, which has no figures here."
        );
    }
    let mut text = format!(
        "No chart: only {} has figures here, so there is nothing to compare.",
        words::list(placements)
    );
    if machine == HERE {
        let cards = view
            .set
            .summary
            .as_ref()
            .map(|s| s.placements.as_slice())
            .unwrap_or_default();
        for (placement, why) in cards
            .iter()
            .filter_map(|card| Some((&card.placement, card.why_not.as_ref()?)))
        {
            text.push_str(&format!(
                " {placement} was not placed on this machine: {why}."
            ));
        }
    }
    text
}

fn bar(view: &RunView<'_>, record: &QueryRecord) -> Option<Bar> {
    Some(Bar {
        name: record.placement.clone(),
        series: view.series(&record.placement),
        value: view.speedup(record)?,
        range: view.speedup_range(record),
        modelled: record.provenance == Provenance::Modelled,
    })
}

/// One chart per group of queries, all with the same axis.
fn charts(view: &RunView<'_>, machine: &str) -> Result<Vec<Markup>, ReportError> {
    let group_of = |query: &&str| {
        let records = view
            .placements
            .iter()
            .filter(|p| **p != BASELINE)
            .filter_map(|p| view.find(query, p, machine));
        BarGroup {
            label: query.to_string(),
            bars: records.filter_map(|r| bar(view, r)).collect(),
        }
    };
    let groups: Vec<(&str, Vec<BarGroup>)> = view
        .groups()
        .into_iter()
        .map(|(name, queries)| {
            (
                name,
                queries
                    .iter()
                    .map(group_of)
                    .filter(|g| !g.bars.is_empty())
                    .collect::<Vec<_>>(),
            )
        })
        .filter(|(_, bars)| !bars.is_empty())
        .collect();
    let names: Vec<&str> = groups.iter().map(|(name, _)| *name).collect();
    // One range for all charts of the machine, so that bars of different groups can be compared.
    let range = RatioRange::of(groups.iter().flat_map(|(_, bars)| bars));
    let draw = |(name, bars): &(&str, Vec<BarGroup>)| {
        let caption = Caption {
            id: format!(
                "{}-speedup-{}-{}",
                view.prefix,
                words::slug(machine, &view.machines),
                words::slug(name, &names)
            ),
            title: format!("Speed-up over DRAM only on {machine}, queries {name}"),
            description:
                "Horizontal bars, one per query and placement; the table below holds the times."
                    .into(),
        };
        ratio_bars(&caption, bars, range)
    };
    groups.iter().map(draw).collect()
}

fn times_table(view: &RunView<'_>, machine: &str, placements: &[&str]) -> Markup {
    let means = view.means(machine);
    html! {
        div.scroll {
            table {
                thead { tr { th { "query" } @for placement in placements { th.n { (placement) span.sub { "ms: median [min..max]" } } } } }
                tbody {
                    @for query in &view.queries {
                        @if placements.iter().any(|p| view.find(query, p, machine).is_some()) {
                            tr {
                                th { (query) }
                                @for placement in placements { td.n { (time_cell(view, view.find(query, placement, machine))) } }
                            }
                        }
                    }
                    tr.total {
                        th { "geometric mean" }
                        @for placement in placements {
                            td.n {
                                @if let Some(mean) = means.iter().find(|m| m.placement == *placement) {
                                    (words::ms(mean.geomean_ms)) " " (tag(mean.provenance))
                                    @if let (Some(speedup), true) = (mean.speedup_over_dram, *placement != BASELINE) { span.sub { (words::ratio(speedup)) " of dram's speed" } }
                                } @else { "no figure" }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn time_cell(view: &RunView<'_>, record: Option<&QueryRecord>) -> Markup {
    let Some(record) = record else {
        return html! { span.note { "not run" } };
    };
    let noisy = record.time_ms.values.len() > 1
        && record.time_ms.relative_range() > words::NOISY_RELATIVE_RANGE;
    html! {
        (words::spread_ms(&record.time_ms)) " " (tag(record.provenance))
        @if noisy { " " span.tag { "noisy" } }
        @if record.placement != BASELINE { @if let Some(speedup) = view.speedup(record) { span.sub { (words::ratio(speedup)) } } }
    }
}
