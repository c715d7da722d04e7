//! The chart of one published curve with the modelled and the measured one.

use crate::ReportError;
use crate::chart::{Caption, Plot, PlotAxis, PlotPoint, PlotSeries, Style, plot};
use maud::{Markup, html};
use tierloom_record::PublishedSeries;
use tierloom_record::findings::PublishedAnswer;

/// Indices of colour and marker.
const PUBLISHED: usize = 1;
const MEASURED: usize = 2;
const MODELLED: usize = 3;
/// Ratio of largest to smallest value above which an axis is logarithmic.
const LOG_BEYOND: f64 = 30.0;
/// Ratio of published to measured values above which shapes are compared instead of values.
const SHAPE_BEYOND: f64 = 3.0;

/// The chart of a curve; `None` for a single figure.
pub(super) fn curve(
    series: &PublishedSeries,
    answers: &[&PublishedAnswer<'_>],
    id: &str,
) -> Result<Option<Markup>, ReportError> {
    let Some(x_name) = &series.x_name else {
        return Ok(None);
    };
    let published = answers.iter().filter_map(|answer| {
        let value = answer.point.figure.as_ref()?.published?;
        Some(bare(answer.point.x?, value))
    });
    let modelled = answers.iter().filter_map(|answer| {
        let figure = answer.point.figure.as_ref()?;
        Some(bare(answer.point.x?, figure.modelled))
    });
    let measured = answers.iter().filter_map(|answer| {
        let range = answer.measured?;
        Some(PlotPoint {
            range: Some((range.low, range.high)),
            ..bare(answer.point.x?, range.value)
        })
    });
    let line = |name: &str, series, style, points: Vec<PlotPoint>| PlotSeries {
        name: name.into(),
        series,
        style,
        points,
    };
    let mut lines = vec![
        line("published", PUBLISHED, Style::Joined, published.collect()),
        line(
            "modelled there",
            MODELLED,
            Style::Dashed,
            modelled.collect(),
        ),
        line("measured here", MEASURED, Style::Joined, measured.collect()),
    ];
    lines.retain(|line| !line.points.is_empty());
    let is_value = !series.unit.starts_with(['%', 'x']);
    let base = shared_base(&lines).filter(|base| is_value && base.differs);
    if let Some(base) = &base {
        lines.iter_mut().for_each(|line| divide(line, base.x));
    }
    let unit = match &base {
        Some(base) => format!("over the value at {} = {}", x_name, base.x),
        None => series.unit.clone(),
    };
    let xs = || {
        lines
            .iter()
            .flat_map(|line| line.points.iter().map(|p| p.x))
    };
    let ys = lines
        .iter()
        .flat_map(|line| line.points.iter().map(|p| p.y));
    let caption = Caption {
        id: id.into(),
        title: series.name.clone(),
        description: "The published curve, the modelled one for the publication's machine and the measured one; the tables hold the values.".into(),
    };
    let plotted = Plot {
        x: PlotAxis::from_zero(x_name.clone(), spans(xs())),
        y: PlotAxis::from_zero(unit, is_value && spans(ys)),
        series: lines,
        markers: true,
    };
    let chart = plot(&caption, &plotted)?;
    let machine = answers.iter().find_map(|a| a.point.figure.as_ref());
    Ok(Some(html! {
        figure {
            figcaption { b { (series.name) } " · " (series.what) @if let Some(figure) = machine { " · " (figure.machine) } }
            (chart)
            @if base.is_some() {
                figcaption { "The values here and there differ by more than " (SHAPE_BEYOND) " times, so each line is divided by its own value at the first position that all have: shapes are compared." }
            }
        }
    }))
}

fn bare(x: f64, y: f64) -> PlotPoint {
    PlotPoint {
        x,
        y,
        range: None,
        valid: true,
    }
}

/// The first position at which all lines have a value.
struct Base {
    x: f64,
    /// Whether the values there are too different for one axis.
    differs: bool,
}

fn shared_base(lines: &[PlotSeries]) -> Option<Base> {
    let measured = lines.iter().find(|line| line.series == MEASURED)?;
    let published = lines.iter().find(|line| line.series == PUBLISHED)?;
    let value = |line: &PlotSeries, x: f64| {
        line.points
            .iter()
            .find(|p| p.x == x && p.y > 0.0)
            .map(|p| p.y)
    };
    let x = measured
        .points
        .iter()
        .map(|p| p.x)
        .find(|x| lines.iter().all(|line| value(line, *x).is_some()))?;
    let ratio = value(measured, x)? / value(published, x)?;
    Some(Base {
        x,
        differs: !(1.0 / SHAPE_BEYOND..=SHAPE_BEYOND).contains(&ratio),
    })
}

/// Divides a line by its value at `x`.
fn divide(line: &mut PlotSeries, x: f64) {
    let Some(base) = line.points.iter().find(|p| p.x == x).map(|p| p.y) else {
        return;
    };
    for point in &mut line.points {
        point.y /= base;
        point.range = point.range.map(|(low, high)| (low / base, high / base));
    }
}

/// Whether values span so large a ratio that a logarithmic axis is needed.
fn spans(values: impl Iterator<Item = f64>) -> bool {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
        (l.min(v), h.max(v))
    });
    low > 0.0 && high / low > LOG_BEYOND
}
