//! Bar chart of a quantity. Bars start at 0; used where runs differ in a key without numbers.

use super::scale::Scale;
use super::{Area, Caption, Drawn, Ink, draw, fill, shortened, stroke, write};
use crate::{ReportError, words};
use maud::Markup;
use plotters::style::text_anchor::HPos;

pub(crate) struct ValueBar {
    /// Label within the group; empty if the group has one bar.
    pub name: String,
    /// Index of its colour.
    pub series: usize,
    /// Length of the bar: a median, not negative.
    pub value: f64,
    /// Text beside the bar.
    pub text: String,
    /// Smallest and largest repetition, drawn as a whisker.
    pub range: Option<(f64, f64)>,
    /// Whether the figure may be used; invalid bars are only outlined.
    pub valid: bool,
}

/// A group of bars with a common label.
pub(crate) struct ValueGroup {
    /// Heading above the bars.
    pub label: String,
    pub bars: Vec<ValueBar>,
}

const WIDTH: i32 = 560;
const ROW: i32 = 17;
const TOP: i32 = 26;
const LEFT: i32 = 150;
/// Space for a value beside the longest bar, px.
const VALUE: i32 = 110;

/// Draws groups of bars below each other; axis labels are values divided by `divisor`.
pub(crate) fn value_bars(
    caption: &Caption,
    groups: &[ValueGroup],
    divisor: f64,
) -> Result<Markup, ReportError> {
    let bars = || groups.iter().flat_map(|g| &g.bars);
    let most = bars()
        .map(|b| b.range.map_or(b.value, |r| r.1.max(b.value)))
        .filter(|v| v.is_finite())
        .fold(0.0, f64::max)
        // Larger values would overflow when ticks are computed.
        .min(1e300);
    // If every group has one bar, its label is written beside the bar and needs no heading.
    let named = groups
        .iter()
        .any(|g| g.bars.iter().any(|b| !b.name.is_empty()));
    let gap = if named { 22 } else { 5 };
    let height = TOP + bars().count() as i32 * ROW + groups.len() as i32 * gap + 8;
    let scale = Scale::Linear {
        low: 0.0,
        high: if most > 0.0 { most } else { 1.0 },
        from: LEFT,
        to: WIDTH - VALUE,
    };
    draw(caption, (WIDTH as u32, height as u32), |root| {
        for tick in scale.ticks(56) {
            let x = scale.pixel(tick);
            stroke(root, (x, TOP - 4), (x, height - 2), Ink::Grid, 1)?;
            let text = words::number(tick / divisor);
            write(root, text, (x, TOP - 14), 11.0, Ink::Muted, HPos::Center)?;
        }
        let mut y = TOP + 2;
        for group in groups {
            if named {
                let label = shortened(&group.label, 60);
                write(root, label, (4, y + 11), 12.0, Ink::Text, HPos::Left)?;
                y += gap;
            }
            for bar in &group.bars {
                let name = if named { &bar.name } else { &group.label };
                one_bar(root, bar, name, scale, y)?;
                y += ROW;
            }
            if !named {
                y += gap;
            }
        }
        stroke(root, (LEFT, TOP - 4), (LEFT, height - 2), Ink::Reference, 1)
    })
}

fn one_bar(root: &Area<'_>, bar: &ValueBar, name: &str, scale: Scale, y: i32) -> Drawn {
    let (middle, end) = (y + ROW / 2, scale.pixel(bar.value));
    let ink = Ink::Solid(bar.series);
    let name = shortened(name, 21);
    write(
        root,
        name,
        (LEFT - 7, middle),
        11.0,
        Ink::Muted,
        HPos::Right,
    )?;
    if bar.valid {
        fill(root, (LEFT, y + 2), (end, y + ROW - 2), ink)?;
    } else {
        for (from, to) in [
            ((LEFT, y + 2), (end, y + 2)),
            ((LEFT, y + ROW - 2), (end, y + ROW - 2)),
            ((end, y + 2), (end, y + ROW - 2)),
        ] {
            stroke(root, from, to, ink, 1)?;
        }
    }
    let mut right = end;
    if let Some((low, high)) = bar.range.map(|r| (scale.pixel(r.0), scale.pixel(r.1)))
        && high > low
    {
        stroke(root, (low, middle), (high, middle), Ink::Text, 1)?;
        for x in [low, high] {
            stroke(root, (x, middle - 3), (x, middle + 3), Ink::Text, 1)?;
        }
        right = right.max(high);
    }
    let text = if bar.valid {
        bar.text.clone()
    } else {
        format!("{} invalid", bar.text)
    };
    write(root, text, (right + 6, middle), 11.0, Ink::Text, HPos::Left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_begin_at_zero_and_an_invalid_one_is_hollow() {
        let bar = |value, valid| ValueBar {
            name: String::new(),
            series: 1,
            value,
            text: words::ms(value),
            range: None,
            valid,
        };
        let group = |label: &str, bar| ValueGroup {
            label: label.into(),
            bars: vec![bar],
        };
        let caption = Caption {
            id: "v".into(),
            title: "t".into(),
            description: "d".into(),
        };
        let groups = [
            group("read", bar(10.0, true)),
            group("write", bar(5.0, true)),
            group("copy", bar(4.0, false)),
        ];
        let svg = value_bars(&caption, &groups, 1.0).unwrap().into_string();
        let widths: Vec<f64> = svg
            .split("<rect ")
            .skip(1)
            .filter_map(|r| r.split("width=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        assert_eq!(widths.len(), 2, "{svg}");
        assert!((widths[0] / widths[1] - 2.0).abs() < 0.02, "{widths:?}");
        assert!(svg.contains("4.00 invalid"));
    }
}
