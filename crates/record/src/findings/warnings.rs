//! Reasons why figures are wrong, missing, or less general than they look.

use super::{MISPLACED, machines};
use crate::{AuditRecord, Provenance, QueryRecord, RunSet};
use std::collections::{BTreeMap, BTreeSet};
use tierloom_text::words::{exact_share, list, number};

/// Growth of captured work beyond which it is called far.
const FAR_GROWN: f64 = 200.0;

/// Reasons why figures are wrong or missing.
pub(super) fn warnings(set: &RunSet) -> Vec<String> {
    let mut warnings = Vec::new();
    match &set.summary {
        None => warnings.push(format!(
            "The run was killed before its end: it left {} and no summary. Page audits, intensity \
             and the time breakdown are missing; what follows is computed from the finished \
             records.",
            finished(set)
        )),
        Some(summary) if summary.interrupted => warnings.push(format!(
            "The run was interrupted: {} are there. What is there is whole.",
            finished(set)
        )),
        Some(_) => {}
    }
    let differing = queries_with_differing_answers(set);
    if !differing.is_empty() {
        warnings.push(format!(
            "Answers differ between placements or engines for {}. A placement must never change \
             an answer: do not use these times.",
            list(&differing)
        ));
    }
    for (placement, difference) in misplaced(set) {
        warnings.push(format!(
            "Pages of placement {placement} were not where it puts them (a node's share differs \
             by {}): its measured times are not compared.",
            exact_share(difference)
        ));
    }
    if is_emulated(set) {
        warnings.push(
            "This processor is emulated in software: measured times say nothing about memory, \
             only answers and page audits count."
                .into(),
        );
    }
    warnings
}

/// Why no placement may be called the best; `None` if one may.
pub(super) fn no_conclusion(set: &RunSet) -> Option<String> {
    let differing = queries_with_differing_answers(set);
    if !differing.is_empty() {
        let queries = list(&differing);
        return Some(format!(
            "answers differ between placements or engines for {queries}"
        ));
    }
    is_emulated(set).then(|| "this processor is emulated in software".into())
}

/// Reasons why figures are less general than they look.
pub(super) fn cautions(set: &RunSet) -> Vec<String> {
    let mut cautions = Vec::new();
    let settings = &set.run.settings;
    // Concurrent sessions have no figure per query and nothing modelled.
    let found_queries: BTreeSet<&str> = set.queries.iter().map(|q| q.query.as_str()).collect();
    let placements = set.queries.iter().map(|q| q.placement.as_str());
    let placements: BTreeSet<&str> = placements
        .chain(set.throughputs.iter().map(|t| t.placement.as_str()))
        .collect();
    let machines: BTreeSet<&str> = machines(set).into_iter().collect();
    let streams = !set.throughputs.is_empty();
    for (what, asked, found, needed) in [
        ("queries", &settings.queries, &found_queries, !streams),
        ("placements", &settings.placements, &placements, true),
        ("machines", &settings.machines, &machines, true),
    ] {
        let lacking: Vec<&str> = asked
            .iter()
            .map(String::as_str)
            .filter(|name| needed && !found.contains(name))
            .collect();
        if !lacking.is_empty() {
            cautions.push(format!(
                "Asked for but without any figure: the {what} {}.",
                list(&lacking)
            ));
        }
    }
    if set.run.build != "release" {
        cautions.push(format!(
            "Made with a {} build: measured times say nothing about a release build.",
            set.run.build
        ));
    }
    if settings.repeat < 3 && !streams {
        cautions.push(format!(
            "Only {} timed repeats per figure: their spread is not known well.",
            settings.repeat
        ));
    }
    cautions.extend(set.run.machines.iter().filter_map(|card| {
        let grown = card.scale_factor? / settings.scale_factor;
        (grown > FAR_GROWN).then(|| {
            format!(
                "Work for {} was captured at scale factor {} and grown {}-fold: CPU time per row \
                 includes much of what a query costs apart from its rows. A larger --sf gives \
                 better figures.",
                card.name,
                number(settings.scale_factor),
                number(grown)
            )
        })
    }));
    cautions
}

/// "182 of 182 planned figures".
pub(super) fn finished(set: &RunSet) -> String {
    match &set.summary {
        Some(summary) => format!(
            "{} of {} planned figures",
            summary.finished, summary.planned
        ),
        None => format!("{} figures", set.queries.len() + set.throughputs.len()),
    }
}

pub(super) fn measured(set: &RunSet) -> impl Iterator<Item = &QueryRecord> {
    let queries = set.queries.iter();
    queries.filter(|q| q.provenance == Provenance::Measured)
}

fn queries_with_differing_answers(set: &RunSet) -> Vec<&str> {
    // All placements and engines answer on the same data, so a query must have one digest.
    let mut digests: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for record in measured(set) {
        if let Some(answer) = &record.answer {
            let known = digests.entry(&record.query).or_default();
            known.insert(&answer.digest);
        }
    }
    digests
        .into_iter()
        .filter(|(_, found)| found.len() > 1)
        .map(|(query, _)| query)
        .collect()
}

/// Placements whose pages were not where whole pages of the columns' sizes could be, with the
/// largest difference of a node's share.
pub(super) fn misplaced(set: &RunSet) -> Vec<(&str, f64)> {
    let cards = set.summary.iter().flat_map(|s| &s.placements);
    let difference = |audit: &AuditRecord| {
        let actual = |node: u32| {
            let found = audit.actual.iter().find(|s| s.node == node);
            found.map_or(0.0, |s| s.share)
        };
        let shares = audit.effective.iter();
        let known = shares.map(|s| (s.share - actual(s.node)).abs());
        // Pages on a node that should have none.
        let other = audit.actual.iter();
        let other = other.filter(|s| audit.effective.iter().all(|e| e.node != s.node));
        known.chain(other.map(|s| s.share)).fold(0.0, f64::max)
    };
    cards
        .filter_map(|card| {
            let audits = card.audit_before.iter().chain(&card.audit_after);
            let worst = audits.map(difference).fold(0.0, f64::max);
            (worst > MISPLACED).then_some((card.placement.as_str(), worst))
        })
        .collect()
}

/// Whether QEMU emulates the processor: the name of such processors contains TCG.
pub(super) fn is_emulated(set: &RunSet) -> bool {
    set.run.host.cpu_model.contains("TCG")
}
