//! Tables for documents.

use super::summary::quantile;
use super::{is_miss, summaries};
use crate::figures::FigureFile;
use std::fmt::Write;
use tierloom_record::FigureRecord;

/// The comparison as Markdown: the summary, then a table per publication and role, misses marked, remarks below.
pub fn markdown(records: &[FigureRecord], files: &[FigureFile]) -> String {
    let mut text = String::from("### Summary\n\n");
    text += "| publication | role | figures | median error | 90% below | largest | signs and relations |\n|---|---|---|---|---|---|---|\n";
    for s in summaries(records) {
        let share = |e: Option<f64>| e.map_or_else(|| "-".into(), |e| format!("{:.1}%", e * 100.0));
        let right = s.judged - s.wrong.len();
        let paper = s.paper.as_deref().unwrap_or("**all**");
        let _ = writeln!(
            text,
            "| {paper} | {} | {} | {} | {} | {} | {right} of {} agree |",
            s.role,
            s.figures,
            share(s.median),
            share(s.p90),
            share(s.max),
            s.judged,
        );
    }
    for file in files {
        for role in ["calibration", "check"] {
            let of: Vec<&FigureRecord> = records
                .iter()
                .filter(|r| r.paper == file.paper && r.role == role)
                .collect();
            if !of.is_empty() {
                let _ = write!(
                    text,
                    "\n### {}: {role} figures\n\n{}\n\n",
                    file.paper, file.citation
                );
                text += &table(&of);
            }
        }
    }
    text
}

/// A row per figure; the points of a curve share one.
fn table(of: &[&FigureRecord]) -> String {
    let mut text = String::from(
        "| figure | what | published | modelled | error | agrees |\n|---|---|---|---|---|---|\n",
    );
    let mut shown: Vec<&str> = Vec::new();
    for r in of {
        let points: Vec<&FigureRecord> = if r.series.is_empty() {
            Vec::new()
        } else {
            of.iter()
                .filter(|p| p.series == r.series)
                .copied()
                .collect()
        };
        if points.len() < 2 {
            text += &row(r);
        } else if !shown.contains(&r.series.as_str()) {
            shown.push(&r.series);
            text += &curve(r, &points);
        }
    }
    text + &misses(of)
}

/// Why the model misses, where that is known: figures and curves with one reason in one line.
fn misses(of: &[&FigureRecord]) -> String {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for missed in of.iter().filter(|r| is_miss(r)) {
        let Some(reason) = missed.remark.as_deref() else {
            continue;
        };
        let name = if missed.series.is_empty() {
            &missed.id
        } else {
            &missed.series
        };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) if names.contains(&name.as_str()) => {}
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    if reasons.is_empty() {
        return String::new();
    }
    let line = |(reason, names): &(&str, Vec<&str>)| format!("* {}: {reason}\n", names.join(", "));
    let lines: Vec<String> = reasons.iter().map(line).collect();
    format!("\nWhere it misses:\n\n{}", lines.concat())
}

fn row(r: &FigureRecord) -> String {
    let cells = cells(r);
    let mark = if is_miss(r) { " **miss**" } else { "" };
    format!(
        "| {} | {} | {} | {} | {}{mark} | {} |\n",
        r.id,
        r.what.replace('|', "\\|"),
        cells.published,
        cells.modelled,
        cells.error,
        cells.agrees
    )
}

/// A curve in one row: ranges, median and largest error, how many points are missed.
fn curve(first: &FigureRecord, points: &[&FigureRecord]) -> String {
    let range = |of: Vec<f64>| {
        let low = of.iter().copied().fold(f64::INFINITY, f64::min);
        let high = of.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        format!("{} to {} {}", number(low), number(high), first.unit)
    };
    let published: Vec<f64> = points.iter().filter_map(|p| p.published).collect();
    let published = if published.is_empty() {
        "-".into()
    } else {
        range(published)
    };
    let mut errors: Vec<f64> = points.iter().filter_map(|p| p.error).collect();
    errors.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let sizes: Vec<f64> = errors.iter().map(|e| e.abs()).collect();
    let error = match (quantile(&sizes, 0.5), errors.last()) {
        (Some(median), Some(largest)) => format!(
            "median {:.1}%, largest {:+.1}%",
            median * 100.0,
            largest * 100.0
        ),
        _ => "-".into(),
    };
    let missed = points.iter().filter(|p| is_miss(p)).count();
    let mark = match missed {
        0 => String::new(),
        _ => format!(", **{missed} of {} miss**", points.len()),
    };
    let judged = points.iter().filter(|p| p.agrees.is_some()).count();
    let agrees = match judged {
        0 => "-".to_owned(),
        _ => {
            let right = points.iter().filter(|p| p.agrees == Some(true)).count();
            format!("{right} of {judged}")
        }
    };
    format!(
        "| {}, {} points | {} | {published} | {} | {error}{mark} | {agrees} |\n",
        first.series,
        points.len(),
        first.what.replace('|', "\\|"),
        range(points.iter().map(|p| p.modelled).collect()),
    )
}

/// The cells of a figure that tables have in common.
pub struct Cells {
    /// Published value or relation with the unit.
    pub published: String,
    /// Modelled value with the unit.
    pub modelled: String,
    /// Signed error in per cent (points for shares), or "-".
    pub error: String,
    /// "yes", "no" or "-".
    pub agrees: String,
}

/// The numbers of a figure as text.
pub fn cells(r: &FigureRecord) -> Cells {
    let published = match (r.published, &r.relation) {
        (Some(value), None) => format!("{} {}", number(value), r.unit),
        (Some(value), Some(relation)) => format!("{} ({relation}) {}", number(value), r.unit),
        (None, relation) => format!("{} {}", relation.as_deref().unwrap_or("-"), r.unit),
    };
    Cells {
        published,
        modelled: format!("{} {}", number(r.modelled), r.unit),
        error: r
            .error
            .map_or_else(|| "-".into(), |e| format!("{:+.1}%", e * 100.0)),
        agrees: r
            .agrees
            .map_or("-", |a| if a { "yes" } else { "no" })
            .into(),
    }
}

/// Four significant digits at most, without exponent.
pub fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    let text = format!("{value:.*}", digits.clamp(0, 6) as usize);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_keep_four_digits_and_no_trailing_zeros() {
        let texts = [252.9, 41.3, 0.12345, 1234.56, -20.0, 0.0, 5.0];
        let shown: Vec<String> = texts.into_iter().map(number).collect();
        assert_eq!(shown, ["252.9", "41.3", "0.1235", "1235", "-20", "0", "5"]);
    }
}
