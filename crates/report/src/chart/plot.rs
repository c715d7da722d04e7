//! Line chart of one quantity over another: bandwidth over threads, latency over bandwidth.

use super::marks::{band, cross, dashes, marker};
use super::scale::{LogScale, Scale};
use super::{Area, Caption, Drawn, Ink, draw, shortened, stroke, width_of, write};
use crate::{ReportError, words};
use maud::Markup;
use plotters::prelude::PathElement;
use plotters::style::Color;
use plotters::style::text_anchor::HPos;

#[derive(Debug, Clone, Copy)]
pub(crate) struct PlotPoint {
    pub x: f64,
    /// The median of the repetitions, or a modelled value.
    pub y: f64,
    /// Smallest and largest repetition, drawn as a whisker.
    pub range: Option<(f64, f64)>,
    /// Whether the figure may be used; invalid points are crosses and not joined.
    pub valid: bool,
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// A solid line through marked points, for measured figures.
    Joined,
    Points,
    /// A dashed line without markers, with a shaded band over the ranges, for modelled figures.
    Dashed,
    /// A thin reference line without a name.
    Reference,
}

/// One series of points.
pub(crate) struct PlotSeries {
    /// Label at the right, shortened if it is long.
    pub name: String,
    /// Index of colour and marker.
    pub series: usize,
    pub style: Style,
    /// Points in the order in which they are joined.
    pub points: Vec<PlotPoint>,
}

/// One axis of a plot.
pub(crate) struct PlotAxis {
    /// Axis title with unit.
    pub title: String,
    /// Whether the axis is logarithmic.
    pub log: bool,
    /// Whether a linear axis starts at 0.
    pub from_zero: bool,
    /// Tick labels are values divided by this.
    pub divisor: f64,
    /// Ticks with their labels; if empty, round values are used.
    pub named: Vec<(f64, String)>,
    /// Upper limit of the axis; `None` derives it from the points.
    pub end: Option<f64>,
}

impl PlotAxis {
    /// An axis from 0, or a logarithmic one, with round values as ticks.
    pub fn from_zero(title: String, log: bool) -> Self {
        Self {
            title,
            log,
            from_zero: true,
            divisor: 1.0,
            named: Vec::new(),
            end: None,
        }
    }
}

pub(crate) struct Plot {
    pub x: PlotAxis,
    pub y: PlotAxis,
    /// The series, drawn in this order.
    pub series: Vec<PlotSeries>,
    /// Whether points have markers; distributions have too many points for that.
    pub markers: bool,
}

const WIDTH: i32 = 620;
const HEIGHT: i32 = 346;
const LEFT: i32 = 58;
const RIGHT: i32 = 500;
const TOP: i32 = 30;
const BOTTOM: i32 = 298;
/// Number of characters of a name that fit beside the plot.
pub(crate) const NAME_FITS: usize = 15;

pub(crate) fn plot(caption: &Caption, plot: &Plot) -> Result<Markup, ReportError> {
    let points = || plot.series.iter().flat_map(|s| &s.points);
    let x = scale(
        &plot.x,
        points()
            .map(|p| p.x)
            .chain(plot.x.named.iter().map(|n| n.0)),
        (LEFT + 10, RIGHT - 10),
    );
    let ys = points().flat_map(|p| {
        let (low, high) = p.range.unwrap_or((p.y, p.y));
        [p.y, low, high]
    });
    let y = scale(&plot.y, ys, (BOTTOM, TOP));
    draw(caption, (WIDTH as u32, HEIGHT as u32), |root| {
        grid(root, plot, x, y)?;
        for series in &plot.series {
            line(root, series, plot.markers, x, y)?;
        }
        names(root, &plot.series, y)
    })
}

/// The scale of an axis over `values`; never of zero length.
fn scale(axis: &PlotAxis, values: impl Iterator<Item = f64>, (from, to): (i32, i32)) -> Scale {
    let usable = |v: &f64| v.is_finite() && (!axis.log || *v > 0.0);
    let (low, high) = values
        .chain(axis.end)
        .filter(usable)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
            (low.min(v), high.max(v))
        });
    let (low, high) = match (low, high) {
        (low, high) if low > high => (1.0, 2.0),
        (low, high) => (low, high),
    };
    // Named ticks are the points themselves, so the axis needs no margin.
    let margin = if axis.named.is_empty() && axis.end.is_none() {
        0.05
    } else {
        0.0
    };
    // Limits outside this range would overflow when ticks are computed.
    let (smallest, largest) = (1e-300, 1e300);
    if axis.log {
        let (low, high) = if high / low < 1.2 {
            (low / 1.5, high * 1.5)
        } else {
            (low * (1.0 - margin), high * (1.0 + margin))
        };
        let low = low.clamp(smallest, largest);
        let high = high.clamp(low * 2.0, largest * 2.0);
        return Scale::Log(LogScale::new((low, high), (from, to)));
    }
    let (low, high) = (low.clamp(-largest, largest), high.clamp(-largest, largest));
    let low = if axis.from_zero { low.min(0.0) } else { low };
    let span = (high - low).max(high.abs() * 1e-3).max(1e-9);
    Scale::Linear {
        low,
        high: low + span * (1.0 + margin),
        from,
        to,
    }
}

fn grid(root: &Area<'_>, plot: &Plot, x: Scale, y: Scale) -> Drawn {
    for tick in y.ticks(28) {
        let at = y.pixel(tick);
        stroke(root, (LEFT, at), (RIGHT, at), Ink::Grid, 1)?;
        let text = label(tick, &plot.y);
        write(root, text, (LEFT - 7, at), 11.0, Ink::Muted, HPos::Right)?;
    }
    let mut free_from = i32::MIN / 2;
    for (value, text) in x_names(&plot.x, x) {
        let (at, half) = (x.pixel(value), width_of(&text) / 2);
        if !plot.markers || plot.x.named.is_empty() {
            stroke(root, (at, TOP), (at, BOTTOM), Ink::Grid, 1)?;
        }
        if at - half < free_from + 8 {
            continue;
        }
        free_from = at + half;
        stroke(root, (at, BOTTOM), (at, BOTTOM + 4), Ink::Muted, 1)?;
        write(
            root,
            text,
            (at, BOTTOM + 14),
            11.0,
            Ink::Muted,
            HPos::Center,
        )?;
    }
    stroke(root, (LEFT, BOTTOM), (RIGHT, BOTTOM), Ink::Muted, 1)?;
    write(root, &plot.y.title, (4, 10), 12.0, Ink::Text, HPos::Left)?;
    let middle = (LEFT + RIGHT) / 2;
    write(
        root,
        &plot.x.title,
        (middle, BOTTOM + 36),
        12.0,
        Ink::Text,
        HPos::Center,
    )
}

fn x_names(axis: &PlotAxis, x: Scale) -> Vec<(f64, String)> {
    if axis.named.is_empty() {
        let named = |tick: f64| (tick, label(tick, axis));
        return x.ticks(52).into_iter().map(named).collect();
    }
    let mut named = axis.named.clone();
    named.sort_by(|a, b| a.0.total_cmp(&b.0));
    named
}

fn label(tick: f64, axis: &PlotAxis) -> String {
    let value = tick / axis.divisor;
    if value.abs() >= 10_000.0 {
        words::ms(value)
    } else {
        words::number(value)
    }
}

fn line(root: &Area<'_>, series: &PlotSeries, markers: bool, x: Scale, y: Scale) -> Drawn {
    let ink = Ink::Solid(series.series);
    let at = |p: &PlotPoint| (x.pixel(p.x), y.pixel(p.y));
    let joined: Vec<(i32, i32)> = series.points.iter().filter(|p| p.valid).map(at).collect();
    match series.style {
        Style::Joined => root.draw(&PathElement::new(joined, ink.color().stroke_width(2)))?,
        Style::Points => {}
        Style::Dashed => {
            let valid = series.points.iter().filter(|p| p.valid);
            let ranges: Vec<_> = valid.filter_map(|p| Some((p.x, p.range?))).collect();
            band(root, &ranges, Ink::Band(series.series), x, y)?;
            return dashes(root, &joined, ink);
        }
        Style::Reference => {
            let thin = Ink::Reference.color().stroke_width(1);
            return root.draw(&PathElement::new(joined, thin));
        }
    }
    if !markers {
        return Ok(());
    }
    for point in &series.points {
        if let Some((low, high)) = point.range {
            let (column, low, high) = (x.pixel(point.x), y.pixel(low), y.pixel(high));
            // Shorter whiskers are hidden by their marker.
            if low - high > 3 {
                stroke(root, (column, low), (column, high), ink, 1)?;
                for end in [low, high] {
                    stroke(root, (column - 3, end), (column + 3, end), ink, 1)?;
                }
            }
        }
        if point.valid {
            marker(root, at(point), series.series)?;
        } else {
            cross(root, at(point), ink)?;
        }
    }
    Ok(())
}

/// Names at the right, at the height of the last point, moved apart where they overlap.
fn names(root: &Area<'_>, series: &[PlotSeries], y: Scale) -> Drawn {
    const APART: i32 = 15;
    let series: Vec<&PlotSeries> = series
        .iter()
        .filter(|s| s.style != Style::Reference)
        .collect();
    if series.len() < 2 {
        return Ok(());
    }
    let end = |s: &PlotSeries| {
        let last = s.points.iter().rev().find(|p| p.valid);
        last.or(s.points.last()).map(|p| p.y)
    };
    let mut labels: Vec<(i32, &PlotSeries)> = series
        .iter()
        .filter_map(|s| Some((y.pixel(end(s)?), *s)))
        .collect();
    // First push overlapping labels down, then push back up those that leave the chart.
    labels.sort_by_key(|(at, _)| *at);
    for index in 1..labels.len() {
        labels[index].0 = labels[index].0.max(labels[index - 1].0 + APART);
    }
    let mut floor = BOTTOM;
    for (at, _) in labels.iter_mut().rev() {
        *at = (*at).min(floor);
        floor = *at - APART;
    }
    for (at, s) in labels {
        let ink = Ink::Solid(s.series);
        match s.style {
            Style::Dashed => dashes(root, &[(RIGHT + 3, at), (RIGHT + 21, at)], ink)?,
            Style::Points => marker(root, (RIGHT + 11, at), s.series)?,
            Style::Joined | Style::Reference => {
                stroke(root, (RIGHT + 4, at), (RIGHT + 18, at), ink, 2)?;
                marker(root, (RIGHT + 11, at), s.series)?;
            }
        }
        let name = shortened(&s.name, NAME_FITS);
        write(root, name, (RIGHT + 23, at), 11.0, Ink::Text, HPos::Left)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(log: bool) -> PlotAxis {
        PlotAxis {
            title: "GB/s".into(),
            log,
            from_zero: true,
            divisor: 1.0,
            named: vec![],
            end: None,
        }
    }

    fn svg(log: bool, points: &[(f64, f64)], valid: bool) -> String {
        let points = points.iter().map(|&(x, y)| PlotPoint {
            x,
            y,
            range: Some((y, y)),
            valid,
        });
        let series = vec![PlotSeries {
            name: "a".into(),
            series: 1,
            style: Style::Joined,
            points: points.collect(),
        }];
        let caption = Caption {
            id: "p".into(),
            title: "t".into(),
            description: "d".into(),
        };
        let all = Plot {
            x: axis(log),
            y: axis(log),
            series,
            markers: true,
        };
        plot(&caption, &all).unwrap().into_string()
    }

    #[test]
    fn extreme_and_missing_values_are_drawn_inside_the_chart() {
        for points in [
            vec![],
            vec![(0.0, 0.0)],
            vec![(5e-324, 5e-324), (f64::MAX, f64::MAX)],
            vec![(1.0, 1.0), (1.0, 1.0)],
        ] {
            for log in [false, true] {
                let svg = svg(log, &points, true);
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
                for part in svg.split(" y=\"").skip(1) {
                    let y: i32 = part.split('"').next().unwrap().parse().unwrap();
                    assert!((0..=HEIGHT).contains(&y), "{y} for {points:?}");
                }
            }
        }
    }

    #[test]
    fn a_point_that_may_not_be_used_has_another_sign_and_no_line() {
        let points = [(1.0, 2.0), (2.0, 4.0)];
        let (valid, invalid) = (svg(false, &points, true), svg(false, &points, false));
        assert!(valid.contains("<polygon") && !invalid.contains("<polygon"));
    }
}
