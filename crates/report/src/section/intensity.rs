//! How the gain of a placement depends on the engine's CPU time per tuple.

use super::missing;
use crate::chart::{Caption, Line, Mark, ratio_lines};
use crate::view::{BASELINE, RunView};
use crate::{ReportError, words};
use maud::{Markup, html};
use tierloom_record::IntensityRow;

/// Charts, explanations and tables, one per machine.
pub(crate) fn section(view: &RunView<'_>) -> Result<Markup, ReportError> {
    let rows = view
        .set
        .summary
        .as_ref()
        .map(|s| s.intensity.as_slice())
        .unwrap_or_default();
    let machines = machines_of(rows);
    let mut parts = Vec::new();
    for machine in &machines {
        parts.push(machine_part(view, machine, rows)?);
    }
    Ok(html! {
        section id=(format!("{}-intensity", view.prefix)) {
            h2 { "Two machines, two answers: the engine's intensity" }
            @if parts.is_empty() {
                (missing(why_missing(view)))
            } @else {
                (explanation())
                div.grid { @for part in &parts { div { (part) } } }
                @for machine in &machines { h4 { (machine) ", modelled" } (table(rows, machine, &placements(rows, machine))) }
            }
        }
    })
}

fn machines_of(rows: &[IntensityRow]) -> Vec<&str> {
    let mut machines: Vec<&str> = Vec::new();
    for row in rows {
        if !machines.contains(&row.machine.as_str()) {
            machines.push(&row.machine);
        }
    }
    machines
}

fn why_missing(view: &RunView<'_>) -> &'static str {
    match &view.set.summary {
        None => {
            "Not known: the table of intensities is made at the end of a run, and this one was killed."
        }
        Some(_) if view.set.run.machines.is_empty() => {
            "Not known: it is modelled, and no machine profile was asked for."
        }
        Some(_) => "The run recorded no table of intensities.",
    }
}

fn explanation() -> Markup {
    html! {
        p {
            "The same queries, priced again as if the processor spent another time on each fact tuple. An engine that spends little time per tuple asks for much memory "
            "bandwidth, one that spends much asks for little. Spreading pages over DRAM and CXL adds bandwidth and lengthens the mean wait: it gains where DRAM is saturated and loses "
            "where it is not. Which of the two a machine is in depends on its DRAM bandwidth per core and on the engine, so published results can contradict each other and both be right."
        }
    }
}

fn points<'r>(rows: &'r [IntensityRow], machine: &str, placement: &str) -> Vec<&'r IntensityRow> {
    let mut found: Vec<&IntensityRow> = rows
        .iter()
        .filter(|r| {
            r.machine == machine
                && r.placement == placement
                && r.time_per_tuple_ns.is_some_and(|ns| ns > 0.0)
        })
        .collect();
    found.sort_by(|a, b| {
        a.time_per_tuple_ns
            .unwrap_or(0.0)
            .total_cmp(&b.time_per_tuple_ns.unwrap_or(0.0))
    });
    found
}

fn own<'r>(rows: &'r [IntensityRow], machine: &str, placement: &str) -> Option<&'r IntensityRow> {
    rows.iter()
        .find(|r| r.machine == machine && r.placement == placement && r.time_per_tuple_ns.is_none())
}

fn placements<'r>(rows: &'r [IntensityRow], machine: &str) -> Vec<&'r str> {
    let mut found: Vec<&str> = Vec::new();
    for row in rows
        .iter()
        .filter(|r| r.machine == machine && r.placement != BASELINE)
    {
        if !found.contains(&row.placement.as_str()) {
            found.push(&row.placement);
        }
    }
    found
}

fn machine_part(
    view: &RunView<'_>,
    machine: &str,
    rows: &[IntensityRow],
) -> Result<Markup, ReportError> {
    let placements = placements(rows, machine);
    let line = |(index, placement): (usize, &&str)| Line {
        name: placement.to_string(),
        // The placements of this table need not be among those of the run.
        series: if view.placements.contains(placement) {
            view.series(placement)
        } else {
            view.placements.len() + index
        },
        points: points(rows, machine, placement)
            .iter()
            .filter_map(|r| Some((r.time_per_tuple_ns?, r.speedup_over_dram)))
            .filter(|p| p.1 > 0.0)
            .collect(),
        own: own(rows, machine, placement)
            .map(|r| Mark {
                x: r.own_time_per_tuple_ns,
                y: r.speedup_over_dram,
            })
            .filter(|m| m.y > 0.0),
    };
    let lines: Vec<Line> = placements.iter().enumerate().map(line).collect();
    let caption = Caption {
        id: format!("{}-intensity-{}", view.prefix, words::slug(machine, &machines_of(rows))),
        title: format!("Speed-up over DRAM only on {machine} by CPU time per fact tuple"),
        description: "One line per placement; rings mark what this engine's measured work gives. The table below holds the values.".into(),
    };
    let chart = if lines.is_empty() {
        missing("Only DRAM was priced, so there is no speed-up to show.")
    } else {
        ratio_lines(&caption, &lines, "CPU time per fact tuple and worker, ns")?
    };
    Ok(html! {
        h3 { "On " (view.machine_title(machine)) }
        figure { (chart) figcaption { "Modelled. Above 1× is faster than DRAM only. Rings: the work measured in this run." } }
        ul { @for placement in &placements { @for sentence in sentences(rows, machine, placement) { li { (sentence) } } } }
    })
}

/// The curve of one placement as text.
fn sentences(rows: &[IntensityRow], machine: &str, placement: &str) -> Vec<String> {
    let mut told = Vec::new();
    let points = points(rows, machine, placement);
    if let (Some(first), Some(last)) = (points.first(), points.last()) {
        let at = |row: &IntensityRow| {
            let ns = words::number(row.time_per_tuple_ns.unwrap_or(0.0));
            format!(
                "{} at {ns} ns per tuple (DRAM alone would be up to {} utilised)",
                words::ratio(row.speedup_over_dram),
                words::share(row.dram_utilisation)
            )
        };
        told.push(format!(
            "{placement}: {}, {}.{}",
            at(first),
            at(last),
            crossing(&points)
        ));
    }
    if let Some(own) = own(rows, machine, placement) {
        let ns = own
            .own_time_per_tuple_ns
            .map(|ns| format!(" (about {} ns per tuple)", words::number(ns)))
            .unwrap_or_default();
        let why = if own.speedup_over_dram < 1.0 - words::SAME_WITHIN {
            "what it loses to the slower tier outweighs the bandwidth it adds"
        } else if own.speedup_over_dram > 1.0 + words::SAME_WITHIN {
            "the bandwidth it adds outweighs what it loses to the slower tier"
        } else {
            "gain and loss balance, or memory hardly matters"
        };
        told.push(format!(
            "{placement} with the work measured here{ns}: {}, {} faster and {} slower; DRAM alone is up to {} utilised, and {why}.",
            words::ratio(own.speedup_over_dram),
            words::queries(own.faster as usize),
            own.slower,
            words::share(own.dram_utilisation)
        ));
    }
    told
}

/// Between which two points the curve crosses 1; empty if it does not.
fn crossing(points: &[&IntensityRow]) -> String {
    let around = points
        .windows(2)
        .find(|w| (w[0].speedup_over_dram - 1.0) * (w[1].speedup_over_dram - 1.0) < 0.0);
    match around.map(|w| (w[0].time_per_tuple_ns, w[1].time_per_tuple_ns)) {
        Some((Some(low), Some(high))) => format!(
            " The verdict turns between {} and {} ns.",
            words::number(low),
            words::number(high)
        ),
        _ => String::new(),
    }
}

/// One row per CPU time, one column per placement.
fn table(rows: &[IntensityRow], machine: &str, placements: &[&str]) -> Markup {
    let of_machine: Vec<&IntensityRow> = rows
        .iter()
        .filter(|r| r.machine == machine && r.placement != BASELINE)
        .collect();
    let mut times: Vec<Option<f64>> = Vec::new();
    for row in &of_machine {
        if !times.contains(&row.time_per_tuple_ns) {
            times.push(row.time_per_tuple_ns);
        }
    }
    // The row of the measured work has no given time and goes last.
    times.sort_by(|a, b| {
        a.unwrap_or(f64::INFINITY)
            .total_cmp(&b.unwrap_or(f64::INFINITY))
    });
    let rows_at = |time: &Option<f64>| {
        of_machine
            .iter()
            .copied()
            .filter(|r| r.time_per_tuple_ns == *time)
            .collect::<Vec<_>>()
    };
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th { "ns per tuple" } th.n { "DRAM utilised" span.sub { "all in DRAM, at most" } }
                        @for placement in placements { th.n { (placement) span.sub { "speed-up (first group)" } } }
                    }
                }
                tbody {
                    @for time in &times {
                        @let found = rows_at(time);
                        tr {
                            th { @if let Some(row) = found.first() { (ns_cell(row)) } }
                            td.n { @if let Some(row) = found.first() { (words::share(row.dram_utilisation)) } }
                            @for placement in placements { td.n { (speedup_cell(found.iter().copied().find(|r| r.placement == *placement))) } }
                        }
                    }
                }
            }
        }
    }
}

fn speedup_cell(row: Option<&IntensityRow>) -> Markup {
    let Some(row) = row else {
        return html! { span.note { "not priced" } };
    };
    html! {
        (words::ratio(row.speedup_over_dram))
        @if let Some(first) = row.first_group_speedup { " (" (words::ratio(first)) ")" }
        span.sub { (row.faster) " faster, " (row.slower) " slower" }
    }
}

fn ns_cell(row: &IntensityRow) -> String {
    match (row.time_per_tuple_ns, row.own_time_per_tuple_ns) {
        (Some(ns), _) => words::number(ns),
        (None, Some(ns)) => format!("as measured ({})", words::number(ns)),
        (None, None) => "as measured".into(),
    }
}
