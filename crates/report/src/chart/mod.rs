//! Charts: plotters draws SVG, which is then connected to the colours of the page.
//!
//! plotters only has fixed colours, but a page with light and dark mode needs CSS variables. So
//! every element is drawn in a marker colour ([`Ink`]), and [`draw`] replaces these by variables
//! and hatch patterns. A chart has a `viewBox`, so that it scales, a title and description for
//! screen readers, and ids that are unique in the document.

mod bars;
mod heat;
mod lines;
mod marks;
mod plot;
mod scale;
mod stacked;
mod values;

pub(crate) use bars::{Bar, BarGroup, RatioRange, ratio_bars};
pub(crate) use heat::{HeatCell, HeatMap, heat_map};
pub(crate) use lines::{Line, Mark, ratio_lines};
pub(crate) use plot::{NAME_FITS, Plot, PlotAxis, PlotPoint, PlotSeries, Style, plot};
pub(crate) use stacked::{PARTS, StackedRow, share_stack};
pub(crate) use values::{ValueBar, ValueGroup, value_bars};

use crate::ReportError;
use maud::{Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Number of colours that differ in hue and lightness; further series start again at the first.
pub(crate) const SERIES: usize = 8;

/// The colour of an element, by its role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    Text,
    Muted,
    /// Grid lines behind the data.
    Grid,
    /// The reference line that values are compared with.
    Reference,
    /// Text on a coloured segment.
    OnShare,
    /// Background of the page.
    Page,
    Solid(usize),
    Hatched(usize),
    /// The range of a modelled series; lines and markers stay legible on it.
    Band(usize),
    /// A segment of a stacked bar: compute, cache, latency, bandwidth.
    Share(usize),
    /// A cell of a heat map: 0 for the smallest, [`HEAT_LEVELS`] - 1 for the largest value.
    Heat(usize),
    /// Text on a heat-map cell of that level.
    OnHeat(usize),
}

/// Number of colour levels of a heat map.
pub(crate) const HEAT_LEVELS: usize = 8;

impl Ink {
    fn code(self) -> (u8, u8) {
        match self {
            Ink::Text => (0, 0),
            Ink::Muted => (0, 1),
            Ink::Grid => (0, 2),
            Ink::Reference => (0, 3),
            Ink::OnShare => (0, 4),
            Ink::Page => (0, 5),
            Ink::Solid(series) => (1, (series % SERIES) as u8),
            Ink::Hatched(series) => (2, (series % SERIES) as u8),
            Ink::Band(series) => (6, (series % SERIES) as u8),
            Ink::Share(part) => (3, (part % 4) as u8),
            Ink::Heat(level) => (4, level.min(HEAT_LEVELS - 1) as u8),
            // The upper half of the levels contrasts with the page, so text on it has the opposite
            // colour.
            Ink::OnHeat(level) => (5, u8::from(level >= HEAT_LEVELS / 2)),
        }
    }

    pub fn color(self) -> RGBColor {
        let (kind, index) = self.code();
        RGBColor(MARKER, kind, index)
    }
}

/// Red component of all marker colours; nothing else in a chart has a colour.
const MARKER: u8 = 0xF1;

fn css_of(kind: u8, index: u8, id: &str) -> String {
    match kind {
        0 => [
            "var(--ink)",
            "var(--muted)",
            "var(--grid)",
            "var(--reference)",
            "var(--on-share)",
            "var(--page)",
        ][usize::from(index).min(5)]
        .into(),
        1 => format!("var(--s{index})"),
        2 => format!("url(#{id}-h{index})"),
        3 => format!("var(--share{index})"),
        4 => format!("var(--heat{index})"),
        6 => format!("color-mix(in srgb, var(--s{index}) 20%, transparent)"),
        _ => format!("var(--on-heat{index})"),
    }
}

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(crate) type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Identification of a chart for the page and for screen readers.
pub(crate) struct Caption {
    /// Unique in the document; letters, digits and dashes.
    pub id: String,
    /// What the chart shows, in one line.
    pub title: String,
    /// How to read it, for readers who cannot see it.
    pub description: String,
}

/// Draws a chart of `size` pixels and replaces marker colours by those of the page.
pub(crate) fn draw(
    caption: &Caption,
    size: (u32, u32),
    paint: impl FnOnce(&Area<'_>) -> Drawn,
) -> Result<Markup, ReportError> {
    let mut raw = String::new();
    let drawn = {
        let root = SVGBackend::with_string(&mut raw, size).into_drawing_area();
        paint(&root).and_then(|()| root.present())
    };
    drawn.map_err(|problem| ReportError::Chart {
        chart: caption.title.clone(),
        problem: problem.to_string(),
    })?;
    Ok(wrap(
        caption,
        size,
        &tie_colors(&inner_of(&raw), &caption.id),
    ))
}

// The outer element is replaced in `wrap` by one with title, description and a unique id.
fn inner_of(raw: &str) -> String {
    let start = raw
        .find("<svg")
        .and_then(|at| raw[at..].find('>').map(|end| at + end + 1))
        .unwrap_or(0);
    let end = raw.rfind("</svg>").unwrap_or(raw.len());
    raw[start..end]
        .replace("font-family=\"sans-serif\" ", "")
        .replace(" opacity=\"1\"", "")
}

fn tie_colors(svg: &str, id: &str) -> String {
    let marker = format!("\"#{MARKER:02X}");
    let mut out = String::with_capacity(svg.len());
    let mut rest = svg;
    while let Some(at) = rest.find(&marker) {
        let code = rest
            .get(at + marker.len()..at + marker.len() + 5)
            .unwrap_or_default();
        let parsed = (
            u8::from_str_radix(code.get(..2).unwrap_or_default(), 16),
            u8::from_str_radix(code.get(2..4).unwrap_or_default(), 16),
        );
        let (Ok(kind), Ok(index), true) = (parsed.0, parsed.1, code.ends_with('"')) else {
            out.push_str(&rest[..at + marker.len()]);
            rest = &rest[at + marker.len()..];
            continue;
        };
        out.push_str(&rest[..at]);
        out.push_str(&format!("\"{}\"", css_of(kind, index, id)));
        rest = &rest[at + marker.len() + 5..];
    }
    out.push_str(rest);
    out
}

fn wrap(caption: &Caption, size: (u32, u32), inner: &str) -> Markup {
    let Caption {
        id,
        title,
        description,
    } = caption;
    let hatched: Vec<usize> = (0..SERIES)
        .filter(|series| inner.contains(&format!("url(#{id}-h{series})")))
        .collect();
    html! {
        svg id=(id) class="chart" role="img" viewBox=(format!("0 0 {} {}", size.0, size.1)) aria-labelledby=(format!("{id}-t {id}-d")) style=(format!("max-width:{}px", size.0 * 5 / 4)) {
            title id=(format!("{id}-t")) { (title) }
            desc id=(format!("{id}-d")) { (description) }
            @if !hatched.is_empty() {
                defs { @for series in hatched { (hatch(id, series)) } }
            }
            (PreEscaped(inner))
        }
    }
}

/// Stripes in the colour of a series, which mark modelled figures.
fn hatch(id: &str, series: usize) -> Markup {
    let color = format!("var(--s{series})");
    html! {
        pattern id=(format!("{id}-h{series}")) width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
            rect width="6" height="6" fill=(color) fill-opacity="0.25" {}
            rect width="3" height="6" fill=(color) {}
        }
    }
}

/// Writes text of `size` pixels; `at` is its left end, middle or right end, depending on `anchor`.
pub(crate) fn write(
    root: &Area<'_>,
    text: impl Into<String>,
    at: (i32, i32),
    size: f64,
    ink: Ink,
    anchor: HPos,
) -> Drawn {
    // The SVG backend divides font sizes by 1.24.
    let color = ink.color();
    let style = TextStyle::from(("sans-serif", size * 1.24).into_font())
        .color(&color)
        .pos(Pos::new(anchor, VPos::Center));
    root.draw(&Text::new(text.into(), at, style))
}

/// `text` in at most `most` characters; the full name is in a table or legend beside the chart.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        text.into()
    } else {
        text.chars()
            .take(most.saturating_sub(1))
            .chain(['…'])
            .collect()
    }
}

/// Approximate width of `text` at font size 11, px.
pub(crate) fn width_of(text: &str) -> i32 {
    text.chars().count() as i32 * 33 / 5
}

pub(crate) fn stroke(
    root: &Area<'_>,
    from: (i32, i32),
    to: (i32, i32),
    ink: Ink,
    width: u32,
) -> Drawn {
    root.draw(&PathElement::new(
        vec![from, to],
        ink.color().stroke_width(width),
    ))
}

pub(crate) fn fill(root: &Area<'_>, from: (i32, i32), to: (i32, i32), ink: Ink) -> Drawn {
    root.draw(&Rectangle::new([from, to], ink.color().filled()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_marker_color_becomes_a_name_of_the_page() {
        let caption = Caption {
            id: "c".into(),
            title: "<t>".into(),
            description: "d".into(),
        };
        let svg = draw(&caption, (100, 50), |root| {
            fill(root, (0, 0), (9, 9), Ink::Solid(1))?;
            fill(root, (0, 0), (9, 9), Ink::Hatched(9))?;
            fill(root, (0, 0), (9, 9), Ink::Share(3))?;
            fill(root, (0, 0), (9, 9), Ink::Band(2))?;
            stroke(root, (0, 0), (9, 9), Ink::Grid, 1)?;
            write(root, "a < b & \"c\"", (5, 5), 12.0, Ink::Text, HPos::Left)
        });
        let svg = svg.unwrap().into_string();
        for name in [
            "var(--s1)",
            "url(#c-h1)",
            "id=\"c-h1\"",
            "var(--share3)",
            "color-mix(in srgb, var(--s2) 20%, transparent)",
            "var(--grid)",
            "var(--ink)",
        ] {
            assert!(svg.contains(name), "{name} in {svg}");
        }
        assert!(!svg.contains("\"#"), "{svg}");
        assert!(
            svg.contains("a &lt; b &amp;") && svg.contains("&lt;t&gt;"),
            "{svg}"
        );
        assert_eq!(svg.matches("<svg").count(), 1);
        assert!(svg.contains("viewBox=\"0 0 100 50\""));
    }

    #[test]
    fn text_that_looks_like_a_marker_stays_text() {
        assert_eq!(
            tie_colors("x=\"#F1zz\" y=\"#F1", "c"),
            "x=\"#F1zz\" y=\"#F1"
        );
        assert_eq!(tie_colors("fill=\"#F10102\"é", "c"), "fill=\"var(--s2)\"é");
        assert_eq!(tie_colors("\"#F1é", "c"), "\"#F1é");
    }
}
