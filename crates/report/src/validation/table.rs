//! The table of all published figures.

use super::errors::{GROUPS, percent};
use crate::bench::OPEN_UP_TO;
use crate::section::tag;
use crate::words;
use maud::{Markup, html};
use tierloom_record::{FigureRecord, ValidationRecord};

/// Absolute error above which a figure is marked.
const MARKED_BEYOND: f64 = 0.10;

pub(super) fn section(record: &ValidationRecord, id: &str) -> Markup {
    // Figures with a role that this version does not know must not disappear.
    let other = |f: &&FigureRecord| GROUPS.iter().all(|(role, _)| *role != f.role);
    html! {
        section id=(format!("{id}-figures")) {
            h2 { "Figures" }
            @for (role, name) in GROUPS {
                (part(record, name, record.figures.iter().filter(|f| f.role == role).collect()))
            }
            (part(record, "Other figures", record.figures.iter().filter(other).collect()))
        }
    }
}

fn part(record: &ValidationRecord, name: &str, figures: Vec<&FigureRecord>) -> Markup {
    let mut papers: Vec<&str> = figures.iter().map(|f| f.paper.as_str()).collect();
    papers.sort_unstable();
    papers.dedup();
    let of = |paper: &str| -> Vec<&FigureRecord> {
        let own = figures.iter().filter(|f| f.paper == paper);
        own.copied().collect()
    };
    html! {
        @if figures.len() > OPEN_UP_TO {
            h3 { (name) }
            @for paper in papers {
                details { summary { (paper) ": " (words::figures(of(paper).len())) } (table(record, &of(paper))) }
            }
        } @else if !figures.is_empty() {
            h3 { (name) }
            (table(record, &figures))
        }
    }
}

fn table(record: &ValidationRecord, figures: &[&FigureRecord]) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr { th { "figure" } th { "machine" } th.n { "published" } th.n { "modelled" } th.n { "error" } th { "agrees" } th { "what the model lacks" } } }
                tbody { @for figure in figures { (row(record, figure)) } }
            }
        }
    }
}

fn row(record: &ValidationRecord, figure: &FigureRecord) -> Markup {
    let off = figure.error.is_some_and(|e| e.abs() > MARKED_BEYOND);
    html! {
        tr {
            td { (figure.what) span.sub { (figure.paper) " · " code.id { (figure.id) } } }
            td { (figure.machine) }
            td.n { (published(figure)) }
            td.n { (value(figure.modelled, &figure.unit)) " " (tag(record.provenance)) }
            td.n {
                @match figure.error {
                    Some(error) if off => span class="flag doubtful" { (signed(error)) },
                    Some(error) => (signed(error)),
                    None => "-",
                }
            }
            td {
                @match figure.agrees {
                    Some(true) => "yes",
                    Some(false) => span class="flag invalid" { "no" },
                    None => "",
                }
            }
            td.remarks {
                (figure.remark.as_deref().unwrap_or_default())
                @if let Some(because) = &figure.because { span.sub { "Chosen with it in view: " (because) } }
            }
        }
    }
}

/// The published value, the published relation, or both.
pub(crate) fn published(figure: &FigureRecord) -> String {
    let unit = &figure.unit;
    match (figure.published, &figure.relation) {
        (Some(x), Some(relation)) => format!("{} ({relation})", value(x, unit)),
        (Some(x), None) => value(x, unit),
        (None, Some(relation)) => format!("{relation} {unit}"),
        (None, None) => "-".into(),
    }
}

/// A figure whose sign or relation is wrong, as text.
pub(super) fn contradiction(figure: &FigureRecord) -> String {
    let lacks = figure.remark.as_ref().map(|r| format!(" Known: {r}"));
    format!(
        "{} ({}, {}): published {}, modelled {}.{}",
        figure.what,
        figure.paper,
        figure.id,
        published(figure),
        value(figure.modelled, &figure.unit),
        lacks.unwrap_or_default()
    )
}

/// A number with its unit.
pub(crate) fn value(x: f64, unit: &str) -> String {
    let number = match x.abs() {
        v if v >= 100.0 => words::ms(x),
        v if v >= 10.0 => format!("{x:.1}"),
        v if v >= 0.01 || v == 0.0 => format!("{x:.2}"),
        _ => format!("{x:.2e}"),
    };
    match unit {
        "" => number,
        "%" => format!("{number}%"),
        unit => format!("{number} {unit}"),
    }
}

fn signed(error: f64) -> String {
    let sign = if error < 0.0 { "-" } else { "+" };
    format!("{sign}{}", percent(error.abs()))
}
