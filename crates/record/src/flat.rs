//! Validation and tune records as CSV, and the helpers that all CSV tables share.

use crate::{RecordError, TierWeight, TuneRecord, ValidationRecord};

const FIGURES: [&str; 18] = [
    "made_at",
    "tool_version",
    "terms_off",
    "id",
    "paper",
    "role",
    "series",
    "x_name",
    "x",
    "what",
    "machine",
    "unit",
    "published",
    "relation",
    "modelled",
    "error",
    "agrees",
    "remark",
];

const POINTS: [&str; 14] = [
    "made_at",
    "tool_version",
    "machine",
    "phase",
    "workers",
    "unit",
    "point",
    "weights",
    "share",
    "rate",
    "low",
    "high",
    "provenance",
    "warnings",
];

/// Writes one row per published figure as CSV with a header line (RFC 4180).
///
/// A value that a figure does not have is an empty field. `published` and `modelled` are in the
/// figure's `unit`; `error` is relative (0.05 is 5% too much).
///
/// # Errors
/// [`RecordError::Io`] if the rows cannot be written to memory.
pub fn validation_csv(records: &[ValidationRecord]) -> Result<Vec<u8>, RecordError> {
    let rows = records
        .iter()
        .flat_map(|record| record.figures.iter().map(move |figure| (record, figure)))
        .map(|(record, f)| {
            vec![
                record.made_at.clone(),
                record.tool_version.clone(),
                record.terms_off.join(" "),
                f.id.clone(),
                f.paper.clone(),
                f.role.clone(),
                f.series.clone(),
                f.x_name.clone(),
                text(f.x),
                f.what.clone(),
                f.machine.clone(),
                f.unit.clone(),
                text(f.published),
                text(f.relation.as_ref()),
                f.modelled.to_string(),
                text(f.error),
                text(f.agrees),
                text(f.remark.as_ref()),
            ]
        });
    csv_table(&FIGURES, rows)
}

/// Writes the curve of each phase as CSV with a header line (RFC 4180).
///
/// There is one row per point of the curve, after one row each for the best weights, everything on
/// the first tier, and the kernel's weights: `point` is "best", "first tier", "kernel" or "curve".
/// `share` is the share of the pages that are not on the first tier, 0 to 1; it is empty for "best"
/// and "kernel".
///
/// # Errors
/// [`RecordError::Io`] if the rows cannot be written to memory.
pub fn tune_csv(records: &[TuneRecord]) -> Result<Vec<u8>, RecordError> {
    let mut rows = Vec::new();
    for record in records {
        let mut row =
            |point: &str, weights: &[TierWeight], share: Option<f64>, rest: [String; 4]| {
                let [rate, low, high, provenance] = rest;
                rows.push(vec![
                    record.made_at.clone(),
                    record.tool_version.clone(),
                    record.machine.clone(),
                    record.phase.clone(),
                    record.workers.to_string(),
                    record.unit.clone(),
                    point.to_owned(),
                    weights_text(weights),
                    text(share),
                    rate,
                    low,
                    high,
                    provenance,
                    record.warnings.join(" "),
                ]);
            };
        // Single rates have no range.
        let own = |rate: f64| {
            let none = String::new;
            [
                rate.to_string(),
                none(),
                none(),
                record.provenance.to_string(),
            ]
        };
        row("best", &record.best, None, own(record.best_rate));
        row("first tier", &[], Some(0.0), own(record.dram_rate));
        row("kernel", &record.kernel, None, own(record.kernel_rate));
        for p in &record.points {
            let (low, high) = (text(p.low), text(p.high));
            let rest = [p.rate.to_string(), low, high, p.provenance.to_string()];
            row("curve", &[], Some(p.share), rest);
        }
    }
    csv_table(&POINTS, rows)
}

/// Weights as text, "dram:3 cxl:2".
fn weights_text(weights: &[TierWeight]) -> String {
    let all: Vec<String> = weights
        .iter()
        .map(|w| format!("{}:{}", w.tier, w.weight))
        .collect();
    all.join(" ")
}

/// The text of a field; empty without a value.
pub(crate) fn text<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |v| v.to_string())
}

/// A header and rows as CSV.
pub(crate) fn csv_table<H: AsRef<str>>(
    header: &[H],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> Result<Vec<u8>, RecordError> {
    let failed = |problem: String| RecordError::Io {
        action: "write",
        path: "the CSV table".into(),
        source: std::io::Error::other(problem),
    };
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer
        .write_record(header.iter().map(AsRef::as_ref))
        .map_err(|e| failed(e.to_string()))?;
    for row in rows {
        writer
            .write_record(row)
            .map_err(|e| failed(e.to_string()))?;
    }
    writer.into_inner().map_err(|e| failed(e.to_string()))
}
