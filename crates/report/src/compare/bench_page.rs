//! The sections of a comparison page on memory benchmarks.

use super::{BenchComparison, BenchRow, BenchVerdict};
use crate::chart::{Bar, BarGroup, Caption, RatioRange, ratio_bars};
use crate::section::{missing, tag};
use crate::{ReportError, words};
use maud::{Markup, html};
use tierloom_record::Provenance;

/// Number of bars that one chart may have.
const MOST_BARS: usize = 48;

/// Charts and figures of the benchmarks; empty if there are none.
pub(super) fn sections(benches: &BenchComparison) -> Result<Markup, ReportError> {
    if benches.is_empty() {
        return Ok(html! {});
    }
    let charts = charts(benches)?;
    Ok(html! {
        section #bench-changes {
            h2 { "Change per benchmark" }
            @if benches.rows.is_empty() { (missing("No figure of a benchmark is in both sets.")) }
            @if !charts.is_empty() {
                p.note { "Measured. To the right of 1× is better now: more bandwidth or operations, less latency. Whisker: worst against best repetitions. Grey: not a clear change." }
                div.grid { @for (heading, chart) in &charts { figure { figcaption { b { (heading) } } (chart) } } }
            }
        }
        section #bench-figures { h2 { "Figures of the benchmarks" } (table(&benches.rows)) (lonely(benches)) }
    })
}

/// One chart per workload and quantity.
fn charts(benches: &BenchComparison) -> Result<Vec<(String, Markup)>, ReportError> {
    let mut charts = Vec::new();
    for (index, mean) in benches.means.iter().enumerate() {
        let rows: Vec<&BenchRow> = benches
            .rows
            .iter()
            .filter(|r| (&r.workload, r.quantity) == (&mean.workload, mean.quantity))
            .collect();
        let several_tasks = rows.iter().any(|r| r.task != rows[0].task);
        let bar = |row: &&BenchRow| BarGroup {
            label: String::new(),
            bars: vec![Bar {
                name: name(row, several_tasks),
                series: match row.verdict {
                    BenchVerdict::Better => 1,
                    BenchVerdict::Worse => 2,
                    BenchVerdict::Same | BenchVerdict::Unclear => 0,
                },
                value: row.gain(),
                range: range(row),
                modelled: false,
            }],
        };
        let groups: Vec<BarGroup> = rows.iter().take(MOST_BARS).map(bar).collect();
        let heading = format!("{}, {}", mean.workload, mean.quantity.name());
        let caption = Caption {
            id: format!("bench-change-{index}"),
            title: format!("Change from before to after: {heading}"),
            description: "Horizontal bars, one per figure; the table below holds the values."
                .into(),
        };
        let chart = ratio_bars(&caption, &groups, RatioRange::of(&groups))?;
        let heading = if rows.len() > MOST_BARS {
            format!("{heading} (the first {MOST_BARS} of {})", rows.len())
        } else {
            heading
        };
        charts.push((heading, chart));
    }
    Ok(charts)
}

/// Only the values of the settings: the keys are the same for all bars of a chart.
fn name(row: &BenchRow, several_tasks: bool) -> String {
    let values = row.settings.split(", ").filter_map(|s| s.split_once(' '));
    let mut values: Vec<&str> = values.map(|(_, value)| value).collect();
    if several_tasks || values.is_empty() {
        values.push(&row.task);
    }
    values.join(" ")
}

/// Worst and best ratio of single repetitions, if both sides have several.
fn range(row: &BenchRow) -> Option<(f64, f64)> {
    let (old, new) = (&row.before, &row.after);
    let (low, high) = if row.quantity.more_is_better() {
        (new.min / old.max, new.max / old.min)
    } else {
        (old.min / new.max, old.max / new.min)
    };
    let several = old.values.len() > 1 && new.values.len() > 1;
    (several && low > 0.0 && high.is_finite()).then_some((low, high))
}

fn table(rows: &[BenchRow]) -> Markup {
    let class = |verdict: BenchVerdict| match verdict {
        BenchVerdict::Better => "faster",
        BenchVerdict::Worse => "slower",
        BenchVerdict::Same | BenchVerdict::Unclear => "note",
    };
    html! {
        div.scroll {
            table {
                thead { tr { th { "workload" } th { "settings" } th { "task" } th {} th {} th.n { "before" } th.n { "after" } th.n { "ratio" } th.n { "change" } th { "verdict" } th.n { "p" } } }
                tbody {
                    @for row in rows {
                        tr {
                            th { (row.workload) } td { (row.settings) @if !row.same_plan { " " span.flag.doubtful { "another plan" } } } td { (row.task) }
                            td { (row.quantity.name()) } td { (tag(Provenance::Measured)) }
                            td.n { (row.quantity.spread(&row.before)) } td.n { (row.quantity.spread(&row.after)) }
                            td.n { (words::ratio(row.ratio)) } td.n { (words::change(row.change_percent)) }
                            td { span class=(class(row.verdict)) { (row.verdict.to_string()) } @if let Some(why) = &row.why_unclear { span.sub { (why) } } }
                            td.n { @if let Some(p) = row.p_value { (format!("{p:.3}")) } @else { span.note { "no test" } } }
                        }
                    }
                }
            }
        }
    }
}

fn lonely(benches: &BenchComparison) -> Markup {
    html! {
        @for (heading, names) in [("Benchmarks only before", &benches.only_before), ("Benchmarks only after", &benches.only_after)] {
            @if !names.is_empty() { h3 { (heading) } ul { @for name in names { li { (name) } } } }
        }
    }
}
