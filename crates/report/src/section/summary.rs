//! The answer of a run in three sentences, then warnings and the evidence.
//!
//! All sentences are concluded by [`tierloom_record::findings`], as on the terminal.

use crate::view::RunView;
use crate::words;
use maud::{Markup, html};
use tierloom_record::Provenance;
use tierloom_record::findings::conclude;

pub(crate) fn section(view: &RunView<'_>) -> Markup {
    let run = &view.set.run;
    let findings = conclude(view.set);
    html! {
        section id=(format!("{}-summary", view.prefix)) {
            h2 { "Summary" }
            @for sentence in &findings.answer { p.answer { (sentence) } }
            @for warning in &findings.warnings { p.box.bad { (warning) } }
            @for caution in &findings.cautions { p.box.warn { (caution) } }
            h3 { "Evidence" }
            ul.findings { @for sentence in &findings.evidence { li { (sentence) } } }
            p.note {
                (run.workload.to_uppercase()) ", scale factor "
                (words::number(run.settings.scale_factor)) ", "
                (words::threads(run.settings.threads)) ", started " (run.started_at)
                ", Tierloom " (run.tool_version)
                @if let Some(commit) = &run.commit { " (" (commit) ")" }
                ", " (run.build) " build. Every figure is marked "
                (super::tag(Provenance::Measured)) " (timed on this machine) or "
                (super::tag(Provenance::Modelled))
                " (computed by the tier model from work that was measured here and a machine \
                 profile whose numbers and sources are listed below)."
            }
        }
    }
}
