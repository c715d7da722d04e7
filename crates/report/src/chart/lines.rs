//! Line chart of a ratio over a positive quantity, both on logarithmic axes.

use super::scale::{LogScale, range_around_one};
use super::{Area, Caption, Drawn, Ink, draw, stroke, write};
use crate::{ReportError, words};
use maud::Markup;
use plotters::prelude::{Circle, PathElement};
use plotters::style::Color;
use plotters::style::text_anchor::HPos;

/// The point of the measured work, which is drawn as a ring.
pub(crate) struct Mark {
    /// Position on the x axis; `None` draws it in a separate strip at the right.
    pub x: Option<f64>,
    pub y: f64,
}

pub(crate) struct Line {
    /// Label at its right end.
    pub name: String,
    /// Index of its colour.
    pub series: usize,
    /// Points by increasing x; x and y are positive.
    pub points: Vec<(f64, f64)>,
    /// The point of the measured work.
    pub own: Option<Mark>,
}

const WIDTH: i32 = 620;
const HEIGHT: i32 = 320;
const LEFT: i32 = 48;
const RIGHT: i32 = 520;
/// Middle of the strip for marks without x, px.
const STRIP: i32 = 500;
const TOP: i32 = 14;
const BOTTOM: i32 = 272;

/// Draws the lines; `x_title` is the title of the x axis with unit.
pub(crate) fn ratio_lines(
    caption: &Caption,
    lines: &[Line],
    x_title: &str,
) -> Result<Markup, ReportError> {
    let xs = || {
        lines.iter().flat_map(|l| {
            l.points
                .iter()
                .map(|p| p.0)
                .chain(l.own.iter().filter_map(|m| m.x))
        })
    };
    let (low, high) = xs().fold((f64::INFINITY, 0.0f64), |(low, high), x| {
        (low.min(x), high.max(x))
    });
    let strip = lines
        .iter()
        .any(|l| l.own.as_ref().is_some_and(|m| m.x.is_none()));
    let end = if strip { STRIP - 64 } else { RIGHT - 12 };
    // With one x value or none, the axis still needs a range to divide by.
    let span = if low < high {
        (low, high)
    } else {
        (low.min(1.0) / 2.0, high.max(1.0) * 2.0)
    };
    let x = LogScale::new(span, (LEFT + 12, end));
    let ys = lines.iter().flat_map(|l| {
        l.points
            .iter()
            .map(|p| p.1)
            .chain(l.own.iter().map(|m| m.y))
    });
    let y = LogScale::new(range_around_one(ys), (BOTTOM, TOP));
    draw(caption, (WIDTH as u32, HEIGHT as u32), |root| {
        grid(root, x, y, x_ticks(lines, x), x_title)?;
        if strip {
            stroke(root, (STRIP - 44, TOP), (STRIP - 44, BOTTOM), Ink::Grid, 1)?;
            write(
                root,
                "as measured",
                (STRIP - 8, BOTTOM + 14),
                11.0,
                Ink::Muted,
                HPos::Center,
            )?;
        }
        for line in lines {
            one_line(root, line, x, y)?;
        }
        end_labels(root, lines, y)
    })
}

// Ticks are at the points themselves, which are the values that were modelled.
fn x_ticks(lines: &[Line], x: LogScale) -> Vec<f64> {
    let mut ticks: Vec<f64> = lines
        .iter()
        .flat_map(|l| l.points.iter().map(|p| p.0))
        .collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    let mut last = i32::MIN / 2;
    ticks.retain(|tick| {
        let clear = x.pixel(*tick) - last >= 34;
        if clear {
            last = x.pixel(*tick);
        }
        clear
    });
    ticks
}

fn grid(root: &Area<'_>, x: LogScale, y: LogScale, x_ticks: Vec<f64>, x_title: &str) -> Drawn {
    for tick in y.ratio_ticks(24) {
        let ink = if tick == 1.0 {
            Ink::Reference
        } else {
            Ink::Grid
        };
        stroke(root, (LEFT, y.pixel(tick)), (RIGHT, y.pixel(tick)), ink, 1)?;
        write(
            root,
            format!("{}×", words::number(tick)),
            (LEFT - 6, y.pixel(tick)),
            11.0,
            Ink::Muted,
            HPos::Right,
        )?;
    }
    for tick in x_ticks {
        stroke(
            root,
            (x.pixel(tick), BOTTOM),
            (x.pixel(tick), BOTTOM + 4),
            Ink::Muted,
            1,
        )?;
        write(
            root,
            words::number(tick),
            (x.pixel(tick), BOTTOM + 14),
            11.0,
            Ink::Muted,
            HPos::Center,
        )?;
    }
    write(
        root,
        x_title,
        ((LEFT + RIGHT) / 2, BOTTOM + 36),
        12.0,
        Ink::Text,
        HPos::Center,
    )
}

fn one_line(root: &Area<'_>, line: &Line, x: LogScale, y: LogScale) -> Drawn {
    let ink = Ink::Solid(line.series).color();
    let points: Vec<(i32, i32)> = line
        .points
        .iter()
        .map(|p| (x.pixel(p.0), y.pixel(p.1)))
        .collect();
    root.draw(&PathElement::new(points.clone(), ink.stroke_width(2)))?;
    for point in points {
        root.draw(&Circle::new(point, 3, ink.filled()))?;
    }
    if let Some(mark) = &line.own {
        let at = (
            mark.x.map_or(STRIP - 8, |value| x.pixel(value)),
            y.pixel(mark.y),
        );
        root.draw(&Circle::new(at, 6, Ink::Page.color().filled()))?;
        root.draw(&Circle::new(at, 6, ink.stroke_width(3)))?;
    }
    Ok(())
}

/// Names at the right, moved apart where lines end close to each other.
fn end_labels(root: &Area<'_>, lines: &[Line], y: LogScale) -> Drawn {
    const APART: i32 = 14;
    let mut labels: Vec<(i32, &Line)> = lines
        .iter()
        .filter_map(|l| Some((y.pixel(l.points.last()?.1), l)))
        .collect();
    labels.sort_by_key(|(at, _)| *at);
    // First push overlapping labels down, then push back up those that leave the chart.
    for index in 1..labels.len() {
        labels[index].0 = labels[index].0.max(labels[index - 1].0 + APART);
    }
    let mut floor = BOTTOM;
    for (at, _) in labels.iter_mut().rev() {
        *at = (*at).min(floor);
        floor = *at - APART;
    }
    for (at, line) in labels {
        stroke(
            root,
            (RIGHT + 4, at),
            (RIGHT + 14, at),
            Ink::Solid(line.series),
            3,
        )?;
        write(
            root,
            &line.name,
            (RIGHT + 19, at),
            11.0,
            Ink::Text,
            HPos::Left,
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(points: Vec<(f64, f64)>, own: Option<Mark>) -> Line {
        Line {
            name: "9:1".into(),
            series: 0,
            points,
            own,
        }
    }

    #[test]
    fn one_point_and_no_point_are_drawn_too() {
        let caption = Caption {
            id: "x".into(),
            title: "t".into(),
            description: "d".into(),
        };
        for points in [vec![], vec![(1.0, 1.0)]] {
            let svg = ratio_lines(
                &caption,
                &[line(points, Some(Mark { x: None, y: 0.9 }))],
                "ns",
            )
            .unwrap()
            .into_string();
            assert!(svg.contains("as measured") && !svg.contains("NaN"), "{svg}");
        }
    }
}
