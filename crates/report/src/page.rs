//! The HTML document around the articles: head, style, script, raw records.

use crate::{ReportError, words};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use tierloom_record::{RecordSet, RecordWriter, RunSet};

// Both are embedded: a report must not depend on other files.
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Content security policy: the browser itself then refuses anything from outside the file.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

const OPENING: &str = "<script type=\"application/jsonl\" id=\"tierloom-records\">";

/// Puts a body into a self-contained document that contains the records of `set`.
pub(crate) fn document(title: &str, body: Markup, set: &RecordSet) -> Result<String, ReportError> {
    let records = embedded_lines(set)?;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content=(concat!("tierloom ", env!("CARGO_PKG_VERSION")));
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header.page {
                    p.brand { "Tierloom report" }
                    h1 { (title) }
                    button #theme type="button" hidden { "Light / dark" }
                }
                main { (body) (raw_section(set, &records)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    Ok(page.into_string())
}

/// One kind of records in a document.
pub(crate) struct Kind {
    /// `id` of its article; empty for runs of queries, which have an article each.
    pub id: &'static str,
    /// Number with noun ("3 runs").
    pub count: String,
    /// What is counted ("memory benchmarks").
    pub of: &'static str,
}

/// The kinds of records in `set`, in reading order.
pub(crate) fn kinds(set: &RecordSet) -> Vec<Kind> {
    let many = |n: usize, one: &str| {
        let plural = if n == 1 { "" } else { "s" };
        format!("{} {one}{plural}", words::count(n as u64))
    };
    let kind = |id, n, one, of| {
        (n > 0).then(|| Kind {
            id,
            count: many(n, one),
            of,
        })
    };
    let all = [
        kind("", set.runs.len(), "run", "queries"),
        kind(
            "p",
            set.publications.len(),
            "comparison",
            "runs with publications",
        ),
        kind("b", set.benches.len(), "run", "memory benchmarks"),
        kind(
            "v",
            set.validations.len(),
            "comparison",
            "the model with publications",
        ),
        kind("t", set.tunes.len(), "set", "weights"),
        kind("c", set.costs.len(), "comparison", "prices"),
        kind("o", set.pool_costs.len(), "comparison", "prices of pools"),
        kind("s", set.restarts.len(), "set", "starts of processes"),
        kind("m", set.temp_tables.len(), "script", "temporary tables"),
        kind("x", set.transactions.len(), "run", "transactions"),
        kind("i", set.interferences.len(), "set", "hosts at once"),
    ];
    all.into_iter().flatten().collect()
}

fn raw_section(set: &RecordSet, records: &str) -> Markup {
    let count = |of: fn(&RunSet) -> usize| -> usize { set.runs.iter().map(of).sum() };
    let (queries, streams) = (count(|r| r.queries.len()), count(|r| r.throughputs.len()));
    let figures = match (queries, streams) {
        (queries, 0) => format!("{queries} query records"),
        (0, streams) => format!("{streams} throughput records"),
        (queries, streams) => format!("{queries} query and {streams} throughput records"),
    };
    let held: Vec<String> = kinds(set)
        .iter()
        .map(|kind| match kind.id {
            "" => {
                format!("the {figures} that it was made from, with their run records")
            }
            _ => format!("the records of {} of {}", kind.count, kind.of),
        })
        .collect();
    html! {
        section #records {
            h2 { "Raw records" }
            p {
                "This file holds " (words::list(&held)) ", as JSON lines (" (words::bytes(records.len() as u64)) "). "
                code { "tierloom report" } " reads them again."
            }
            p { button #save type="button" hidden { "Save the records" } }
            noscript { p { "Without scripts: the records are in this file's source, in the element " code { "tierloom-records" } "." } }
            (PreEscaped(OPENING)) (PreEscaped("\n")) (PreEscaped(records)) (PreEscaped("</script>"))
        }
    }
}

/// JSON lines that cannot end the element that contains them.
///
/// In JSON, `<` occurs only in strings, where it may be written as an escape.
fn embedded_lines(set: &RecordSet) -> Result<String, ReportError> {
    let mut bytes = Vec::new();
    let mut writer = RecordWriter::new(&mut bytes, "the report");
    for record in set.to_records() {
        writer.write(&record)?;
    }
    // JSON is valid UTF-8, so the conversion loses nothing.
    Ok(String::from_utf8_lossy(&bytes).replace('<', "\\u003c"))
}

/// Extracts the raw records of a report as JSON lines; `None` if the text has none.
///
/// [`RecordSet::parse`] reads the result.
pub fn extract_records(html: &str) -> Option<String> {
    let start = html.find(OPENING)? + OPENING.len();
    let length = html[start..].find("</script>")?;
    Some(html[start..start + length].trim_start().to_string())
}
