//! The sections of a run's report, in reading order.

mod intensity;
mod machine;
mod operators;
mod placement;
mod settings;
mod speedups;
mod summary;
mod throughput;
mod time;
mod yardstick;

pub(crate) use machine::host as host_card;
pub(crate) use settings::command_line;

use crate::{ReportError, view::RunView};
use maud::{Markup, html};
use tierloom_record::Provenance;

/// All sections of one run; with several runs in the document, each has a heading.
pub(crate) fn run_article(view: &RunView<'_>, runs: usize) -> Result<Markup, ReportError> {
    let queries = if view.has_streams() {
        html! { (throughput::section(view)) (placement::section(view)) }
    } else {
        sections_of_queries(view)?
    };
    Ok(html! {
        article id=(view.prefix) {
            @if runs > 1 { h2 { "Run " (view.set.run.run_id) } }
            (contents(view))
            (summary::section(view))
            (queries)
            (machine::section(view))
            (settings::section(view))
        }
    })
}

fn sections_of_queries(view: &RunView<'_>) -> Result<Markup, ReportError> {
    let speedups = speedups::section(view)?;
    let time = time::section(view)?;
    let intensity = intensity::section(view)?;
    let yardstick = yardstick::section(view)?;
    Ok(html! {
        (speedups)
        (time)
        (intensity)
        (placement::section(view))
        (yardstick)
        (operators::section(view))
    })
}

/// Sections of a run of single queries.
const SECTIONS: [(&str, &str); 9] = [
    ("summary", "Summary"),
    ("speedups", "Queries"),
    ("time", "Where time goes"),
    ("intensity", "Intensity"),
    ("placement", "Placement"),
    ("yardstick", "Yardstick"),
    ("operators", "Operators"),
    ("machine", "Machines"),
    ("settings", "Settings"),
];

/// Sections of a run of concurrent sessions, which has no figures of single queries.
const SECTIONS_OF_STREAMS: [(&str, &str); 5] = [
    ("summary", "Summary"),
    ("throughput", "Throughput"),
    ("placement", "Placement"),
    ("machine", "Machines"),
    ("settings", "Settings"),
];

fn contents(view: &RunView<'_>) -> Markup {
    let sections = if view.has_streams() {
        &SECTIONS_OF_STREAMS[..]
    } else {
        &SECTIONS[..]
    };
    html! {
        nav aria-label="Sections" {
            @for (id, name) in sections { a href=(format!("#{}-{id}", view.prefix)) { (name) } }
            a href="#records" { "Raw records" }
        }
    }
}

/// Links to the runs of a document with several runs.
pub(crate) fn contents_of_runs(views: &[RunView<'_>]) -> Markup {
    html! {
        p { "This report holds " (views.len()) " runs." }
        ul { @for view in views { li { a href=(format!("#{}", view.prefix)) { (view.set.run.run_id) } ", started " (view.set.run.started_at) } } }
    }
}

/// The label "measured" or "modelled" that every figure carries.
pub(crate) fn tag(provenance: Provenance) -> Markup {
    let class = match provenance {
        Provenance::Measured => "tag measured",
        Provenance::Modelled => "tag modelled",
    };
    html! { span class=(class) { (provenance.to_string()) } }
}

/// A legend of placements (colours) and of provenance (solid or striped).
pub(crate) fn legend(view: &RunView<'_>, placements: &[&str], provenance: &[Provenance]) -> Markup {
    let swatch = if provenance.contains(&Provenance::Measured) {
        "swatch"
    } else {
        "swatch modelled"
    };
    html! {
        ul.legend {
            @for placement in placements {
                li { span class=(swatch) style=(format!("--c:var(--s{})", view.series(placement) % crate::chart::SERIES)) {} (placement) }
            }
            @if provenance.contains(&Provenance::Measured) { li { span.swatch style="--c:var(--muted)" {} "solid: measured (whisker: fastest and slowest repeat)" } }
            @if provenance.contains(&Provenance::Modelled) { li { span.swatch.modelled style="--c:var(--muted)" {} "striped: modelled" } }
        }
    }
}

/// A box with a sentence, in place of a chart or table that cannot be made.
pub(crate) fn missing(text: &str) -> Markup {
    html! { p.box { (text) } }
}
