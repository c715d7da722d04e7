//! Findings of a run as text, with warnings about incomplete or wrong figures.

use crate::view::{BASELINE, Mean, RunView};
use crate::words;
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};
use tierloom_record::{Provenance, QueryRecord};

pub(crate) fn section(view: &RunView<'_>) -> Markup {
    let run = &view.set.run;
    let findings = view
        .set
        .summary
        .as_ref()
        .map(|s| s.findings.as_slice())
        .unwrap_or_default();
    html! {
        section id=(format!("{}-summary", view.prefix)) {
            h2 { "Summary" }
            p.note {
                (run.workload.to_uppercase()) ", scale factor " (words::number(run.settings.scale_factor)) ", " (run.settings.threads) " threads, "
                (run.settings.repeat) " timed repeats, started " (run.started_at) ", Tierloom " (run.tool_version)
                @if let Some(commit) = &run.commit { " (" (commit) ")" }
                ", " (run.build) " build."
            }
            @for warning in warnings(view) { p.box.bad { (warning) } }
            @for caution in cautions(view) { p.box.warn { (caution) } }
            ul.findings {
                @for finding in findings { li { (finding) } }
                @for sentence in machine_sentences(view) { li { (sentence) } }
                li { (answer_sentence(view)) }
                li { (noise_sentence(view)) }
                @if view.set.summary.as_ref().is_some_and(|s| !s.interrupted) { li { "The run came to its end: " (finished(view)) "." } }
            }
            p.note {
                "Every figure is marked " (super::tag(Provenance::Measured)) " (timed on this machine) or " (super::tag(Provenance::Modelled))
                " (computed by the tier model from work that was measured here and a machine profile whose numbers and sources are listed below)."
            }
        }
    }
}

fn finished(view: &RunView<'_>) -> String {
    match &view.set.summary {
        Some(summary) => format!(
            "{} of {} planned figures",
            summary.finished, summary.planned
        ),
        None => format!("{} figures", view.set.queries.len()),
    }
}

/// Reasons why figures are wrong or missing.
fn warnings(view: &RunView<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    match &view.set.summary {
        None => warnings.push(format!(
            "The run was killed before its end: it left {} and no summary. Page audits, intensity and the time breakdown are missing; what follows is computed from the finished records.",
            finished(view)
        )),
        Some(summary) if summary.interrupted => {
            warnings.push(format!("The run was interrupted: {} are there. What is there is whole.", finished(view)));
        }
        Some(_) => {}
    }
    let differing = queries_with_differing_answers(view);
    if !differing.is_empty() {
        warnings.push(format!(
            "Answers differ between placements or engines for {}. A placement must never change an answer: do not use these times.",
            words::list(&differing)
        ));
    }
    warnings
}

/// Reasons why figures are less general than they look.
fn cautions(view: &RunView<'_>) -> Vec<String> {
    let mut cautions = Vec::new();
    let settings = &view.set.run.settings;
    for (what, asked, found) in [
        ("queries", &settings.queries, &view.queries),
        ("placements", &settings.placements, &view.placements),
        ("machines", &settings.machines, &view.machines),
    ] {
        let lacking: Vec<&str> = asked
            .iter()
            .map(String::as_str)
            .filter(|name| !found.contains(name))
            .collect();
        if !lacking.is_empty() {
            cautions.push(format!(
                "Asked for but without any figure: the {what} {}.",
                words::list(&lacking)
            ));
        }
    }
    if view.set.run.build != "release" {
        cautions.push(format!(
            "Made with a {} build: measured times say nothing about a release build.",
            view.set.run.build
        ));
    }
    if settings.repeat < 3 {
        cautions.push(format!(
            "Only {} timed repeats per figure: their spread is not known well.",
            settings.repeat
        ));
    }
    cautions
}

fn measured<'v>(view: &'v RunView<'_>) -> impl Iterator<Item = &'v QueryRecord> {
    view.set
        .queries
        .iter()
        .filter(|q| q.provenance == Provenance::Measured)
}

fn queries_with_differing_answers<'v>(view: &'v RunView<'_>) -> Vec<&'v str> {
    // All placements and engines answer on the same data, so a query must have one digest.
    let mut digests: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for record in measured(view) {
        if let Some(answer) = &record.answer {
            digests
                .entry(&record.query)
                .or_default()
                .insert(&answer.digest);
        }
    }
    digests
        .into_iter()
        .filter(|(_, found)| found.len() > 1)
        .map(|(query, _)| query)
        .collect()
}

fn answer_sentence(view: &RunView<'_>) -> String {
    let answers: Vec<_> = measured(view).filter_map(|q| q.answer.as_ref()).collect();
    let checked = answers.iter().filter(|a| a.checked).count();
    let reasons: BTreeSet<&str> = answers
        .iter()
        .filter(|a| !a.checked)
        .map(|a| a.check.as_str())
        .collect();
    let reasons: Vec<&str> = reasons.into_iter().collect();
    match answers.len() {
        0 => "No answer was recorded, so none was checked.".into(),
        all if checked == all => {
            let how: BTreeSet<&str> = answers.iter().map(|a| a.check.as_str()).collect();
            format!(
                "All {all} measured answers were checked and are right ({}).",
                words::list(&how.into_iter().collect::<Vec<_>>())
            )
        }
        all => format!(
            "{checked} of {all} measured answers were checked against a stored answer; the others were not: {}.",
            words::list(&reasons)
        ),
    }
}

fn noise_sentence(view: &RunView<'_>) -> String {
    let repeated: Vec<&QueryRecord> = measured(view)
        .filter(|q| q.time_ms.values.len() > 1)
        .collect();
    let noisy: Vec<&&QueryRecord> = repeated
        .iter()
        .filter(|q| q.time_ms.relative_range() > words::NOISY_RELATIVE_RANGE)
        .collect();
    let worst = noisy.iter().max_by(|a, b| {
        a.time_ms
            .relative_range()
            .total_cmp(&b.time_ms.relative_range())
    });
    match (repeated.len(), worst) {
        (0, _) => "No figure was measured more than once, so noise is not known.".into(),
        (all, None) => format!(
            "Quiet: in all {all} measured figures the repeats lie within 10% of their median."
        ),
        (all, Some(worst)) => format!(
            "Noisy: in {} of {all} measured figures fastest and slowest repeat lie more than 10% of the median apart, the worst is {} ({}, {}) with {}.",
            noisy.len(),
            worst.query,
            worst.placement,
            worst.engine,
            words::share(worst.time_ms.relative_range())
        ),
    }
}

/// One sentence per machine: the fastest placement, and how the others compare.
fn machine_sentences(view: &RunView<'_>) -> Vec<String> {
    view.machines
        .iter()
        .map(|machine| machine_sentence(view, machine))
        .collect()
}

fn machine_sentence(view: &RunView<'_>, machine: &str) -> String {
    let name = view.machine_title(machine);
    let means = view.means(machine);
    let speeds: Vec<(&Mean<'_>, f64)> = means
        .iter()
        .filter(|m| m.placement != BASELINE)
        .filter_map(|m| Some((m, m.speedup?)))
        .collect();
    let Some((best, speedup)) = speeds.iter().max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return alone(view, machine, &name, &means);
    };
    let others: Vec<String> = speeds
        .iter()
        .map(|(m, s)| format!("{} {}", m.placement, words::ratio(*s)))
        .collect();
    let fastest = if *speedup > 1.0 + words::SAME_WITHIN {
        format!(
            "{} is fastest, {} as fast as {BASELINE} only",
            best.placement,
            words::ratio(*speedup)
        )
    } else if *speedup >= 1.0 - words::SAME_WITHIN {
        format!(
            "nothing beats {BASELINE} only; {} is as fast",
            best.placement
        )
    } else {
        format!(
            "{BASELINE} only is fastest; the next, {}, reaches {} of its speed",
            best.placement,
            words::ratio(*speedup)
        )
    };
    format!(
        "On {name}, {} over {}: {fastest} (geometric means: {}).",
        best.provenance,
        words::queries(best.queries),
        others.join(", ")
    )
}

fn alone(view: &RunView<'_>, machine: &str, name: &str, means: &[Mean<'_>]) -> String {
    let Some(mean) = means.first() else {
        return format!("On {name}: no figure of Tierloom's engine.");
    };
    let reason = if view.placements_on(machine).len() > 1 {
        "no figures with DRAM only to compare with"
    } else {
        "one placement only, nothing to compare with"
    };
    let (ms, n) = (words::ms(mean.time_ms), words::queries(mean.queries));
    format!(
        "On {name}, {}: {} takes {ms} ms (geometric mean over {n}); {reason}.",
        mean.provenance, mean.placement
    )
}
