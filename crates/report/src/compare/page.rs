//! The HTML page of a comparison.

use super::{Comparison, ComparisonRow, MeanChange, Verdict, bench_page};
use crate::chart::{Bar, BarGroup, Caption, RatioRange, ratio_bars};
use crate::section::{missing, tag};
use crate::{ReportError, ReportOptions, page, words};
use maud::{Markup, html};
use tierloom_record::{EngineKind, Provenance, RecordSet};

/// Renders a comparison as one self-contained HTML document.
///
/// It contains the records of both sets, those before first.
///
/// # Errors
/// [`ReportError::Chart`] if a chart could not be drawn, [`ReportError::Records`] if the records
/// could not be embedded.
pub fn render_comparison(
    comparison: &Comparison,
    before: &RecordSet,
    after: &RecordSet,
    options: &ReportOptions,
) -> Result<String, ReportError> {
    let title = options
        .title
        .clone()
        .unwrap_or_else(|| "Two sets of records compared".into());
    let charts = charts(comparison)?;
    let benches = bench_page::sections(&comparison.benches)?;
    let has_benches = !comparison.benches.is_empty();
    // Sets of benchmarks alone have no sections on queries.
    let has_queries = !(has_benches && before.runs.is_empty() && after.runs.is_empty());
    let body = html! {
        nav aria-label="Sections" {
            @if has_benches { a href="#bench-changes" { "Benchmarks" } a href="#bench-figures" { "Figures of the benchmarks" } }
            @if has_queries { a href="#changes" { "Queries" } a href="#figures" { "Figures of the queries" } }
            a href="#settings" { "Settings" } a href="#records" { "Raw records" }
        }
        section #summary {
            h2 { "Summary" }
            (sets(before, after))
            (verdict_boxes(comparison))
            ul.findings { @for sentence in comparison.sentences() { li { (sentence) } } }
            @for note in &comparison.notes { p.note { (note) } }
            @if !comparison.means.is_empty() { (means(&comparison.means)) }
        }
        (benches)
        @if has_queries {
            section #changes {
                h2 { "Change per query" }
                @if comparison.rows.is_empty() { (missing("No figure is in both sets.")) }
                @for machine in unchanged_models(comparison) {
                    p { "On " (machine) " every modelled time changed by less than 1%, so it has no chart." }
                }
                @if !charts.is_empty() {
                    p.note { "Median time before over median time after: to the right of 1× is faster now. Solid: measured, striped: modelled. Whisker: slowest against fastest repeats." }
                    div.grid { @for (heading, chart) in &charts { figure { figcaption { b { (heading) } } (chart) } } }
                }
            }
            section #figures { h2 { "Figures" } (table(&comparison.rows)) (lonely(comparison)) }
        }
        section #settings { h2 { "Settings, machine and data" } (differences(comparison)) }
    };
    let both = RecordSet::merged([before.clone(), after.clone()]);
    page::document(&title, body, &both)
}

fn is_unchanged_model(row: &ComparisonRow) -> bool {
    row.provenance == Provenance::Modelled && row.verdict == Verdict::NoDifference
}

/// Machines whose figures are all modelled and unchanged; a chart would show nothing.
fn unchanged_models(comparison: &Comparison) -> Vec<&str> {
    let mut machines: Vec<&str> = Vec::new();
    for row in &comparison.rows {
        let of_machine = comparison.rows.iter().filter(|r| r.machine == row.machine);
        if !machines.contains(&row.machine.as_str()) && of_machine.clone().all(is_unchanged_model) {
            machines.push(&row.machine);
        }
    }
    machines
}

fn sets(before: &RecordSet, after: &RecordSet) -> Markup {
    html! {
        dl {
            @for (name, set) in [("before", before), ("after", after)] {
                dt { (name) }
                dd {
                    @if set.is_empty() { "no record" }
                    @if let Some(first) = set.benches.first() {
                        div {
                            (words::runs(set.benches.len())) ": " (crate::bench::title_of(&set.benches)) ", started " (first.started_at) ", Tierloom " (first.tool_version)
                            @if let Some(commit) = &first.commit { " (" (commit) ")" }
                        }
                    }
                    @for run in &set.runs {
                        div {
                            (run.run.run_id) ", started " (run.run.started_at) ", " (words::title_of(&run.run)) ", Tierloom " (run.run.tool_version)
                            @if let Some(commit) = &run.run.commit { " (" (commit) ")" }
                            @match &run.summary { None => ", killed before its end", Some(s) if s.interrupted => ", interrupted", Some(_) => "" }
                        }
                    }
                }
            }
        }
    }
}

fn verdict_boxes(comparison: &Comparison) -> Markup {
    html! {
        @if !comparison.is_comparable() {
            div.box.bad {
                p { b { "The sets are not comparable." } " A change may come from these differences alone:" }
                ul { @for line in &comparison.not_comparable { li { (line) } } }
            }
        } @else if !comparison.differences_in_settings.is_empty() {
            p.box.warn { (comparison.differences_in_settings.len()) " settings or properties of the machine differ; they are listed below." }
        }
    }
}

/// One chart per machine, engine and group of queries.
fn charts(comparison: &Comparison) -> Result<Vec<(String, Markup)>, ReportError> {
    let mut parts: Vec<(&str, EngineKind)> = Vec::new();
    let mut placements: Vec<&str> = Vec::new();
    for row in &comparison.rows {
        if !parts.contains(&(&row.machine, row.engine)) {
            parts.push((&row.machine, row.engine));
        }
        if !placements.contains(&row.placement.as_str()) {
            placements.push(&row.placement);
        }
    }
    let mut charts = Vec::new();
    for (index, (machine, engine)) in parts.into_iter().enumerate() {
        let rows: Vec<&ComparisonRow> = comparison
            .rows
            .iter()
            .filter(|r| r.machine == machine && r.engine == engine)
            .collect();
        if rows.iter().all(|row| is_unchanged_model(row)) {
            continue;
        }
        let groups = groups(&rows, &placements);
        let range = RatioRange::of(&groups);
        for (part, chunk) in groups
            // One chart per group of queries, with the axis of all groups.
            .chunk_by(|a, b| words::group_of(&a.label) == words::group_of(&b.label))
            .enumerate()
        {
            let caption = Caption {
                id: format!("change-{index}-{part}"),
                title: format!("Speed-up from before to after on {machine}, {engine}"),
                description:
                    "Horizontal bars, one per query and placement; the table below holds the times."
                        .into(),
            };
            charts.push((
                format!("{machine}, {engine}"),
                ratio_bars(&caption, chunk, range)?,
            ));
        }
    }
    Ok(charts)
}

fn groups(rows: &[&ComparisonRow], placements: &[&str]) -> Vec<BarGroup> {
    let mut groups: Vec<BarGroup> = Vec::new();
    for row in rows {
        let repeats = row.before.values.len() > 1
            && row.after.values.len() > 1
            && row.provenance == Provenance::Measured;
        let range = (
            row.before.min / row.after.max,
            row.before.max / row.after.min,
        );
        let bar = Bar {
            name: row.placement.clone(),
            series: placements
                .iter()
                .position(|p| *p == row.placement)
                .unwrap_or(0),
            // Rows have times, bars show speed.
            value: 1.0 / row.ratio,
            range: (repeats && range.0 > 0.0 && range.1.is_finite()).then_some(range),
            modelled: row.provenance == Provenance::Modelled,
        };
        match groups.iter_mut().find(|g| g.label == row.query) {
            Some(group) => group.bars.push(bar),
            None => groups.push(BarGroup {
                label: row.query.clone(),
                bars: vec![bar],
            }),
        }
    }
    groups
}

fn means(means: &[MeanChange]) -> Markup {
    html! {
        h3 { "Geometric means" }
        div.scroll {
            table {
                thead { tr { th { "placement" } th { "machine" } th { "engine" } th {} th.n { "queries" } th.n { "change of time" } } }
                tbody {
                    @for mean in means {
                        tr {
                            th { (mean.placement) } td { (mean.machine) } td { (mean.engine.to_string()) } td { (tag(mean.provenance)) }
                            td.n { (mean.queries) } td.n { (words::change((mean.ratio - 1.0) * 100.0)) }
                        }
                    }
                }
            }
        }
    }
}

fn table(rows: &[ComparisonRow]) -> Markup {
    let class = |verdict: Verdict| match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDifference | Verdict::TooFewSamples => "note",
    };
    html! {
        div.scroll {
            table {
                thead { tr { th { "query" } th { "placement" } th { "machine" } th { "engine" } th {} th.n { "before, ms" } th.n { "after, ms" } th.n { "change of time" } th { "verdict" } th.n { "p" } } }
                tbody {
                    @for row in rows {
                        tr {
                            th { (row.query) } td { (row.placement) } td { (row.machine) } td { (row.engine.to_string()) } td { (tag(row.provenance)) }
                            td.n { (words::spread_ms(&row.before)) } td.n { (words::spread_ms(&row.after)) } td.n { (words::change(row.change_percent)) }
                            td { span class=(class(row.verdict)) { (row.verdict.to_string()) } }
                            td.n { @if let Some(p) = row.p_value { (format!("{p:.3}")) } @else { span.note { "no test" } } }
                        }
                    }
                }
            }
        }
    }
}

fn lonely(comparison: &Comparison) -> Markup {
    html! {
        @for (heading, names) in [("Only before", &comparison.only_before), ("Only after", &comparison.only_after)] {
            @if !names.is_empty() { h3 { (heading) } ul { @for name in names { li { (name) } } } }
        }
    }
}

fn differences(comparison: &Comparison) -> Markup {
    html! {
        @if comparison.differences_in_settings.is_empty() {
            p { "Settings, machine, data, build and machine profiles are the same in both sets." }
        } @else {
            ul { @for line in &comparison.differences_in_settings { li { (line) } } }
        }
    }
}
