//! Latency distributions: cumulative curves and percentiles.

use super::curves::legend;
use super::figure::BenchMetric;
use super::summary::{folded, verdict};
use super::view::{GroupedRun, RunGroup};
use crate::chart::{Caption, Plot, PlotAxis, PlotPoint, PlotSeries, SERIES, Style, plot};
use crate::section::{missing, tag};
use crate::{ReportError, words};
use maud::{Markup, html};
use tierloom_record::LatencyRecord;

/// Number of charts of [`SERIES`] lines each; the table has the percentiles of all runs.
const MOST_CHARTS: usize = 4;
/// Smallest step between two points of a curve, as a share of all samples.
const VISIBLE_STEP: f64 = 0.002;

/// One part per workload that timed single accesses.
pub(super) fn section(groups: &[RunGroup<'_>]) -> Result<Markup, ReportError> {
    let mut parts = Vec::new();
    for group in groups {
        let timed: Vec<(&GroupedRun<'_>, &LatencyRecord)> = group
            .runs
            .iter()
            .filter_map(|run| Some((run, run.record.tasks.first()?.latency.as_ref()?)))
            .collect();
        if !timed.is_empty() {
            parts.push(part(group, &timed)?);
        }
    }
    Ok(html! {
        section #b-latency {
            h2 { "Latency distributions" }
            @if parts.is_empty() { (missing("No run timed single accesses.")) }
            @for part in &parts { (part) }
        }
    })
}

fn part(
    group: &RunGroup<'_>,
    timed: &[(&GroupedRun<'_>, &LatencyRecord)],
) -> Result<Markup, ReportError> {
    let shown: Vec<&(&GroupedRun<'_>, &LatencyRecord)> = timed
        .iter()
        // Curves of invalid runs are not drawn; the table marks these runs.
        .filter(|(run, latency)| run.record.valid && !latency.histogram.is_empty())
        .collect();
    let mut charts = Vec::new();
    for (index, chunk) in shown.chunks(SERIES).take(MOST_CHARTS).enumerate() {
        charts.push(chart(group, index, chunk)?);
    }
    let mut what: Vec<&str> = timed.iter().map(|(_, l)| l.what.as_str()).collect();
    what.sort_unstable();
    what.dedup();
    Ok(html! {
        h3 { (group.title()) }
        p.note { "One sample: " (what.join("; ")) ". The time of taking the time is already subtracted." }
        @if charts.is_empty() { (missing("No valid run recorded its histogram.")) }
        div.grid { @for chart in &charts { (chart) } }
        @if shown.len() > MOST_CHARTS * SERIES { p.note { "Curves of the first " (MOST_CHARTS * SERIES) " of " (shown.len()) " runs; the table has all." } }
        (folded(timed.len(), table(group, timed)))
    })
}

fn chart(
    group: &RunGroup<'_>,
    index: usize,
    runs: &[&(&GroupedRun<'_>, &LatencyRecord)],
) -> Result<Markup, ReportError> {
    let caption = Caption {
        id: format!("{}-cdf{index}", group.prefix()),
        title: "Share of samples that took at most so long".into(),
        description:
            "Cumulative distribution, one line per run; the table below holds percentiles.".into(),
    };
    let series = runs
        .iter()
        .enumerate()
        .map(|(line, (run, latency))| PlotSeries {
            name: group.short_name_of(run),
            series: line + 1,
            style: Style::Joined,
            points: cumulative(latency),
        });
    let all = Plot {
        x: PlotAxis {
            title: "latency, ns (logarithmic)".into(),
            log: true,
            from_zero: false,
            divisor: 1.0,
            named: Vec::new(),
            end: None,
        },
        y: PlotAxis {
            title: "Samples, %".into(),
            log: false,
            from_zero: true,
            divisor: 0.01,
            named: Vec::new(),
            end: Some(1.0),
        },
        series: series.collect(),
        markers: false,
    };
    let chart = plot(&caption, &all)?;
    Ok(
        html! { figure { figcaption { b { (caption.title) } ". Measured, all repetitions together." } (chart) (legend(&all.series)) } },
    )
}

/// The cumulative distribution over the upper bounds of buckets, thinned to what is visible.
fn cumulative(latency: &LatencyRecord) -> Vec<PlotPoint> {
    let all: f64 = latency.histogram.iter().map(|b| b.count as f64).sum();
    let point = |x: f64, y: f64| PlotPoint {
        x,
        y,
        range: None,
        valid: true,
    };
    let mut points = Vec::new();
    // The curve starts at the fastest sample, not at the upper bound of its bucket.
    if latency.min_ns > 0.0 {
        points.push(point(latency.min_ns, 0.0));
    }
    let (mut sum, mut last) = (0.0, 0.0);
    for (place, bucket) in latency.histogram.iter().enumerate() {
        sum += bucket.count as f64;
        let share = if all > 0.0 { sum / all } else { 0.0 };
        let end = place + 1 == latency.histogram.len();
        if bucket.up_to_ns > 0.0 && (end || share - last >= VISIBLE_STEP || points.is_empty()) {
            points.push(point(bucket.up_to_ns, share));
            last = share;
        }
    }
    points
}

fn table(group: &RunGroup<'_>, timed: &[(&GroupedRun<'_>, &LatencyRecord)]) -> Markup {
    const SHOWN: [f64; 6] = [50.0, 90.0, 95.0, 99.0, 99.9, 99.99];
    let known: Vec<f64> = SHOWN
        .into_iter()
        .filter(|percent| timed.iter().any(|(_, l)| at(l, *percent).is_some()))
        .collect();
    let text = |ns: f64| BenchMetric::Latency.text(ns);
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th { "run" } th {} th.n { "fastest" }
                        @for percent in &known { th.n { (percent) "%" } }
                        th.n { "slowest" } th.n { "mean" } th.n { "samples" } th.n { "timer" span.sub { "subtracted" } } th { "verdict" }
                    }
                }
                tbody {
                    @for (run, latency) in timed {
                        tr class=(if run.record.valid { "" } else { "invalid" }) {
                            th { (group.name_of(run)) }
                            td { (tag(run.record.provenance)) }
                            td.n { (text(latency.min_ns)) }
                            @for percent in &known { td.n { @if let Some(ns) = at(latency, *percent) { span.figure { (text(ns)) } } @else { span.note { "too few" } } } }
                            td.n { (text(latency.max_ns)) } td.n { (text(latency.mean_ns)) }
                            td.n { (words::count(latency.samples)) } td.n { (text(latency.timer_overhead_ns)) }
                            td { (verdict(run.record)) }
                        }
                    }
                }
            }
        }
    }
}

fn at(latency: &LatencyRecord, percent: f64) -> Option<f64> {
    let found = latency.percentiles.iter().find(|p| p.percent == percent);
    found.map(|p| p.latency_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierloom_record::{Bucket, Spread};

    #[test]
    fn a_distribution_rises_to_one_and_keeps_its_ends() {
        let histogram = (1..=5_000).map(|ns| Bucket {
            up_to_ns: f64::from(ns),
            count: 3,
        });
        let latency = LatencyRecord {
            what: "one access".into(),
            samples: 15_000,
            timer_overhead_ns: 20.0,
            mean_ns: 2_500.0,
            min_ns: 0.5,
            max_ns: 5_000.0,
            percentiles: vec![],
            histogram: histogram.collect(),
            median_ns: Spread::of(vec![2_500.0]).unwrap(),
        };
        let points = cumulative(&latency);
        assert!(points.len() < 600, "{}", points.len());
        assert_eq!((points[0].x, points[0].y), (0.5, 0.0));
        let last = points[points.len() - 1];
        assert_eq!((last.x, last.y), (5_000.0, 1.0));
        assert!(points.is_sorted_by(|a, b| a.x <= b.x && a.y <= b.y));
    }
}
