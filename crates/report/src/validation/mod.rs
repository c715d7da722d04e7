//! Comparisons of published and modelled figures: errors, wrong signs, and every figure.
//!
//! Published values are measurements of others and are always called *published*; only the values
//! computed here are called *modelled*. Roles are kept apart everywhere, because an error of a
//! figure that was used in a fit says little about the model.

mod charts;
mod errors;
mod table;

use crate::section::tag;
use crate::{ReportError, words};
use errors::{CHECK, Errors, GROUPS};
use maud::{Markup, html};
pub(crate) use table::{published, value};
use tierloom_record::{FigureRecord, Provenance, ValidationRecord};

const SECTIONS: [(&str, &str); 4] = [
    ("summary", "Summary"),
    ("scatter", "Published and modelled"),
    ("curves", "Curves"),
    ("figures", "Figures"),
];

/// All comparisons with publications as one article; `alone` if the document contains nothing else.
pub(crate) fn article(records: &[ValidationRecord], alone: bool) -> Result<Markup, ReportError> {
    let mut parts = Vec::new();
    for (index, record) in records.iter().enumerate() {
        parts.push(comparison(record, &format!("v{index}"), records.len() > 1)?);
    }
    Ok(html! {
        article #v {
            @if !alone { h2 { "The model against publications" } }
            @for part in &parts { (part) }
        }
    })
}

/// The title of a report on such comparisons.
pub(crate) fn title_of(records: &[ValidationRecord]) -> String {
    let figures = records.iter().map(|r| r.figures.len()).max().unwrap_or(0);
    format!(
        "The tier model against {} published {}",
        words::count(figures as u64),
        if figures == 1 { "figure" } else { "figures" }
    )
}

fn comparison(
    record: &ValidationRecord,
    id: &str,
    is_one_of_many: bool,
) -> Result<Markup, ReportError> {
    let scatter = charts::scatter(record, id)?;
    let curves = charts::curves(record, id)?;
    Ok(html! {
        @if is_one_of_many { h2 { "Made " (record.made_at) } }
        nav aria-label="Sections" {
            @for (name, title) in SECTIONS { a href=(format!("#{id}-{name}")) { (title) } }
            a href="#records" { "Raw records" }
        }
        (summary(record, id))
        (scatter)
        (curves)
        (table::section(record, id))
    })
}

fn summary(record: &ValidationRecord, id: &str) -> Markup {
    let wrong: Vec<&FigureRecord> = record
        .figures
        .iter()
        .filter(|f| f.agrees == Some(false))
        .collect();
    let checks = Errors::of(record.figures.iter().filter(|f| f.role == CHECK));
    html! {
        section id=(format!("{id}-summary")) {
            h2 { "Summary" }
            p.note { (words::figures(record.figures.len())) ", made " (record.made_at) " with Tierloom " (record.tool_version) "." }
            @if !record.terms_off.is_empty() {
                p.box.warn { "Terms of the model that were switched off: " (words::list(&record.terms_off)) ". This shows what they explain, not how good the model is." }
            }
            ul.findings {
                @for (role, name) in GROUPS { (finding(record, role, name)) }
                @if checks.relations > 0 {
                    li { (checks.relations - checks.broken) " of " (checks.relations) " signs and relations of checks agree with the publications." }
                }
            }
            @if !wrong.is_empty() {
                div.box.bad {
                    p { b { "The model contradicts a publication in " (words::figures(wrong.len())) "." } }
                    ul { @for figure in &wrong { li { (table::contradiction(figure)) } } }
                }
            }
            (by_paper(record))
            p.note {
                "Only checks say how good the model is. Published figures are other people's measurements. All others here are " (tag(Provenance::Modelled)) ": computed by the tier model from a machine profile. "
                "Error: modelled over published, minus 1; gains in per cent are compared as speed-ups (+72% is 1.72). The 90th percentile is the smallest error that nine of ten figures do not exceed."
            }
        }
    }
}

fn finding(record: &ValidationRecord, role: &str, name: &str) -> Markup {
    let errors = Errors::of(record.figures.iter().filter(|f| f.role == role));
    html! {
        @if let Some(e) = errors.spread() {
            li {
                (name) ": half of " (words::figures(errors.absolute.len())) " are within " (errors::percent(e.median)) " of what was published, nine of ten within " (errors::percent(e.p90)) "; the worst is off by " (errors::percent(e.max)) "."
            }
        } @else if errors.figures > 0 {
            li { (name) ": no figure with a value." }
        }
    }
}

/// One row per role and paper, and a total per role.
fn by_paper(record: &ValidationRecord) -> Markup {
    let mut papers: Vec<&str> = record.figures.iter().map(|f| f.paper.as_str()).collect();
    papers.sort_unstable();
    papers.dedup();
    let of = |role: &str, paper: Option<&str>| {
        let figures = record.figures.iter().filter(|f| f.role == role);
        Errors::of(figures.filter(|f| paper.is_none_or(|p| p == f.paper)))
    };
    html! {
        div.scroll {
            table {
                thead { tr { th { "role" } th { "paper" } th.n { "figures" } th.n { "median error" } th.n { "90th percentile" } th.n { "largest" } th.n { "signs and relations that agree" } } }
                tbody {
                    @for (role, _) in GROUPS {
                        @for paper in &papers { (row(role, paper, &of(role, Some(paper)), false)) }
                        (row(role, "all", &of(role, None), true))
                    }
                }
            }
        }
    }
}

fn row(role: &str, paper: &str, errors: &Errors, total: bool) -> Markup {
    let cell = |of: fn(&errors::ErrorQuantiles) -> f64| {
        let value = errors.spread().map(|s| errors::percent(of(&s)));
        value.unwrap_or_else(|| "-".into())
    };
    html! {
        @if errors.figures > 0 {
            tr.total[total] {
                th { (role) } td { (paper) }
                td.n { (errors.figures) }
                td.n { (cell(|s| s.median)) } td.n { (cell(|s| s.p90)) } td.n { (cell(|s| s.max)) }
                td.n { @if errors.relations > 0 { (errors.relations - errors.broken) " of " (errors.relations) } @else { "-" } }
            }
        }
    }
}
