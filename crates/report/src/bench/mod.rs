//! Memory benchmarks: all runs as one article, in reading order.
//!
//! Runs of one workload form a [`view::RunGroup`]; the keys that vary within it become the axes
//! of its charts.

mod curves;
pub(crate) mod figure;
mod health;
mod latency;
mod machine;
mod placement;
mod settings;
mod summary;
mod view;

pub(crate) use summary::OPEN_UP_TO;

use crate::ReportError;
use maud::{Markup, html};
use tierloom_record::BenchRecord;

const SECTIONS: [(&str, &str); 7] = [
    ("summary", "Summary"),
    ("figures", "Figures"),
    ("curves", "Curves"),
    ("latency", "Latency"),
    ("placement", "Placement"),
    ("health", "Overheads and counters"),
    ("machine", "Machines"),
];

/// All runs of memory benchmarks as one article; `alone` if the document contains nothing else.
pub(crate) fn article(records: &[BenchRecord], alone: bool) -> Result<Markup, ReportError> {
    let groups = view::groups(records);
    let curves = curves::section(&groups)?;
    let latency = latency::section(&groups)?;
    Ok(html! {
        article #b {
            @if !alone { h2 { "Memory benchmarks" } }
            nav aria-label="Sections" {
                @for (id, name) in SECTIONS { a href=(format!("#b-{id}")) { (name) } }
                a href="#b-settings" { "Settings" }
                a href="#records" { "Raw records" }
            }
            (summary::section(records, &groups))
            (summary::figures(&groups))
            (curves)
            (latency)
            (placement::section(&groups))
            (health::section(records, &groups))
            (machine::section(records))
            (settings::section(records))
        }
    })
}

/// The title of a report on memory benchmarks.
pub(crate) fn title_of(records: &[BenchRecord]) -> String {
    let mut machines: Vec<&str> = Vec::new();
    for host in records.iter().filter_map(|r| r.hosts.first()) {
        if !machines.contains(&host.card.cpu_model.as_str()) {
            machines.push(&host.card.cpu_model);
        }
    }
    match machines.as_slice() {
        [] => "Memory benchmarks".into(),
        [one] => format!("Memory benchmarks on {one}"),
        many => format!("Memory benchmarks on {} machines", many.len()),
    }
}
