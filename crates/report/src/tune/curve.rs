//! The rate of a phase over the share of pages beyond the first tier.

use super::machine;
use crate::ReportError;
use crate::chart::{Caption, Plot, PlotAxis, PlotPoint, PlotSeries, Style, plot};
use crate::section::missing;
use maud::{Markup, html};
use tierloom_record::{Provenance, TierWeight, TuneRecord};

/// Indices of colour and marker: modelled curve, measured curve, best weights, kernel's weights.
const MODELLED: usize = 1;
const MEASURED: usize = 3;
const BEST: usize = 2;
const KERNEL: usize = 4;

/// The chart of one phase.
pub(super) fn chart(record: &TuneRecord, id: &str) -> Result<Markup, ReportError> {
    let title = format!("{} on {}", record.phase, machine(record));
    if record.points.len() < 2 {
        return Ok(
            html! { figure { figcaption { b { (title) } } (missing("Less than two points: there is no curve.")) } },
        );
    }
    let mut series = vec![
        curve(
            record,
            Provenance::Modelled,
            "modelled",
            MODELLED,
            Style::Dashed,
        ),
        curve(
            record,
            Provenance::Measured,
            "measured",
            MEASURED,
            Style::Joined,
        ),
    ];
    let first = first_tier(record);
    let mark = |name: &str, weights: &[TierWeight], rate: f64, series: usize| PlotSeries {
        name: name.into(),
        series,
        style: Style::Points,
        points: share(weights, first)
            .map(|x| point(x, rate, None))
            .into_iter()
            .collect(),
    };
    series.push(mark("best", &record.best, record.best_rate, BEST));
    series.push(mark("kernel", &record.kernel, record.kernel_rate, KERNEL));
    // Empty series would count when the plot decides whether names are needed.
    series.retain(|s| !s.points.is_empty());
    let caption = Caption {
        id: id.into(),
        title: title.clone(),
        description: "Rate over the share of pages beyond the first tier; the table above holds the best and the kernel's weights.".into(),
    };
    let axis = |title: String, divisor: f64, end: Option<f64>| PlotAxis {
        title,
        log: false,
        from_zero: true,
        divisor,
        named: Vec::new(),
        end,
    };
    let beyond = first.map_or_else(
        || "beyond the first tier".into(),
        |tier| format!("not on {tier}"),
    );
    let all = Plot {
        x: axis(format!("share of pages {beyond}, %"), 0.01, Some(1.0)),
        y: axis(record.unit.clone(), 1.0, None),
        series,
        markers: true,
    };
    let drawn = plot(&caption, &all)?;
    Ok(html! { figure { figcaption { b { (title) } " · " (record.what) } (drawn) } })
}

fn point(x: f64, y: f64, range: Option<(f64, f64)>) -> PlotPoint {
    PlotPoint {
        x,
        y,
        range,
        valid: true,
    }
}

fn curve(
    record: &TuneRecord,
    provenance: Provenance,
    name: &str,
    series: usize,
    style: Style,
) -> PlotSeries {
    let own = record.points.iter().filter(|p| p.provenance == provenance);
    let mut points: Vec<PlotPoint> = own
        .map(|p| point(p.share, p.rate, p.low.zip(p.high)))
        .collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    PlotSeries {
        name: name.into(),
        series,
        style,
        points,
    }
}

/// The tier that holds everything without weights.
///
/// The kernel's weights name all tiers; the best ones may leave the first one out.
fn first_tier(record: &TuneRecord) -> Option<&str> {
    let named = record.kernel.first().or(record.best.first())?;
    Some(&named.tier)
}

/// The share of the pages that are not on the tier `first`; `None` if all weights are 0.
fn share(weights: &[TierWeight], first: Option<&str>) -> Option<f64> {
    let sum: f64 = weights.iter().map(|w| f64::from(w.weight)).sum();
    let other = weights.iter().filter(|w| Some(w.tier.as_str()) != first);
    let beyond: f64 = other.map(|w| f64::from(w.weight)).sum();
    (sum > 0.0).then(|| beyond / sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_what_lies_beyond_the_first_tier() {
        let weight = |tier: &str, weight| TierWeight {
            tier: tier.into(),
            weight,
        };
        let both = [weight("dram", 3), weight("cxl", 2)];
        assert_eq!(share(&both, Some("dram")), Some(0.4));
        assert_eq!(share(&[weight("cxl", 1)], Some("dram")), Some(1.0));
        assert_eq!(share(&[weight("dram", 0)], Some("dram")), None);
        assert_eq!(share(&[], Some("dram")), None);
    }
}
