//! Tables of published figures: relations with their verdict, and values.

use crate::bench::OPEN_UP_TO;
use crate::section::{missing, tag};
use crate::validation::{published, value};
use crate::words;
use maud::{Markup, html};
use tierloom_record::findings::{MeasuredRange, PublishedAnswer, PublishedVerdict};
use tierloom_record::{Provenance, PublicationRecord};

/// Figures with a relation or a sign: whether it holds here.
pub(super) fn relations(record: &PublicationRecord, answers: &[PublishedAnswer<'_>]) -> Markup {
    let judged: Vec<&PublishedAnswer<'_>> = answers.iter().filter(|a| a.is_judged()).collect();
    if judged.is_empty() {
        return missing("No relation or sign was published for these runs.");
    }
    let rows = html! { @for answer in &judged { (row(record, answer, true)) } };
    table(&rows, true)
}

/// Figures that are values of the publication's machine.
pub(super) fn values(record: &PublicationRecord, answers: &[PublishedAnswer<'_>]) -> Markup {
    let has_figure = |a: &&PublishedAnswer<'_>| !a.is_judged() && a.point.figure.is_some();
    let valued: Vec<&PublishedAnswer<'_>> = answers.iter().filter(has_figure).collect();
    if valued.is_empty() {
        return missing("No value was published for these runs.");
    }
    let rows = html! { @for answer in &valued { (row(record, answer, false)) } };
    html! {
        @if valued.len() > OPEN_UP_TO {
            details { summary { (words::figures(valued.len())) } (table(&rows, false)) }
        } @else { (table(&rows, false)) }
    }
}

fn table(rows: &Markup, judged: bool) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr {
                    th { "figure" } th { "publication's machine" } th.n { "published" } th.n { "modelled there" } th.n { "measured here" }
                    th { @if judged { "holds here" } @else { "here over published" } } th { "remarks" }
                } }
                tbody { (rows) }
            }
        }
    }
}

fn row(record: &PublicationRecord, answer: &PublishedAnswer<'_>, judged: bool) -> Markup {
    let unit = &answer.series.unit;
    html! {
        @if let Some(figure) = &answer.point.figure {
            tr {
                td {
                    (figure.what) @if let Some(x) = answer.point.x { ", " (answer.series.x_name.as_deref().unwrap_or_default()) " " (words::number(x)) }
                    span.sub { code.id { (figure.id) } " · " (answer.series.workload) @if let Some(phase) = &answer.series.phase { ", " (phase) } }
                }
                td { (figure.machine) }
                td.n { (published(figure)) }
                td.n { (value(figure.modelled, unit)) " " (tag(record.provenance)) }
                td.n {
                    @match answer.measured {
                        Some(range) => { (range_text(range, unit)) " " (tag(Provenance::Measured)) }
                        None => "-",
                    }
                }
                td { @if judged { (verdict(&answer.verdict)) } @else { (over(answer)) } }
                td.remarks { (remarks(answer)) }
            }
        }
    }
}

fn range_text(range: MeasuredRange, unit: &str) -> String {
    let MeasuredRange {
        value: middle,
        low,
        high,
        ..
    } = range;
    if low == high {
        return value(middle, unit);
    }
    let (low, high) = (value(low, ""), value(high, ""));
    format!("{} [{low}..{high}]", value(middle, unit))
}

fn verdict(verdict: &PublishedVerdict) -> Markup {
    html! {
        @match verdict {
            PublishedVerdict::Holds => span.faster { "holds" },
            PublishedVerdict::Fails => span class="flag invalid" { "does not" },
            PublishedVerdict::Unclear => span class="flag doubtful" { "unclear" },
            PublishedVerdict::NotAsked(_) => "cannot be asked",
            PublishedVerdict::Value => "",
        }
    }
}

/// The measured over the published value.
fn over(answer: &PublishedAnswer<'_>) -> String {
    let published = answer
        .point
        .figure
        .as_ref()
        .and_then(|figure| figure.published);
    match (answer.measured, published) {
        (Some(range), Some(published)) if published != 0.0 => words::ratio(range.value / published),
        _ => "-".into(),
    }
}

fn remarks(answer: &PublishedAnswer<'_>) -> Markup {
    let reason = match &answer.verdict {
        PublishedVerdict::NotAsked(reason) => Some(reason),
        _ => None,
    };
    html! {
        @if let Some(reason) = reason { (reason) }
        @for remark in &answer.remarks { span.sub { (remark) } }
    }
}
