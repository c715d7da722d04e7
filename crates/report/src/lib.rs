//! HTML reports: one self-contained file from records, and comparisons of two sets of records.
//!
//! A report works offline and without scripts, in light and dark mode, on screen and on paper. It
//! contains the raw records that it was made from ([`extract_records`]). Where records lack
//! something (no summary because the run was killed, one placement only, no modelled machine), the
//! report says so in the place where a reader would look for it. A run of concurrent sessions has a
//! section of throughputs instead of those about single queries.
//!
//! ```text
//! RecordSet ─┬ view: one run of queries, ordered      ─┬─ section/*, bench/*: text, tables (maud)
//!            ├ bench: memory benchmarks, by axes      ─┼─ chart/*: SVG (plotters)
//!            ├ publication: runs beside publications ─┤
//!            └ validation, tune, cost: model results  ─┘
//!                                                      └─ page: head, style, raw records ─> HTML
//! RecordSet x 2 ── compare: rows, rank test ── text rows for the terminal, or a page
//! ```

mod bench;
mod chart;
mod compare;
mod cost;
mod error;
mod interference;
mod page;
mod publication;
mod restart;
mod section;
mod temp_tables;
mod transactions;
mod tune;
mod validation;
mod view;
mod words;

pub use bench::figure::BenchMetric;
pub use compare::{
    BENCH_TEXT_HEADER, BenchComparison, BenchMean, BenchRow, BenchVerdict, Comparison,
    ComparisonRow, MeanChange, TEXT_HEADER, Verdict, compare, render_comparison,
};
pub use error::ReportError;
pub use page::extract_records;

use maud::html;
use tierloom_record::RecordSet;

/// Options of a report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportOptions {
    /// Title of the document; `None` to derive it from the records.
    pub title: Option<String>,
}

/// Renders all records as one HTML document.
///
/// Each run of queries is an article; then follow published figures beside runs, memory
/// benchmarks, comparisons with publications,
/// weights and prices, with one article for each kind.
///
/// # Errors
/// [`ReportError::Empty`] if there is no record, [`ReportError::Chart`] if a chart could not be
/// drawn and [`ReportError::Records`] if the raw records could not be written into the document.
pub fn render(set: &RecordSet, options: &ReportOptions) -> Result<String, ReportError> {
    if set.is_empty() {
        return Err(ReportError::Empty);
    }
    let made = || match set.runs.first() {
        Some(first) => words::title_of(&first.run),
        None if !set.publications.is_empty() => publication::title_of(set),
        None if !set.benches.is_empty() => bench::title_of(&set.benches),
        None if !set.validations.is_empty() => validation::title_of(&set.validations),
        None if !set.tunes.is_empty() => tune::title_of(&set.tunes),
        None if !set.costs.is_empty() => cost::title_of(&set.costs),
        None if !set.pool_costs.is_empty() => cost::pool::title_of(&set.pool_costs),
        None if !set.restarts.is_empty() => restart::title_of(&set.restarts),
        None if !set.temp_tables.is_empty() => temp_tables::title_of(&set.temp_tables),
        None if !set.transactions.is_empty() => transactions::title_of(&set.transactions),
        None => interference::title_of(&set.interferences),
    };
    let title = options.title.clone().unwrap_or_else(made);
    let views: Vec<view::RunView<'_>> = set
        .runs
        .iter()
        .enumerate()
        .map(|(index, run)| view::RunView::new(index, run))
        .collect();
    let kinds = page::kinds(set);
    let alone = kinds.len() == 1;
    let mut articles = Vec::new();
    for view in &views {
        articles.push(section::run_article(view, views.len())?);
    }
    if !set.publications.is_empty() {
        articles.push(publication::article(set, alone)?);
    }
    if !set.benches.is_empty() {
        articles.push(bench::article(&set.benches, alone)?);
    }
    if !set.validations.is_empty() {
        articles.push(validation::article(&set.validations, alone)?);
    }
    if !set.tunes.is_empty() {
        articles.push(tune::article(&set.tunes, alone)?);
    }
    if !set.costs.is_empty() {
        articles.push(cost::article(&set.costs, alone)?);
    }
    if !set.pool_costs.is_empty() {
        articles.push(cost::pool::article(&set.pool_costs, alone));
    }
    if !set.restarts.is_empty() {
        articles.push(restart::article(&set.restarts, alone));
    }
    if !set.temp_tables.is_empty() {
        articles.push(temp_tables::article(&set.temp_tables, alone));
    }
    if !set.transactions.is_empty() {
        articles.push(transactions::article(&set.transactions, alone));
    }
    if !set.interferences.is_empty() {
        articles.push(interference::article(&set.interferences, alone));
    }
    let body = html! {
        @if views.len() > 1 { (section::contents_of_runs(&views)) }
        @for kind in kinds.iter().skip(1) {
            p { "This report also holds " (kind.count) " of " a href=(format!("#{}", kind.id)) { (kind.of) } "." }
        }
        @for article in &articles { (article) }
    };
    page::document(&title, body, set)
}
