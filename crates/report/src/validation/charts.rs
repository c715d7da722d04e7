//! Charts of published and modelled values: a scatter plot per unit, and curves per series.

use super::errors::CHECK;
use crate::chart::{Caption, Plot, PlotAxis, PlotPoint, PlotSeries, Style, plot};
use crate::section::missing;
use crate::{ReportError, words};
use maud::{Markup, html};
use tierloom_record::{FigureRecord, ValidationRecord};

/// Number of curves of one paper above which they are folded.
const OPEN_UP_TO: usize = 12;
/// Ratio of largest to smallest value above which the axis of a curve is logarithmic.
const LOG_BEYOND: f64 = 30.0;
/// The unit of gains, which are compared as speed-ups.
///
/// Other units that start with it are shares, which are compared by difference.
const GAIN: &str = "%";

/// Indices of colour and marker: figures that are no checks, checks, the model.
const OTHER_SERIES: usize = 1;
const CHECK_SERIES: usize = 2;
const MODEL_SERIES: usize = 3;

/// Distinct items in the order of their first occurrence.
fn first_seen<'a>(items: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}

fn point(x: f64, y: f64) -> PlotPoint {
    PlotPoint {
        x,
        y,
        range: None,
        valid: true,
    }
}

/// One scatter plot per unit.
pub(super) fn scatter(record: &ValidationRecord, id: &str) -> Result<Markup, ReportError> {
    let valued = || record.figures.iter().filter(|f| f.published.is_some());
    let mut charts = Vec::new();
    for (index, unit) in first_seen(valued().map(|f| f.unit.as_str()))
        .into_iter()
        .enumerate()
    {
        let figures: Vec<&FigureRecord> = valued().filter(|f| f.unit == unit).collect();
        charts.push(one_unit(&figures, unit, &format!("{id}-s{index}"))?);
    }
    Ok(html! {
        section id=(format!("{id}-scatter")) {
            h2 { "Published and modelled" }
            @if charts.is_empty() { (missing("No figure has a published value.")) } @else {
                p.note { "One point per figure: to the right what was published, upwards what is modelled. On the line both are the same; the outer lines are 10% off. Triangles: checks. Squares: figures that were fitted, chosen for or implied." }
                div.grid { @for chart in &charts { (chart) } }
            }
        }
    })
}

fn one_unit(figures: &[&FigureRecord], unit: &str, id: &str) -> Result<Markup, ReportError> {
    // Percentages may be 0 or negative, which a logarithmic axis cannot show.
    let log = !unit.starts_with(GAIN);
    let pairs = |check: bool| {
        let of_role = figures.iter().filter(move |f| (f.role == CHECK) == check);
        let pairs = of_role.filter_map(|f| Some(point(f.published?, f.modelled)));
        pairs.filter(|p| !log || (p.x > 0.0 && p.y > 0.0)).collect()
    };
    let named = |name: &str, series, points| PlotSeries {
        name: name.into(),
        series,
        style: Style::Points,
        points,
    };
    let mut series = vec![
        named("no check", OTHER_SERIES, pairs(false)),
        named("check", CHECK_SERIES, pairs(true)),
    ];
    series.retain(|s| !s.points.is_empty());
    let shown: usize = series.iter().map(|s| s.points.len()).sum();
    if shown == 0 {
        return Ok(missing(&format!(
            "No figure in {unit} can be drawn on a logarithmic axis; the table has them."
        )));
    }
    series.extend(same_lines(&series, unit));
    let scale = if log { " (logarithmic)" } else { "" };
    let title = format!("Figures in {unit}");
    let caption = Caption {
        id: id.into(),
        title: title.clone(),
        description: "Modelled over published values; the table of figures holds them all.".into(),
    };
    let all = Plot {
        x: PlotAxis::from_zero(format!("published, {unit}{scale}"), log),
        y: PlotAxis::from_zero(format!("modelled, {unit}{scale}"), log),
        series,
        markers: true,
    };
    let chart = plot(&caption, &all)?;
    let left = figures.len() - shown;
    Ok(html! {
        figure {
            figcaption { b { (title) } }
            (chart)
            @if left > 0 { figcaption { "Not drawn, because not above 0: " (words::figures(left)) "." } }
        }
    })
}

/// The line where modelled and published values are equal, and lines 10% to either side.
fn same_lines(series: &[PlotSeries], unit: &str) -> Vec<PlotSeries> {
    let values = || {
        series
            .iter()
            .flat_map(|s| &s.points)
            .flat_map(|p| [p.x, p.y])
    };
    let low = values().fold(f64::INFINITY, f64::min);
    let high = values().fold(f64::NEG_INFINITY, f64::max);
    let line = |factor: f64| {
        let off = |x: f64| match unit {
            // Gains in per cent are turned into speed-ups, shares are shifted by points, other
            // values are scaled.
            GAIN => (100.0 + x) * factor - 100.0,
            unit if unit.starts_with(GAIN) => x + 100.0 * (factor - 1.0),
            _ => x * factor,
        };
        PlotSeries {
            name: String::new(),
            series: 0,
            style: Style::Reference,
            points: vec![point(low, off(low)), point(high, off(high))],
        }
    };
    [1.0, 0.9, 1.1].map(line).into()
}

/// One chart per series, grouped by paper.
pub(super) fn curves(record: &ValidationRecord, id: &str) -> Result<Markup, ReportError> {
    let mut parts = Vec::new();
    let mut index = 0;
    for paper in first_seen(record.figures.iter().map(|f| f.paper.as_str())) {
        let of_paper = || record.figures.iter().filter(|f| f.paper == paper);
        let mut charts = Vec::new();
        for name in first_seen(of_paper().map(|f| f.series.as_str())) {
            let figures: Vec<&FigureRecord> = of_paper().filter(|f| f.series == name).collect();
            if !name.is_empty() && figures.len() > 1 {
                charts.push(one_series(&figures, name, &format!("{id}-c{index}"))?);
                index += 1;
            }
        }
        if !charts.is_empty() {
            parts.push((paper, charts));
        }
    }
    Ok(html! {
        section id=(format!("{id}-curves")) {
            h2 { "Curves" }
            @if parts.is_empty() { (missing("No two figures belong to one curve.")) } @else {
                p.note { "Marks: published. Dashed line: modelled. Triangles: checks. Squares: figures that were fitted, chosen for or implied." }
            }
            @for (paper, charts) in &parts {
                h3 { (paper) }
                @if charts.len() > OPEN_UP_TO {
                    details { summary { (charts.len()) " curves" } div.grid { @for chart in charts { (chart) } } }
                } @else {
                    div.grid { @for chart in charts { (chart) } }
                }
            }
        }
    })
}

fn one_series(figures: &[&FigureRecord], name: &str, id: &str) -> Result<Markup, ReportError> {
    // Without an `x` in every figure, figures are numbered in the order of the file.
    let placed = figures.iter().all(|f| f.x.is_some());
    let mut all: Vec<(f64, &FigureRecord)> = figures
        .iter()
        .enumerate()
        .map(|(place, f)| (f.x.filter(|_| placed).unwrap_or((place + 1) as f64), *f))
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let published = |check: bool| {
        let of_role = all.iter().filter(|(_, f)| (f.role == CHECK) == check);
        of_role
            .filter_map(|(x, f)| Some(point(*x, f.published?)))
            .collect()
    };
    let of = |name: &str, series, style, points| PlotSeries {
        name: name.into(),
        series,
        style,
        points,
    };
    let modelled = all.iter().map(|(x, f)| point(*x, f.modelled)).collect();
    let mut series = vec![
        of("no check", OTHER_SERIES, Style::Points, published(false)),
        of("check", CHECK_SERIES, Style::Points, published(true)),
        of("modelled", MODEL_SERIES, Style::Dashed, modelled),
    ];
    series.retain(|s| !s.points.is_empty());
    let unit = &figures[0].unit;
    let x_name = match figures[0].x_name.as_str() {
        "" => "figure of the series",
        name if placed => name,
        _ => "figure of the series",
    };
    let caption = Caption {
        id: id.into(),
        title: name.into(),
        description: "Published points and the modelled line; the table of figures holds both."
            .into(),
    };
    let ys = series.iter().flat_map(|s| s.points.iter().map(|p| p.y));
    let plotted = Plot {
        x: PlotAxis::from_zero(x_name.into(), spans(all.iter().map(|(x, _)| *x))),
        y: PlotAxis::from_zero(unit.clone(), !unit.starts_with(GAIN) && spans(ys)),
        series,
        markers: true,
    };
    let chart = plot(&caption, &plotted)?;
    Ok(html! {
        figure {
            figcaption { b { (name) } " · " (figures[0].what) " · " (figures[0].machine) }
            (chart)
        }
    })
}

/// Whether values span so large a ratio that a logarithmic axis is needed.
fn spans(values: impl Iterator<Item = f64>) -> bool {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
        (l.min(v), h.max(v))
    });
    low > 0.0 && high / low > LOG_BEYOND
}
