//! Stacked bars: the shares of a query's time, one bar per query.

use super::{Caption, Ink, draw, fill, stroke, write};
use crate::{ReportError, words};
use maud::Markup;
use plotters::style::text_anchor::HPos;
use tierloom_record::TimeShares;

pub(crate) struct StackedRow {
    /// Name of the query.
    pub label: String,
    pub shares: TimeShares,
}

const WIDTH: i32 = 400;
const ROW: i32 = 17;
const TOP: i32 = 22;
const LEFT: i32 = 44;
/// Width from which a segment is labelled with its percentage, px.
const TEXT_FITS: i32 = 30;

/// Names of the segments, in the order they are stacked.
pub(crate) const PARTS: [&str; 4] = ["compute", "cache", "latency", "bandwidth"];

/// Draws the bars below each other, from 0 to 100%.
pub(crate) fn share_stack(caption: &Caption, rows: &[StackedRow]) -> Result<Markup, ReportError> {
    let height = TOP + rows.len() as i32 * ROW + 4;
    let right = WIDTH - 16;
    let x_of = |share: f64| LEFT + (share.clamp(0.0, 1.0) * f64::from(right - LEFT)).round() as i32;
    draw(caption, (WIDTH as u32, height as u32), |root| {
        for tick in [0.0, 0.25, 0.5, 0.75, 1.0] {
            write(
                root,
                words::share(tick),
                (x_of(tick), TOP - 12),
                10.0,
                Ink::Muted,
                HPos::Center,
            )?;
            stroke(
                root,
                (x_of(tick), TOP - 4),
                (x_of(tick), height - 2),
                Ink::Grid,
                1,
            )?;
        }
        for (index, row) in rows.iter().enumerate() {
            let y = TOP + index as i32 * ROW;
            write(
                root,
                &row.label,
                (LEFT - 6, y + ROW / 2),
                11.0,
                Ink::Text,
                HPos::Right,
            )?;
            let TimeShares {
                compute,
                cache,
                latency,
                bandwidth,
            } = row.shares;
            let mut start = 0.0;
            for (part, share) in [compute, cache, latency, bandwidth].into_iter().enumerate() {
                // Edges follow from the running sum, so that rounding leaves no gap between
                // segments.
                let (from, to) = (x_of(start), x_of(start + share));
                start += share;
                if to > from {
                    fill(root, (from, y + 1), (to, y + ROW - 1), Ink::Share(part))?;
                }
                if to - from >= TEXT_FITS {
                    write(
                        root,
                        words::share(share),
                        ((from + to) / 2, y + ROW / 2),
                        10.0,
                        Ink::OnShare,
                        HPos::Center,
                    )?;
                }
            }
        }
        Ok(())
    })
}
