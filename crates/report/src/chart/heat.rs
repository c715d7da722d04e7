//! Heat map: a table with coloured cells, for runs in which two keys vary.

use super::{Caption, HEAT_LEVELS, Ink, draw, fill, shortened, width_of, write};
use crate::ReportError;
use maud::Markup;
use plotters::style::text_anchor::HPos;

pub(crate) struct HeatMap {
    /// Title over the columns.
    pub column_title: String,
    /// Names of the columns, left to right.
    pub columns: Vec<String>,
    /// Name and cells of each row, top to bottom; `None` where nothing was measured.
    pub rows: Vec<(String, Vec<Option<HeatCell>>)>,
}

#[derive(Debug, Clone)]
pub(crate) struct HeatCell {
    /// The value that selects the colour.
    pub value: f64,
    /// Text in the cell.
    pub text: String,
    /// Whether the figure may be used; invalid cells are not coloured.
    pub valid: bool,
}

const ROW: i32 = 26;
const TOP: i32 = 46;
const LABEL_CHARS: usize = 18;

/// Draws the cells; the largest value is the darkest, or in dark mode the brightest.
pub(crate) fn heat_map(caption: &Caption, map: &HeatMap) -> Result<Markup, ReportError> {
    let cells = || map.rows.iter().flat_map(|(_, cells)| cells).flatten();
    let widest = |texts: &mut dyn Iterator<Item = &str>| texts.map(width_of).max().unwrap_or(0);
    // All columns are as wide as the widest text.
    let column = 14
        + widest(&mut cells().map(|c| c.text.as_str()))
            .max(widest(&mut map.columns.iter().map(String::as_str)))
            .max(36);
    let names: Vec<String> = map
        .rows
        .iter()
        .map(|r| shortened(&r.0, LABEL_CHARS))
        .collect();
    let left = 14 + widest(&mut names.iter().map(String::as_str));
    let width =
        (left + column * map.columns.len() as i32 + 8).max(left + width_of(&map.column_title) + 20);
    let height = TOP + ROW * map.rows.len() as i32 + 6;
    // Invalid cells do not count for the range of colours.
    let usable = || cells().filter(|c| c.valid).map(|c| c.value);
    let (low, high) = usable().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
        (l.min(v), h.max(v))
    });
    draw(caption, (width as u32, height as u32), |root| {
        let middle = left + column * map.columns.len() as i32 / 2;
        let title_at = middle.max(left + width_of(&map.column_title) / 2);
        write(
            root,
            &map.column_title,
            (title_at, 10),
            12.0,
            Ink::Text,
            HPos::Center,
        )?;
        for (index, name) in map.columns.iter().enumerate() {
            let at = left + column * index as i32 + column / 2;
            write(root, name, (at, TOP - 10), 11.0, Ink::Muted, HPos::Center)?;
        }
        for (row, ((_, cells), name)) in map.rows.iter().zip(&names).enumerate() {
            let y = TOP + ROW * row as i32;
            write(
                root,
                name,
                (left - 7, y + ROW / 2),
                11.0,
                Ink::Text,
                HPos::Right,
            )?;
            for (index, cell) in cells.iter().enumerate() {
                let x = left + column * index as i32;
                let Some(cell) = cell else { continue };
                let level = level(cell.value, low, high);
                let (background, text) = if cell.valid {
                    (Ink::Heat(level), Ink::OnHeat(level))
                } else {
                    (Ink::Page, Ink::Muted)
                };
                fill(
                    root,
                    (x + 1, y + 1),
                    (x + column - 1, y + ROW - 1),
                    background,
                )?;
                let words = if cell.valid {
                    cell.text.clone()
                } else {
                    "invalid".into()
                };
                write(
                    root,
                    words,
                    (x + column / 2, y + ROW / 2),
                    11.0,
                    text,
                    HPos::Center,
                )?;
            }
        }
        Ok(())
    })
}

/// The colour level: 0 for the smallest value, the last for the largest.
///
/// The middle level if all values are equal.
fn level(value: f64, low: f64, high: f64) -> usize {
    if high <= low {
        return HEAT_LEVELS / 2;
    }
    let share = ((value - low) / (high - low)).clamp(0.0, 1.0);
    ((share * HEAT_LEVELS as f64) as usize).min(HEAT_LEVELS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_values_are_the_ends_of_the_colors() {
        assert_eq!(
            [1.0, 1.9, 5.0].map(|v| level(v, 1.0, 5.0)),
            [0, 1, HEAT_LEVELS - 1]
        );
        assert_eq!(level(3.0, 3.0, 3.0), HEAT_LEVELS / 2);
    }

    #[test]
    fn an_invalid_cell_has_no_color_and_no_figure() {
        let cell = |valid| {
            Some(HeatCell {
                value: 4.0,
                text: "4.00".into(),
                valid,
            })
        };
        let map = HeatMap {
            column_title: "threads".into(),
            columns: vec!["1".into(), "2".into(), "3".into()],
            rows: vec![("64 B".into(), vec![cell(true), cell(false), None])],
        };
        let caption = Caption {
            id: "h".into(),
            title: "t".into(),
            description: "d".into(),
        };
        let svg = heat_map(&caption, &map).unwrap().into_string();
        assert_eq!(svg.matches("4.00").count(), 1);
        assert_eq!(svg.matches("var(--heat").count(), 1);
        assert!(svg.contains("invalid"));
    }
}
