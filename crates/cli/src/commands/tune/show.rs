//! Formats tuned weights as tables and JSON.

use super::{ApplyReport, Outcome, Tuning, records};
use crate::failure::Failure;
use comfy_table::{Cell, CellAlignment, Table, presets};
use tierloom_record::{Provenance, TierWeight, TuneRecord};

/// Weights as `dram 3, cxl 2`.
pub fn weights(weights: &[TierWeight]) -> String {
    let parts: Vec<String> = weights
        .iter()
        .map(|w| format!("{} {}", w.tier, w.weight))
        .collect();
    parts.join(", ")
}

/// The results on one machine: heading, a row per phase, warnings, and curves if requested.
pub fn text(tuning: &Tuning, curve: bool) -> String {
    let mut text = format!("{}\n", tuning.title);
    if tuning.outcomes.is_empty() {
        return text;
    }
    let mut table = new_table(&header(tuning));
    for outcome in &tuning.outcomes {
        table.add_row(match tuning.provenance {
            Provenance::Modelled => modelled_row(outcome),
            Provenance::Measured => measured_row(outcome),
        });
    }
    text += &format!("{table}\n");
    for outcome in &tuning.outcomes {
        for warning in &outcome.record.warnings {
            text += &format!("{}: {warning}\n", outcome.record.phase);
        }
    }
    if curve {
        for outcome in &tuning.outcomes {
            text += &curve_text(&outcome.record);
        }
    }
    text
}

fn new_table(header: &[String]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(header);
    table
}

fn header(tuning: &Tuning) -> Vec<String> {
    let over_home = format!("over {} only", tuning.home);
    let off_home = format!("share off {}", tuning.home);
    let header: Vec<&str> = match tuning.provenance {
        Provenance::Modelled => vec![
            "phase",
            "best weights",
            "rate",
            "unit",
            &over_home,
            "gain range",
            "over kernel's",
            "over 1:1",
            &off_home,
            "limited by",
        ],
        Provenance::Measured => vec![
            "phase",
            "best weights",
            "rate",
            "min to max",
            "unit",
            &over_home,
            "over kernel's now",
            "search",
        ],
    };
    header.into_iter().map(str::to_owned).collect()
}

fn number(x: f64) -> Cell {
    Cell::new(figure(x)).set_alignment(CellAlignment::Right)
}

/// Formats with about three significant digits.
fn figure(x: f64) -> String {
    match x.abs() {
        big if big >= 100.0 => format!("{x:.0}"),
        middle if middle >= 10.0 => format!("{x:.1}"),
        _ => format!("{x:.2}"),
    }
}

fn factor(x: f64) -> Cell {
    Cell::new(format!("x{x:.2}")).set_alignment(CellAlignment::Right)
}

fn over_kernel(record: &TuneRecord) -> Cell {
    let gain = record.best_rate / record.kernel_rate;
    Cell::new(format!("x{gain:.2} ({})", weights(&record.kernel)))
}

fn modelled_row(outcome: &Outcome) -> Vec<Cell> {
    let (record, only) = (&outcome.record, outcome.modelled.as_ref());
    let percent = |x: f64| format!("{:.0}%", x * 100.0);
    let gains = record.gain_range.map_or_else(String::new, |(low, high)| {
        format!("x{low:.2} to x{high:.2}")
    });
    let shares = record
        .best_share_range
        .map_or_else(String::new, |(low, high)| {
            format!(" ({} to {})", percent(low), percent(high))
        });
    vec![
        Cell::new(&record.phase),
        Cell::new(weights(&record.best)),
        number(record.best_rate),
        Cell::new(&record.unit),
        factor(record.best_rate / record.dram_rate),
        Cell::new(gains),
        over_kernel(record),
        only.map_or_else(|| Cell::new("-"), |m| factor(m.gain_over_equal)),
        Cell::new(only.map_or_else(String::new, |m| percent(m.share)) + &shares),
        Cell::new(&outcome.note),
    ]
}

fn measured_row(outcome: &Outcome) -> Vec<Cell> {
    let record = &outcome.record;
    let best = record
        .points
        .iter()
        .find(|point| point.rate == record.best_rate);
    let ends = best.and_then(|point| Some((point.low?, point.high?)));
    vec![
        Cell::new(&record.phase),
        Cell::new(weights(&record.best)),
        number(record.best_rate),
        Cell::new(ends.map_or_else(String::new, |(low, high)| {
            format!("{} to {}", figure(low), figure(high))
        })),
        Cell::new(&record.unit),
        factor(record.best_rate / record.dram_rate),
        over_kernel(record),
        Cell::new(&outcome.note),
    ]
}

fn curve_text(record: &TuneRecord) -> String {
    let unit = format!("{} ({})", record.unit, record.provenance);
    let ends = match record.provenance {
        Provenance::Modelled => "over the profile's uncertainty",
        Provenance::Measured => "min to max",
    };
    let mut table = new_table(&["share off the first tier".into(), unit, ends.into()]);
    for point in &record.points {
        let ends = point
            .low
            .zip(point.high)
            .map_or_else(String::new, |(low, high)| {
                format!("{} to {}", figure(low), figure(high))
            });
        table.add_row(vec![
            Cell::new(format!("{:.1}%", point.share * 100.0)).set_alignment(CellAlignment::Right),
            number(point.rate),
            Cell::new(ends),
        ]);
    }
    format!("\n{}: {}\n{table}\n", record.phase, record.what)
}

/// The records in the format of `tierloom run --json`, and what was set.
pub fn json(tunings: &[Tuning], applied: Option<&ApplyReport>) -> Result<String, Failure> {
    let mut value = serde_json::json!({ "records": records(tunings)?.to_records() });
    if let (Some(report), Some(object)) = (applied, value.as_object_mut()) {
        object.insert("apply".into(), report.json.clone());
    }
    let text = serde_json::to_string_pretty(&value).map_err(Failure::runtime)?;
    Ok(format!("{text}\n"))
}
