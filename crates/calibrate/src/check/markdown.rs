//! Tables and sentences for reports.

use super::distance::HARD;
use super::is_miss;
use super::summary::{EASY_CHECK, FEW_CHECKS, HARD_CHECK, few_checks, median, summaries};
use crate::figures::{FigureFile, Role};
use std::fmt::Write;
use tierloom_record::{FigureRecord, FigureSummary, NearestFigure};

/// The comparison as Markdown: the summary, then a table per publication and role, with misses
/// marked, and reasons and remarks below.
pub fn markdown(records: &[FigureRecord], files: &[FigureFile]) -> String {
    let mut text = format!(
        "### Summary\n\n{}\n{}",
        headline(records),
        wrong_signs(records)
    );
    text += "\n| publication | role | figures | median error | 90% below | largest | signs and relations |\n|---|---|---|---|---|---|---|\n";
    for s in summaries(records) {
        let right = s.judged - s.wrong.len();
        let paper = s.paper.as_deref().unwrap_or("**all**");
        let _ = writeln!(
            text,
            "| {paper} | {} | {} | {} | {} | {} | {right} of {} agree |",
            s.role,
            s.figures,
            percent(s.median),
            percent(s.p90),
            percent(s.max),
            s.judged,
        );
    }
    for file in files {
        for role in Role::ALL {
            let of: Vec<&FigureRecord> = records
                .iter()
                .filter(|r| r.paper == file.paper && r.role == role.name())
                .collect();
            if !of.is_empty() {
                let _ = write!(
                    text,
                    "\n### {}: {}\n\n{}\n\n",
                    file.paper,
                    heading(role),
                    file.citation
                );
                text += &table(&of);
            }
        }
    }
    text
}

/// Heading of the table of a role.
pub fn heading(role: Role) -> &'static str {
    match role {
        Role::Check => "checks",
        Role::Fitted => "figures that a fit used",
        Role::Chosen => "figures that something was chosen by hand for",
        Role::Implied => "figures that follow from fitted ones",
    }
}

/// Result of the checks in sentences: errors, signs that agree, and publications with few checks.
pub fn headline(records: &[FigureRecord]) -> String {
    let summaries = summaries(records);
    let mut text = match checks(&summaries) {
        None => "None of these figures is a check.\n".to_owned(),
        Some(s) => {
            let off = match s.median {
                Some(_) => format!(
                    "half of those with a value are off by at most {}, nine of ten by at most {}, the worst by {}",
                    percent(s.median),
                    percent(s.p90),
                    percent(s.max)
                ),
                None => "none of them has a value".into(),
            };
            let right = s.judged - s.wrong.len();
            format!(
                "{} of {} figures are checks: {off}; {right} of {} signs and relations agree.\n",
                s.figures,
                records.len(),
                s.judged
            )
        }
    };
    text += &by_distance(&summaries);
    let few = few_checks(records);
    if !few.is_empty() {
        let each: Vec<String> = few.iter().map(|(p, n)| format!("{p} ({n})")).collect();
        let _ = writeln!(
            text,
            "Publications with fewer than {FEW_CHECKS} checks, which say little about the model: {}.",
            each.join(", ")
        );
    }
    text
}

/// A line that tells easy checks from hard ones; empty without fitted figures.
fn by_distance(summaries: &[FigureSummary]) -> String {
    let of = |role: &str| {
        summaries
            .iter()
            .find(|s| s.paper.is_none() && s.role == role)
    };
    let part = |s: &FigureSummary, what: &str| {
        let wrong = match s.wrong.len() {
            0 => String::new(),
            n => format!(", {n} of {} signs and relations wrong", s.judged),
        };
        format!(
            "{} are {what}: median error {}{wrong}",
            s.figures,
            percent(s.median)
        )
    };
    let hard = format!("hard (at least {HARD} away from every figure that a fit used)");
    let parts: Vec<String> = [(EASY_CHECK, "easy"), (HARD_CHECK, hard.as_str())]
        .into_iter()
        .filter_map(|(role, what)| of(role).map(|s| part(s, what)))
        .collect();
    match parts.join("; ") {
        text if text.is_empty() => text,
        text => format!("Of the checks, {text}.\n"),
    }
}

/// A line with the checks whose sign or relation is wrong; empty if there are none.
pub fn wrong_signs(records: &[FigureRecord]) -> String {
    let summaries = summaries(records);
    match checks(&summaries).filter(|s| !s.wrong.is_empty()) {
        None => String::new(),
        Some(s) => format!(
            "Checks with a wrong sign or relation: {}.\n",
            s.wrong.join(", ")
        ),
    }
}

fn checks(summaries: &[FigureSummary]) -> Option<&FigureSummary> {
    summaries
        .iter()
        .find(|s| s.paper.is_none() && s.role == Role::Check.name())
}

/// A share as per cent with one decimal; "-" for `None`.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |e| format!("{:.1}%", e * 100.0))
}

/// One row per figure; the points of a curve share one.
fn table(of: &[&FigureRecord]) -> String {
    let mut text = String::from(
        "| figure | what | published | modelled | error | agrees | nearest fitted figure |\n|---|---|---|---|---|---|---|\n",
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
        // A series with a single selected point is shown like a single figure.
        if points.len() < 2 {
            text += &row(r);
        } else if !shown.contains(&r.series.as_str()) {
            shown.push(&r.series);
            text += &curve(r, &points);
        }
    }
    text + &chosen(of) + &misses(of)
}

/// Known reasons for misses, with the figures and curves of each reason on one line.
fn misses(of: &[&FigureRecord]) -> String {
    let missed: Vec<&FigureRecord> = of.iter().copied().filter(|r| is_miss(r)).collect();
    reasons("Where it misses", &missed, |r| r.remark.as_deref())
}

/// What was chosen by hand with figures in view.
fn chosen(of: &[&FigureRecord]) -> String {
    reasons("What was chosen", of, |r| r.because.as_deref())
}

/// Figures and curves grouped by reason, under a title; empty if there are none.
fn reasons<'a>(
    title: &str,
    of: &[&'a FigureRecord],
    why: impl Fn(&'a FigureRecord) -> Option<&'a str>,
) -> String {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for record in of {
        let Some(reason) = why(record) else { continue };
        let name = match record.series.as_str() {
            "" => record.id.as_str(),
            series => series,
        };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    if reasons.is_empty() {
        return String::new();
    }
    let line = |(reason, names): &(&str, Vec<&str>)| format!("* {}: {reason}\n", names.join(", "));
    let lines: Vec<String> = reasons.iter().map(line).collect();
    format!("\n{title}:\n\n{}", lines.concat())
}

fn row(r: &FigureRecord) -> String {
    let cells = cells(r);
    let mark = if is_miss(r) { " **miss**" } else { "" };
    format!(
        "| {} | {} | {} | {} | {}{mark} | {} | {} |\n",
        r.id,
        r.what.replace('|', "\\|"),
        cells.published,
        cells.modelled,
        cells.error,
        cells.agrees,
        nearest(&[r])
    )
}

/// A curve in one row: ranges, median and largest error, number of points missed.
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
    let error = match (median(&sizes), errors.last()) {
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
        "| {}, {} points | {} | {published} | {} | {error}{mark} | {agrees} | {} |\n",
        first.series,
        points.len(),
        first.what.replace('|', "\\|"),
        range(points.iter().map(|p| p.modelled).collect()),
        nearest(points)
    )
}

/// Distance to the nearest fitted figure, its name and what differs; for several points the ends
/// of the distances.
fn nearest(points: &[&FigureRecord]) -> String {
    let known = points.iter().filter_map(|p| p.nearest.as_ref());
    let mut known: Vec<&NearestFigure> = known.collect();
    known.sort_by(|a, b| a.distance.total_cmp(&b.distance));
    match known[..] {
        [] => "-".into(),
        [one] => format!("{}, {}", distance(one), one.id),
        [first, .., last] => format!("{:.2} to {}", first.distance, distance(last)),
    }
}

/// "1.25 (machine, threads)".
pub fn distance(nearest: &NearestFigure) -> String {
    let differs = match nearest.differs.join(", ") {
        text if text.is_empty() => text,
        text => format!(" ({text})"),
    };
    format!("{:.2}{differs}", nearest.distance)
}

/// Table cells that all formats share.
pub struct Cells {
    /// Published value or relation with its unit.
    pub published: String,
    /// Modelled value with its unit.
    pub modelled: String,
    /// Signed error in per cent (in percentage points for shares), or "-".
    pub error: String,
    /// "yes", "no" or "-": whether the sign or relation agrees.
    pub agrees: String,
}

/// Formats the numbers of a figure.
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

/// Formats a number with at most four significant digits, without exponent.
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
