//! Comparison with plain DataFusion on the same data.

use super::{missing, tag};
use crate::chart::{Bar, BarGroup, Caption, RatioRange, ratio_bars};
use crate::view::RunView;
use crate::{ReportError, words};
use maud::{Markup, html};
use tierloom_record::{EngineKind, Provenance, QueryRecord, geometric_mean};

struct Pair<'a> {
    plain: &'a QueryRecord,
    ours: &'a QueryRecord,
}

impl Pair<'_> {
    /// Plain DataFusion's median time divided by ours; above 1 we are faster.
    fn ratio(&self) -> f64 {
        self.plain.time_ms.median / self.ours.time_ms.median
    }

    fn range(&self) -> Option<(f64, f64)> {
        let (plain, ours) = (&self.plain.time_ms, &self.ours.time_ms);
        // The extreme ratios of single repetitions: a bound, not an interval of the median.
        let range = (plain.min / ours.max, plain.max / ours.min);
        (plain.values.len() > 1 && ours.values.len() > 1 && range.0 > 0.0 && range.1.is_finite())
            .then_some(range)
    }
}

/// The ratio per query, and its geometric mean.
pub(crate) fn section(view: &RunView<'_>) -> Result<Markup, ReportError> {
    let plain: Vec<&QueryRecord> = view
        .set
        .queries
        .iter()
        .filter(|q| q.engine == EngineKind::Datafusion && q.provenance == Provenance::Measured)
        .collect();
    let pair = |plain: &&'_ QueryRecord| {
        let ours = view.find(&plain.query, &plain.placement, &plain.machine)?;
        view.set
            .queries
            .iter()
            .find(|q| std::ptr::eq(*q, *plain))
            .map(|plain| Pair { plain, ours })
            .filter(|p| p.ratio().is_finite() && p.ratio() > 0.0)
    };
    let pairs: Vec<Pair<'_>> = plain.iter().filter_map(pair).collect();
    let content = if plain.is_empty() {
        missing("Plain DataFusion was not run, so there is no yardstick.")
    } else if pairs.is_empty() {
        missing(
            "Plain DataFusion was run, but no query has figures of both engines under one placement.",
        )
    } else {
        compared(view, &pairs)?
    };
    Ok(html! {
        section id=(format!("{}-yardstick", view.prefix)) {
            h2 { "Against plain DataFusion" }
            (content)
        }
    })
}

fn compared(view: &RunView<'_>, pairs: &[Pair<'_>]) -> Result<Markup, ReportError> {
    let bar = |pair: &Pair<'_>| BarGroup {
        label: pair.ours.query.clone(),
        bars: vec![Bar {
            name: pair.ours.placement.clone(),
            series: view.series(&pair.ours.placement),
            value: pair.ratio(),
            range: pair.range(),
            modelled: false,
        }],
    };
    let groups: Vec<BarGroup> = pairs.iter().map(bar).collect();
    let caption = Caption {
        id: format!("{}-yardstick-chart", view.prefix),
        title: "Speed of Tierloom over plain DataFusion".into(),
        description: "Horizontal bars, one per query; right of 1 Tierloom is faster. The table below holds the times.".into(),
    };
    let chart = ratio_bars(&caption, &groups, RatioRange::of(&groups))?;
    let mean = geometric_mean(pairs.iter().map(Pair::ratio));
    Ok(html! {
        p {
            "DataFusion with its default settings on a MemTable of the same data, in the same process and run. "
            @if let Some(mean) = mean {
                "Over " (words::queries(pairs.len())) " Tierloom takes " b { (words::ratio(1.0 / mean)) } " DataFusion's time (geometric mean; below 1 is faster)."
            }
        }
        div.grid {
            figure { (chart) figcaption { "DataFusion's median time over Tierloom's, " (tag(Provenance::Measured)) ". Right of 1× Tierloom is faster. Whisker: slowest against fastest repeats." } }
            div.scroll {
                table {
                    thead { tr { th { "query" } th { "placement" } th.n { "DataFusion, ms" } th.n { "Tierloom, ms" } th.n { "Tierloom / DataFusion" } } }
                    tbody {
                        @for pair in pairs {
                            tr {
                                th { (pair.ours.query) } td { (pair.ours.placement) }
                                td.n { (words::spread_ms(&pair.plain.time_ms)) } td.n { (words::spread_ms(&pair.ours.time_ms)) }
                                td.n { (words::ratio(1.0 / pair.ratio())) }
                            }
                        }
                        @if let Some(mean) = mean { tr.total { th { "geometric mean" } td {} td.n {} td.n {} td.n { (words::ratio(1.0 / mean)) } } }
                    }
                }
            }
        }
    })
}
