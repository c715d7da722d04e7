//! Reports: one self-contained HTML file from records, and the comparison of two sets of records.
//!
//! A report works offline and without scripts, in light and dark, on a screen and on paper. It holds the raw records it
//! was made from ([`extract_records`]). What a set of records lacks (no summary because the run was killed, one
//! placement only, no modelled machine) is said in words where the reader would look for it.
//!
//! ```text
//!   RecordSet ── view (orders and indexes one run) ──┬─ section/*  words and tables   (maud)
//!                                                    └─ chart/*    SVG                (plotters)
//!                                                         └── page  head, style, raw records -> String
//!   RecordSet x 2 ── compare ── rows, rank test ── text rows for the terminal, or a page
//! ```

mod chart;
mod compare;
mod error;
mod page;
mod section;
mod view;
mod words;

pub use compare::{
    Comparison, ComparisonRow, MeanChange, TEXT_HEADER, Verdict, compare, render_comparison,
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

/// Renders one or more runs as one HTML document.
///
/// # Errors
/// [`ReportError::Empty`] if there is no run, [`ReportError::Chart`] if a chart could not be drawn and
/// [`ReportError::Records`] if the raw records could not be written into the document.
pub fn render(set: &RecordSet, options: &ReportOptions) -> Result<String, ReportError> {
    let first = set.runs.first().ok_or(ReportError::Empty)?;
    let title = options
        .title
        .clone()
        .unwrap_or_else(|| words::title_of(&first.run));
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
    let body = html! {
        @if views.len() > 1 { (section::contents_of_runs(&views)) }
        @for article in &articles { (article) }
    };
    page::document(&title, body, set)
}
