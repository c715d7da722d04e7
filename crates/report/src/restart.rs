//! Starts of processes: how soon they answer, by where their tables come from.

use crate::section::tag;
use crate::words;
use maud::{Markup, html};
use tierloom_record::findings::of_restarts;
use tierloom_record::{RestartRecord, Spread};

/// All starts as one article; `alone` if the document contains nothing else.
pub(crate) fn article(records: &[RestartRecord], alone: bool) -> Markup {
    html! {
        article #s {
            @if !alone { h2 { (title_of(records)) } }
            ul { @for finding in of_restarts(records) { li { (finding) } } }
            p.note {
                "Median, least and most, in ms since the start of a process; load, attach and verify are the times of that step alone."
            }
            div.scroll {
                table {
                    thead { tr {
                        th { "workload" } th { "tables" } th { "after" } th { "starts" }
                        @for name in TIMES { th.n { (name) } }
                        th {}
                    } }
                    tbody { @for record in records { (row(record)) } }
                }
            }
        }
    }
}

/// The title of a report on starts.
pub(crate) fn title_of(records: &[RestartRecord]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for record in records {
        if !names.contains(&record.workload.as_str()) {
            names.push(&record.workload);
        }
    }
    format!("How soon a new process answers: {}", words::list(&names))
}

const TIMES: [&str; 7] = [
    "ready",
    "complete",
    "first answer",
    "last answer",
    "load",
    "attach",
    "verify",
];

fn row(record: &RestartRecord) -> Markup {
    let times = [
        Some(&record.ready_ms),
        record.complete_ms.as_ref(),
        Some(&record.first_answer_ms),
        Some(&record.last_answer_ms),
        record.load_ms.as_ref(),
        record.attach_ms.as_ref(),
        record.verify_ms.as_ref(),
    ];
    html! {
        tr {
            td { (record.workload) " " (record.scale_factor) }
            td { (record.way) }
            td { (record.after) }
            td { (record.ready_ms.values.len()) }
            @for time in times { td.n { @if let Some(time) = time { (shown(time)) } } }
            td { (tag(record.provenance)) }
        }
    }
}

pub(crate) fn shown(spread: &Spread) -> String {
    format!(
        "{:.1} ({:.1} to {:.1})",
        spread.median, spread.min, spread.max
    )
}
