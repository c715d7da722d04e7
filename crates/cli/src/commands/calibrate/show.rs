//! Formats fits as text and JSON.

use crate::failure::Failure;
use comfy_table::{Table, presets};
use tierloom_calibrate::{Fit, FittedParameter, Knowledge, cells, number, summaries};
use tierloom_record::FigureRecord;

/// The fit as text: parameters, residuals, errors before and after, warnings.
pub fn text(fit: &Fit) -> String {
    let mut text = format!(
        "{}: {} parameters, {} fitted figures of {}; everything here is modelled\n\n{}\n\n{}\n\n",
        fit.calibration,
        fit.parameters.len(),
        fit.after.len(),
        fit.papers.join(", "),
        parameters(&fit.parameters),
        residuals(&fit.before, &fit.after)
    );
    text += &format!(
        "before: {}\nafter:  {}\n",
        errors(&fit.before),
        errors(&fit.after)
    );
    for warning in &fit.warnings {
        text += &format!("warning: {warning}\n");
    }
    text
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_FULL_CONDENSED)
        .set_header(header);
    table
}

fn parameters(parameters: &[FittedParameter]) -> Table {
    let mut table = table(&[
        "parameter",
        "start",
        "fitted",
        "90% interval",
        "known",
        "figures",
        "most by",
    ]);
    for p in parameters {
        let known = match (p.knowledge, p.at_bound) {
            (Knowledge::Undetermined, _) => "not at all, stays assumed".to_owned(),
            (_, Some(bound)) => format!("at its {bound} end"),
            (Knowledge::Weak, None) => "weakly".to_owned(),
            (Knowledge::Determined, None) => "yes".to_owned(),
        };
        table.add_row([
            p.name.clone(),
            number(p.start),
            number(p.fitted),
            format!("{} to {}", number(p.low), number(p.high)),
            known,
            p.figures.to_string(),
            p.informed_by.join("\n"),
        ]);
    }
    table
}

fn residuals(before: &[FigureRecord], after: &[FigureRecord]) -> Table {
    let mut table = table(&[
        "figure",
        "published",
        "before",
        "error",
        "after",
        "error",
        "agrees",
    ]);
    for (old, new) in before.iter().zip(after) {
        let (was, is) = (cells(old), cells(new));
        table.add_row([
            new.id.clone(),
            is.published,
            was.modelled,
            was.error,
            is.modelled,
            is.error,
            is.agrees,
        ]);
    }
    table
}

fn errors(records: &[FigureRecord]) -> String {
    let share = |e: Option<f64>| e.map_or_else(|| "-".into(), |e| format!("{:.1}%", e * 100.0));
    let all = summaries(records).into_iter().find(|s| s.paper.is_none());
    all.map_or_else(String::new, |s| {
        let wrong = if s.wrong.is_empty() {
            String::new()
        } else {
            format!(" (not {})", s.wrong.join(", "))
        };
        format!(
            "median error {}, largest {}; {} of {} signs and relations agree{wrong}",
            share(s.median),
            share(s.max),
            s.judged - s.wrong.len(),
            s.judged
        )
    })
}

/// The fits as one JSON document.
pub fn json(fits: &[Fit]) -> Result<String, Failure> {
    let fits: Vec<serde_json::Value> = fits
        .iter()
        .map(|fit| {
            let values: Vec<serde_json::Value> = fit
                .values
                .iter()
                .map(|(target, value)| serde_json::json!({ "number": target.to_string(), "value": value }))
                .collect();
            serde_json::json!({
                "calibration": fit.calibration,
                "provenance": "modelled",
                "papers": fit.papers,
                "parameters": fit.parameters,
                "values": values,
                "before": fit.before,
                "after": fit.after,
                "warnings": fit.warnings,
            })
        })
        .collect();
    let text = serde_json::to_string_pretty(&fits).map_err(Failure::runtime)?;
    Ok(format!("{text}\n"))
}
