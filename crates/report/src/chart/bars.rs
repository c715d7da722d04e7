//! Bar chart of ratios. Bars start at 1: to the right is faster, to the left is slower.

use super::scale::{LogScale, range_around_one};
use super::{Area, Caption, Drawn, Ink, draw, fill, shortened, stroke, write};
use crate::{ReportError, words};
use maud::Markup;
use plotters::style::text_anchor::HPos;

pub(crate) struct Bar {
    /// Label of the bar ("3:2").
    pub name: String,
    /// Index of its colour.
    pub series: usize,
    /// The ratio; positive.
    pub value: f64,
    /// Smallest and largest ratio, drawn as a whisker.
    pub range: Option<(f64, f64)>,
    /// Modelled bars are hatched.
    pub modelled: bool,
}

/// A group of bars with a common label.
pub(crate) struct BarGroup {
    /// Name of the query; empty if the bars' names are sufficient.
    pub label: String,
    pub bars: Vec<Bar>,
}

/// The range of an axis that several charts share, so that their bars can be compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RatioRange(f64, f64);

impl RatioRange {
    /// The range over all bars and whiskers.
    pub fn of<'a>(groups: impl IntoIterator<Item = &'a BarGroup>) -> RatioRange {
        let bars = groups.into_iter().flat_map(|group| &group.bars);
        let (low, high) = range_around_one(bars.flat_map(|bar| {
            let (low, high) = bar.range.unwrap_or((bar.value, bar.value));
            [bar.value, low, high]
        }));
        RatioRange(low, high)
    }
}

const WIDTH: i32 = 560;
const ROW: i32 = 17;
const GROUP_GAP: i32 = 10;
const TOP: i32 = 26;
const LEFT: i32 = 150;
/// Space for a value beside the longest bar, px.
const LABEL: i32 = 48;

/// Draws groups of bars below each other.
pub(crate) fn ratio_bars(
    caption: &Caption,
    groups: &[BarGroup],
    range: RatioRange,
) -> Result<Markup, ReportError> {
    let rows: usize = groups.iter().map(|group| group.bars.len()).sum();
    let height = TOP + rows as i32 * ROW + groups.len() as i32 * GROUP_GAP + 4;
    let scale = LogScale::new((range.0, range.1), (LEFT + LABEL, WIDTH - LABEL));
    draw(caption, (WIDTH as u32, height as u32), |root| {
        axis(root, scale, height)?;
        let mut y = TOP + GROUP_GAP / 2;
        for group in groups {
            let middle = y + group.bars.len() as i32 * ROW / 2;
            write(root, &group.label, (4, middle), 13.0, Ink::Text, HPos::Left)?;
            for bar in &group.bars {
                // Without a group label, the name may use its space.
                let most = if group.label.is_empty() { 21 } else { 15 };
                one_bar(root, bar, most, scale, y)?;
                y += ROW;
            }
            y += GROUP_GAP;
        }
        let one = scale.pixel(1.0);
        stroke(root, (one, TOP - 4), (one, height - 2), Ink::Reference, 1)
    })
}

fn axis(root: &Area<'_>, scale: LogScale, height: i32) -> Drawn {
    for tick in scale.ratio_ticks(44) {
        let x = scale.pixel(tick);
        stroke(root, (x, TOP - 4), (x, height - 2), Ink::Grid, 1)?;
        write(
            root,
            format!("{}×", words::number(tick)),
            (x, TOP - 14),
            11.0,
            Ink::Muted,
            HPos::Center,
        )?;
    }
    Ok(())
}

fn one_bar(root: &Area<'_>, bar: &Bar, most: usize, scale: LogScale, y: i32) -> Drawn {
    let (one, end) = (scale.pixel(1.0), scale.pixel(bar.value));
    let ink = if bar.modelled {
        Ink::Hatched(bar.series)
    } else {
        Ink::Solid(bar.series)
    };
    write(
        root,
        shortened(&bar.name, most),
        (LEFT - 6, y + ROW / 2),
        11.0,
        Ink::Muted,
        HPos::Right,
    )?;
    fill(
        root,
        (one.min(end), y + 2),
        (one.max(end), y + ROW - 2),
        ink,
    )?;
    let (low, high) = bar.range.map_or((end, end), |(low, high)| {
        (scale.pixel(low), scale.pixel(high))
    });
    if high > low {
        let middle = y + ROW / 2;
        stroke(root, (low, middle), (high, middle), Ink::Text, 1)?;
        stroke(root, (low, middle - 3), (low, middle + 3), Ink::Text, 1)?;
        stroke(root, (high, middle - 3), (high, middle + 3), Ink::Text, 1)?;
    }
    // The value is outside bar and whisker, on the side that the bar points to.
    let (x, anchor) = if bar.value < 1.0 {
        (low.min(end).min(one) - 5, HPos::Right)
    } else {
        (high.max(end).max(one) + 5, HPos::Left)
    };
    write(
        root,
        words::ratio(bar.value),
        (x, y + ROW / 2),
        11.0,
        Ink::Text,
        anchor,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(value: f64, modelled: bool) -> Bar {
        Bar {
            name: "3:2".into(),
            series: 2,
            value,
            range: None,
            modelled,
        }
    }

    fn svg(bars: Vec<Bar>) -> String {
        let groups = [BarGroup {
            label: "q1.1".into(),
            bars,
        }];
        let caption = Caption {
            id: "x".into(),
            title: "t".into(),
            description: "d".into(),
        };
        ratio_bars(&caption, &groups, RatioRange::of(&groups))
            .unwrap()
            .into_string()
    }

    #[test]
    fn a_modelled_bar_looks_different_from_a_measured_one() {
        assert!(svg(vec![bar(1.5, true)]).contains("url(#x-h2)"));
        assert!(!svg(vec![bar(1.5, false)]).contains("url(#x-h2)"));
    }

    #[test]
    fn the_value_stands_beside_its_bar() {
        let svg = svg(vec![bar(1.614, false), bar(0.5, false)]);
        assert!(svg.contains("1.61×") && svg.contains("0.50×"), "{svg}");
    }

    #[test]
    fn extreme_values_stay_inside_the_chart() {
        let svg = svg(vec![bar(1e12, false), bar(1e-12, false)]);
        for part in svg.split(" x=\"").skip(1) {
            let x: i32 = part.split('"').next().unwrap().parse().unwrap();
            assert!((0..=WIDTH).contains(&x), "{x}");
        }
    }
}
