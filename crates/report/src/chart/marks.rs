//! Markers, dashed lines and bands of line charts.

use super::scale::Scale;
use super::{Area, Drawn, Ink, stroke};
use plotters::prelude::{Circle, PathElement, Polygon};
use plotters::style::Color;

/// Fills the area between the lower and upper ends of ranges, which are given by their position.
pub(super) fn band(
    root: &Area<'_>,
    ranges: &[(f64, (f64, f64))],
    ink: Ink,
    x: Scale,
    y: Scale,
) -> Drawn {
    let lower = ranges
        .iter()
        .map(|&(at, (low, _))| (x.pixel(at), y.pixel(low)));
    let upper = ranges
        .iter()
        .rev()
        .map(|&(at, (_, high))| (x.pixel(at), y.pixel(high)));
    let outline: Vec<(i32, i32)> = lower.chain(upper).collect();
    if outline.len() < 4 {
        return Ok(());
    }
    root.draw(&Polygon::new(outline, ink.color().filled()))
}

/// Length of a dash and of the gap after it, px.
const DASH: (f64, f64) = (7.0, 4.0);

/// Draws a dashed line; the dash pattern continues around corners.
pub(super) fn dashes(root: &Area<'_>, corners: &[(i32, i32)], ink: Ink) -> Drawn {
    let style = ink.color().stroke_width(2);
    let mut walked = 0.0;
    for pair in corners.windows(2) {
        let [from, to] = [pair[0], pair[1]].map(|(x, y)| (f64::from(x), f64::from(y)));
        let length = (to.0 - from.0).hypot(to.1 - from.1);
        if length == 0.0 {
            continue;
        }
        let place = |along: f64| {
            let part = along / length;
            let [x, y] = [
                from.0 + part * (to.0 - from.0),
                from.1 + part * (to.1 - from.1),
            ];
            (x.round() as i32, y.round() as i32)
        };
        // Start within the pattern where the segment before ended.
        let mut along = -(walked % (DASH.0 + DASH.1));
        while along < length {
            let (begin, end) = (along.max(0.0), (along + DASH.0).min(length));
            if begin < end {
                root.draw(&PathElement::new(vec![place(begin), place(end)], style))?;
            }
            along += DASH.0 + DASH.1;
        }
        walked += length;
    }
    Ok(())
}

/// Draws the marker of a series; shapes differ, so that colour is not the only distinction.
pub(super) fn marker(root: &Area<'_>, (x, y): (i32, i32), series: usize) -> Drawn {
    let ink = Ink::Solid(series).color();
    match series % 4 {
        0 => root.draw(&Circle::new((x, y), 3, ink.filled())),
        1 => {
            let corners = vec![
                (x - 3, y - 3),
                (x + 3, y - 3),
                (x + 3, y + 3),
                (x - 3, y + 3),
            ];
            root.draw(&Polygon::new(corners, ink.filled()))
        }
        2 => {
            let corners = vec![(x, y - 5), (x + 4, y + 3), (x - 4, y + 3)];
            root.draw(&Polygon::new(corners, ink.filled()))
        }
        _ => {
            let corners = vec![(x, y - 5), (x + 4, y), (x, y + 5), (x - 4, y)];
            root.draw(&Polygon::new(corners, ink.filled()))
        }
    }
}

/// Draws the marker of an invalid figure.
pub(super) fn cross(root: &Area<'_>, (x, y): (i32, i32), ink: Ink) -> Drawn {
    stroke(root, (x - 4, y - 4), (x + 4, y + 4), ink, 2)?;
    stroke(root, (x - 4, y + 4), (x + 4, y - 4), ink, 2)
}
