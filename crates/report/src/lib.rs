//! Reports: one self-contained HTML file from records, and the comparison of two sets of records.
//!
//! A report works offline and without scripts, in light and dark, on a screen and on paper. It holds the raw records it
//! was made from ([`extract_records`]). What a set of records lacks (no summary because the run was killed, one
//! placement only, no modelled machine) is said in words where the reader would look for it.
//!
//! ```text
//!   RecordSet ─┬ view  (one run of queries, ordered)        ─┬─ section/*, bench/*  words and tables   (maud)
//!              └ bench (memory benchmarks, grouped by axes) ─┴─ chart/*             SVG                (plotters)
//!                                                                 └── page  head, style, raw records -> String
//!   RecordSet x 2 ── compare ── rows, rank test ── text rows for the terminal, or a page
//! ```

mod bench;
mod chart;
mod compare;
mod error;
mod page;
mod section;
mod view;
mod words;

pub use bench::figure::Quantity;
pub use compare::{
    BENCH_TEXT_HEADER, BenchComparison, BenchMean, BenchRow, BenchVerdict, Comparison,
    ComparisonRow, MeanChange, TEXT_HEADER, Verdict, compare, render_comparison,
};
pub use error::ReportError;
pub use page::extract_records;

use maud::html;
use tierloom_record::RecordSet;

/// How a report is made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportOptions {
    /// The document's title; without one it is made from the first run.
    pub title: Option<String>,
}

/// Renders all records as one HTML document: runs of queries first, each as an article, then memory benchmarks as one.
///
/// # Errors
/// [`ReportError::Empty`] if there is no record, [`ReportError::Chart`] if a chart could not be drawn and
/// [`ReportError::Records`] if the raw records could not be written into the document.
pub fn render(set: &RecordSet, options: &ReportOptions) -> Result<String, ReportError> {
    if set.is_empty() {
        return Err(ReportError::Empty);
    }
    let made = || match set.runs.first() {
        Some(first) => words::title_of(&first.run),
        None => bench::title_of(&set.benches),
    };
    let title = options.title.clone().unwrap_or_else(made);
    let views: Vec<view::RunView<'_>> = set
        .runs
        .iter()
        .enumerate()
        .map(|(index, run)| view::RunView::new(index, run))
        .collect();
    let mut articles = Vec::new();
    for view in &views {
        articles.push(section::run_article(view, views.len())?);
    }
    if !set.benches.is_empty() {
        articles.push(bench::article(&set.benches, views.is_empty())?);
    }
    let body = html! {
        @if views.len() > 1 { (section::contents_of_runs(&views)) }
        @if !views.is_empty() && !set.benches.is_empty() {
            p { "This report also holds " (words::runs(set.benches.len())) " of " a href="#b" { "memory benchmarks" } "." }
        }
        @for article in &articles { (article) }
    };
    page::document(&title, body, set)
}
