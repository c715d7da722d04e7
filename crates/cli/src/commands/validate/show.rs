//! Formats comparisons as text, and places them into an existing Markdown document.

use crate::commands::agents;
use crate::failure::Failure;
use comfy_table::{Table, presets};
use std::path::Path;
use tierloom_calibrate::{
    Explanation, FigurePoint, Library, Role, cells, distance, heading, headline, is_miss, number,
    percent, summaries, wrong_signs,
};
use tierloom_record::{FigureRecord, FigureSummary};

/// A table per publication and role, then the summary.
///
/// `whole` has the same figures with no term switched off, for a column of its errors.
pub fn tables(
    records: &[FigureRecord],
    whole: Option<&[FigureRecord]>,
    only_misses: bool,
) -> String {
    let mut text = String::new();
    let mut papers: Vec<&str> = Vec::new();
    for record in records {
        if !papers.contains(&record.paper.as_str()) {
            papers.push(&record.paper);
        }
    }
    for paper in papers {
        for role in Role::ALL {
            let of = |r: &FigureRecord| {
                r.paper == paper && r.role == role.name() && (!only_misses || is_miss(r))
            };
            let rows: Vec<usize> = (0..records.len()).filter(|i| of(&records[*i])).collect();
            if !rows.is_empty() {
                text += &format!(
                    "{paper}, {}, published against modelled\n{}\n\n",
                    heading(role),
                    table(records, whole, &rows)
                );
            }
        }
    }
    text + &summary(&summaries(records)) + &headline(records) + &wrong_signs(records)
}

fn table(records: &[FigureRecord], whole: Option<&[FigureRecord]>, rows: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    let mut header = vec!["figure", "what", "published", "modelled", "error", "agrees"];
    if whole.is_some() {
        header.push("error of the whole model");
    }
    header.extend(["nearest fitted figure", ""]);
    table.set_header(header);
    for &row in rows {
        let record = &records[row];
        let c = cells(record);
        let miss = is_miss(record);
        let mut line = vec![
            record.id.clone(),
            record.what.clone(),
            c.published,
            c.modelled,
            c.error,
            c.agrees,
        ];
        if let Some(whole) = whole.and_then(|w| w.get(row)) {
            line.push(cells(whole).error);
        }
        line.push(record.nearest.as_ref().map_or_else(|| "-".into(), distance));
        let remark = record
            .remark
            .as_deref()
            .filter(|_| miss)
            .map(|r| format!(": {r}"));
        line.push(if miss {
            format!("miss{}", remark.unwrap_or_default())
        } else {
            String::new()
        });
        table.add_row(line);
    }
    table
}

fn summary(summaries: &[FigureSummary]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "publication",
        "role",
        "figures",
        "median error",
        "90% below",
        "largest",
        "signs and relations",
    ]);
    for s in summaries {
        table.add_row([
            s.paper.clone().unwrap_or_else(|| "all".into()),
            s.role.clone(),
            s.figures.to_string(),
            percent(s.median),
            percent(s.p90),
            percent(s.max),
            format!("{} of {} agree", s.judged - s.wrong.len(), s.judged),
        ]);
    }
    format!("{table}\n")
}

/// How the model computes a figure's value; `from` are the fitted figures that it follows from.
pub fn explanation(
    figure: &FigurePoint,
    explained: &Explanation,
    from: Option<&[&str]>,
    library: &Library,
) -> String {
    let record = &explained.record;
    let c = cells(record);
    let mut text = format!(
        "{} ({}, role {})\n{}\nmachine {}, modelled\npublished {}, modelled {}, error {}, agrees {}\n",
        record.id,
        record.paper,
        record.role,
        record.what,
        record.machine,
        c.published,
        c.modelled,
        c.error,
        c.agrees
    );
    for (label, line) in [
        ("chosen", record.because.as_ref()),
        ("source", Some(&figure.source)),
        ("remark", record.remark.as_ref()),
    ] {
        if let Some(line) = line.filter(|l| !l.is_empty()) {
            text += &format!("{label}: {line}\n");
        }
    }
    if let Some(nearest) = &record.nearest {
        let far = distance(nearest);
        text += &format!("nearest fitted figure: {}, distance {far}\n", nearest.id);
    }
    match from {
        Some([]) => text += "follows from the form of the model, whatever the numbers are\n",
        Some(fitted) => text += &format!("follows from the fitted {}\n", fitted.join(" and ")),
        None => {}
    }
    for name in figure.constants() {
        if let Some(value) = library.constants.get(name) {
            text += &format!(
                "constant {name} = {} ({}: {})\n",
                number(value.value),
                value.kind,
                value.source
            );
        }
    }
    text += &format!("\n{}\n", phases(explained));
    if explained.terms.is_empty() {
        return text + "no term of the model changes it\n";
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(["without the term", "modelled", "error"]);
    for term in &explained.terms {
        let error = term
            .error
            .map_or_else(|| "-".into(), |e| format!("{:+.1}%", e * 100.0));
        table.add_row([
            term.term.to_owned(),
            format!("{} {}", number(term.modelled), record.unit),
            error,
        ]);
    }
    text + &format!("{table}\n")
}

fn phases(explained: &Explanation) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "phase",
        "Mtuples/s",
        "tiers: GB/s, utilisation, latency",
        "compute",
        "cache",
        "latency",
        "bandwidth",
        "bottleneck",
    ]);
    for phase in &explained.solution.phases {
        let s = &phase.solution;
        let tiers: Vec<String> = s
            .tiers
            .iter()
            .filter(|t| t.bandwidth_gbps > 0.0)
            .map(|t| {
                format!(
                    "{} {} GB/s, {:.0}%, {:.0} ns",
                    t.name,
                    number(t.bandwidth_gbps),
                    t.utilisation * 100.0,
                    t.latency_ns
                )
            })
            .collect();
        let share = |x: f64| format!("{:.0}%", x * 100.0);
        table.add_row([
            phase.phase.clone(),
            number(s.tuples_per_s / 1e6),
            tiers.join("\n"),
            share(s.shares.compute),
            share(s.shares.cache),
            share(s.shares.latency),
            share(s.shares.bandwidth),
            s.bottleneck.to_string(),
        ]);
    }
    table
}

/// The parts written into a document: the tables, and the sentences that summarize them.
pub struct Parts<'a> {
    /// Replaces the text between `<!-- validate -->` and `<!-- /validate -->`, or is the whole
    /// document.
    pub tables: &'a str,
    /// Replaces the text between `<!-- validate headline -->` and `<!-- /validate headline -->`.
    pub headline: &'a str,
}

/// The document at `path` with the parts replaced, or the tables alone if it has no marks or does
/// not exist.
pub fn into_document(path: &Path, parts: &Parts<'_>) -> Result<String, Failure> {
    let (tables, headline) = (wrapped(parts.tables), wrapped(parts.headline));
    if !path.exists() {
        return Ok(tables);
    }
    let old = agents::read(path)?;
    let mut new = old.clone();
    let mut marked = false;
    for (name, part) in [("validate", &tables), ("validate headline", &headline)] {
        if let Some(changed) = between(&new, name, part)
            .map_err(|problem| Failure::input(format!("{}: {problem}", path.display())))?
        {
            (new, marked) = (changed, true);
        }
    }
    Ok(if marked { new } else { tables })
}

/// `text` with its prose wrapped at 100 columns; rows of tables stay on one line.
fn wrapped(text: &str) -> String {
    let lines = text.lines().map(|line| {
        if line.starts_with(['|', '#', '<']) {
            return line.to_owned();
        }
        let indent = if line.starts_with("* ") { "  " } else { "" };
        let options = textwrap::Options::new(100)
            .subsequent_indent(indent)
            .break_words(false)
            .word_separator(textwrap::WordSeparator::AsciiSpace)
            .word_splitter(textwrap::WordSplitter::NoHyphenation);
        textwrap::fill(line, options)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// `text` with `part` between the marks called `name`; `None` if it has no such marks.
fn between(text: &str, name: &str, part: &str) -> Result<Option<String>, String> {
    let (begin, end) = (format!("<!-- {name} -->"), format!("<!-- /{name} -->"));
    let lines: Vec<&str> = text.lines().collect();
    let line_at = |mark: &str| lines.iter().position(|l| l.trim() == mark);
    match (line_at(&begin), line_at(&end)) {
        (Some(first), Some(last)) if first < last => {
            let (head, tail) = (lines[..=first].join("\n"), lines[last..].join("\n"));
            Ok(Some(format!("{head}\n\n{}\n\n{tail}\n", part.trim())))
        }
        (None, None) => Ok(None),
        // A single mark is refused: the text to be replaced has no end then.
        _ => Err(format!(
            "it needs both lines, {begin} and then {end}, or neither"
        )),
    }
}
