//! Runs beside publications: what was published, what the model says of the publication's machine,
//! what was measured here, and whether each published relation holds here.

mod chart;
mod table;

use crate::ReportError;
use crate::section::{missing, tag};
use crate::words;
use maud::{Markup, html};
use tierloom_record::findings::{PublishedAnswer, fraction, of_publication, published_sentences};
use tierloom_record::{Provenance, PublicationRecord, PublishedSeries, RecordSet};

/// All publications as one article; `alone` if the document contains nothing else.
pub(crate) fn article(set: &RecordSet, alone: bool) -> Result<Markup, ReportError> {
    let mut parts = Vec::new();
    for (index, record) in set.latest_publications().into_iter().enumerate() {
        let answers = of_publication(record, &set.benches);
        parts.push(publication(record, &answers, &format!("p{index}"))?);
    }
    Ok(html! {
        article #p {
            @if !alone { h2 { "Beside publications" } }
            @for part in &parts { (part) }
        }
    })
}

/// The title of a report on runs beside publications.
pub(crate) fn title_of(set: &RecordSet) -> String {
    let mut papers: Vec<&str> = Vec::new();
    for record in &set.publications {
        if !papers.contains(&record.paper.as_str()) {
            papers.push(&record.paper);
        }
    }
    format!("Beside {}", words::list(&papers))
}

fn publication(
    record: &PublicationRecord,
    answers: &[PublishedAnswer<'_>],
    id: &str,
) -> Result<Markup, ReportError> {
    let mut charts = Vec::new();
    for (index, series) in record.series.iter().enumerate() {
        let own: Vec<&PublishedAnswer<'_>> = of_series(answers, series).collect();
        charts.extend(chart::curve(series, &own, &format!("{id}-c{index}"))?);
    }
    Ok(html! {
        section id=(id) {
            h3 { (record.paper) " · " (record.file) }
            p.note { (record.citation) }
            @if record.scale != 1.0 {
                p.box.warn { "Structures have " (fraction(record.scale)) " of the published sizes: what the caches hold differs from the publication." }
            }
            ul.findings { @for sentence in published_sentences(record, answers) { li { (sentence) } } }
            p.note {
                "Published: measured by the authors on their machine. " (tag(Provenance::Modelled)) ": computed by the tier model for that machine, at the published sizes. "
                (tag(Provenance::Measured)) ": here, median [least..most of the repetitions]; for ratios and gains the range that the repetitions of both runs leave. "
                "A relation holds if that whole range satisfies it; a gain that was published without a relation, if both win or both lose. Each is asked of this machine as it is, whatever clustering or prefetching the publication's had."
            }
            h4 { "Relations" }
            (table::relations(record, answers))
            h4 { "Curves" }
            @if charts.is_empty() { (missing("No figure is a curve.")) } @else {
                p.note { "Solid with markers: published, and measured here (with whiskers). Dashed: modelled for the publication's machine." }
                div.grid { @for chart in &charts { (chart) } }
            }
            h4 { "Values" }
            (table::values(record, answers))
        }
    })
}

fn of_series<'s, 'a>(
    answers: &'s [PublishedAnswer<'a>],
    series: &'s PublishedSeries,
) -> impl Iterator<Item = &'s PublishedAnswer<'a>> {
    answers
        .iter()
        .filter(move |answer| std::ptr::eq(answer.series, series))
}
