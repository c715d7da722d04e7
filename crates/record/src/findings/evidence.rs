//! The evidence behind the answer, the most important first.

use super::NOISY_RELATIVE_RANGE;
use super::answer::machine;
use super::machines;
use super::warnings::{finished, measured};
use crate::means::{REFERENCE, means};
use crate::{
    EngineKind, HERE, IntensityRow, MeanRecord, PlacementCard, QueryRecord, RunSet, SummaryRecord,
};
use std::collections::BTreeSet;
use tierloom_text::words::{exact_share, list, ms, number, queries, share};

pub(super) fn evidence(set: &RunSet) -> Vec<String> {
    let means = means(&set.queries);
    let mut found = Vec::new();
    found.extend(answers(set));
    for name in machines(set) {
        found.extend(placements_on(set, name, &means));
        found.extend(mix(set, name));
        found.extend(throughputs_on(set, name));
        let rows = set.summary.iter().flat_map(|s| &s.intensity);
        found.extend(blind(
            set,
            &rows.filter(|r| r.machine == name).collect::<Vec<_>>(),
        ));
    }
    found.extend(baseline(&means));
    found.extend(baseline_of_streams(set));
    found.extend(noise(set));
    if let Some(summary) = &set.summary {
        found.extend(audits(&summary.placements));
        found.extend(not_measured(&summary.placements));
        found.extend(summary.notes.iter().cloned());
        found.extend(ended(set, summary));
    }
    found
}

fn answers(set: &RunSet) -> Option<String> {
    let answers: Vec<_> = measured(set).filter_map(|q| q.answer.as_ref()).collect();
    // Concurrent sessions check every answer before the clock starts, and record none.
    if answers.is_empty() {
        return set
            .throughputs
            .is_empty()
            .then(|| "No answer was recorded, so none was checked.".into());
    }
    let checked = answers.iter().filter(|a| a.checked).count();
    let texts = |checked: bool| -> Vec<&str> {
        let of = answers.iter().filter(|a| a.checked == checked);
        let unique: BTreeSet<&str> = of.map(|a| a.check.as_str()).collect();
        unique.into_iter().collect()
    };
    let all = answers.len();
    Some(match checked {
        0 => format!("No answer was checked: {}.", list(&texts(false))),
        some if some == all => format!(
            "All {all} measured answers were checked and are right ({}).",
            list(&texts(true))
        ),
        some => format!(
            "{some} of {all} measured answers were checked and are right; the others were not \
             checked: {}.",
            list(&texts(false))
        ),
    })
}

/// Geometric means of all placements on one machine.
fn placements_on(set: &RunSet, name: &str, means: &[MeanRecord]) -> Option<String> {
    let of: Vec<&MeanRecord> = means
        .iter()
        .filter(|m| m.machine == name && m.engine == EngineKind::Tierloom)
        .collect();
    let first = of.first()?;
    let one = |m: &&MeanRecord| {
        let time = format!("{} {} ms", m.placement, ms(m.geomean_ms));
        let speedup = m.speedup_over_dram.filter(|_| m.placement != REFERENCE);
        match speedup {
            Some(s) => format!(
                "{time} ({s:.2} times dram's speed; queries slower: {}, faster: {})",
                m.slower, m.faster
            ),
            None => time,
        }
    };
    let compared = if of.len() == 1 {
        "; one placement only, nothing to compare with"
    } else {
        ""
    };
    Some(format!(
        "On {}, geometric means over {}: {}{compared}.",
        machine(set, name, first.provenance),
        queries(first.queries as usize),
        of.iter().map(one).collect::<Vec<_>>().join(", ")
    ))
}

/// The throughput of each placement relative to everything in DRAM, if each query ran once.
///
/// Times are summed, so long queries weigh as much as they do in streams; a geometric mean weighs
/// all queries alike.
fn mix(set: &RunSet, name: &str) -> Option<String> {
    // The queries of the Star Schema Benchmark are four flights of variants, not a mix.
    if name == HERE || set.run.workload == "ssb" {
        return None;
    }
    let asked = set.run.settings.queries.len();
    let total_ms = |placement: &str| {
        let of = set.queries.iter().filter(|r| {
            r.machine == name && r.placement == placement && r.engine == EngineKind::Tierloom
        });
        let times: Vec<f64> = of.map(|r| r.time_ms.median).collect();
        // An incomplete sum would favour the placement that lacks a query.
        (times.len() == asked).then(|| times.iter().sum::<f64>())
    };
    let dram_ms = total_ms(REFERENCE)?;
    let others = set.run.settings.placements.iter();
    let kept: Vec<String> = others
        .filter(|p| *p != REFERENCE)
        .filter_map(|p| Some(format!("{p} {:.1}%", dram_ms / total_ms(p)? * 100.0)))
        .collect();
    (!kept.is_empty()).then(|| {
        format!(
            "Modelled on {name}, of dram's throughput over the mix of {}: {}.",
            queries(asked),
            kept.join(", ")
        )
    })
}

/// Throughputs of concurrent sessions under all placements.
fn throughputs_on(set: &RunSet, name: &str) -> Option<String> {
    let of = set.throughputs.iter();
    let of: Vec<_> = of
        .filter(|t| t.machine == name && t.engine == EngineKind::Tierloom)
        .collect();
    let first = of.first()?;
    let rates: Vec<String> = of
        .iter()
        .map(|t| format!("{} {:.0}", t.placement, t.queries_per_hour))
        .collect();
    Some(format!(
        "On {}, queries per hour of all sessions: {}.",
        machine(set, name, first.provenance),
        rates.join(", ")
    ))
}

/// What blind interleaving would do at this engine's measured intensity, and at which intensity it
/// starts to gain.
fn blind(set: &RunSet, rows: &[&IntensityRow]) -> Vec<String> {
    let measured = rows.iter().filter(|r| r.time_per_tuple_ns.is_none());
    let sentence = |row: &&IntensityRow| {
        let change = (row.speedup_over_dram - 1.0) * 100.0;
        let all = set.run.settings.queries.len();
        let text = format!(
            "At this engine's measured CPU time per row, a blind {} interleave of all memory on {} \
             changes the geometric mean by {change:+.1}% (queries slower: {}, faster: {}). Dram \
             alone is full in {} of {all} queries: there a second tier adds bandwidth, elsewhere \
             it only adds latency.",
            row.placement, row.machine, row.slower, row.faster, row.saturated
        );
        let gaining = rows
            .iter()
            .filter(|r| r.placement == row.placement && r.speedup_over_dram > 1.0)
            .filter_map(|r| r.time_per_tuple_ns)
            // The largest CPU time that still gains is where the verdict turns.
            .max_by(f64::total_cmp);
        match gaining {
            Some(ns) => format!(
                "{text} It gains for engines that need at most about {} ns a row.",
                number(ns)
            ),
            None => format!("{text} It gains at none of the CPU times tried."),
        }
    };
    measured.map(sentence).collect()
}

fn baseline(means: &[MeanRecord]) -> Option<String> {
    let of = |engine| {
        let mut here = means.iter().filter(|m| m.machine == HERE);
        here.find(move |m| m.engine == engine)
    };
    let plain = of(EngineKind::Datafusion)?;
    let ours = means.iter().find(|m| {
        m.machine == HERE && m.engine == EngineKind::Tierloom && m.placement == plain.placement
    })?;
    Some(format!(
        "Against plain DataFusion on a MemTable of the same data ({}): {} ms to {} ms, a ratio of \
         {:.2}.",
        ours.placement,
        ms(ours.geomean_ms),
        ms(plain.geomean_ms),
        ours.geomean_ms / plain.geomean_ms
    ))
}

fn baseline_of_streams(set: &RunSet) -> Option<String> {
    let of = |engine| move |t: &&crate::ThroughputRecord| t.engine == engine;
    let plain = set.throughputs.iter().find(of(EngineKind::Datafusion))?;
    let mut ours = set.throughputs.iter().filter(of(EngineKind::Tierloom));
    let ours = ours.find(|t| t.placement == plain.placement)?;
    Some(format!(
        "Against plain DataFusion on a MemTable of the same data ({}): {:.0} to {:.0} queries per \
         hour, a ratio of {:.2}.",
        ours.placement,
        ours.queries_per_hour,
        plain.queries_per_hour,
        ours.queries_per_hour / plain.queries_per_hour
    ))
}

fn noise(set: &RunSet) -> Option<String> {
    if !set.throughputs.is_empty() {
        return None;
    }
    let repeated: Vec<&QueryRecord> = measured(set)
        .filter(|q| q.time_ms.values.len() > 1)
        .collect();
    let range = |q: &&QueryRecord| q.time_ms.relative_range();
    let noisy: Vec<&QueryRecord> = repeated
        .iter()
        .copied()
        .filter(|q| range(q) > NOISY_RELATIVE_RANGE)
        .collect();
    let worst = noisy.iter().max_by(|a, b| range(a).total_cmp(&range(b)));
    Some(match (repeated.len(), worst) {
        (0, _) => "No figure was measured more than once, so noise is not known.".into(),
        (all, None) => format!(
            "Quiet: in all {all} measured figures fastest and slowest repeat lie within {} of the \
             median.",
            share(NOISY_RELATIVE_RANGE)
        ),
        (all, Some(worst)) => format!(
            "Noisy: in {} of {all} measured figures fastest and slowest repeat lie more than {} of \
             the median apart, the worst is {} ({}, {}) with {}; compare only larger differences.",
            noisy.len(),
            share(NOISY_RELATIVE_RANGE),
            worst.query,
            worst.placement,
            worst.engine,
            share(worst.time_ms.relative_range())
        ),
    })
}

fn audits(placements: &[PlacementCard]) -> Option<String> {
    let worst = placements
        .iter()
        .filter_map(|p| Some((p, p.audit_after.as_ref().or(p.audit_before.as_ref())?)))
        .max_by(|a, b| a.1.worst_deviation.total_cmp(&b.1.worst_deviation))?;
    Some(format!(
        "Page audit: the largest difference between requested and actual share of a node is {} \
         ({}).",
        exact_share(worst.1.worst_deviation),
        worst.0.placement
    ))
}

fn not_measured(placements: &[PlacementCard]) -> Option<String> {
    let missing: Vec<&PlacementCard> = placements.iter().filter(|p| p.why_not.is_some()).collect();
    let why = missing.first()?.why_not.as_ref()?;
    let names: Vec<&str> = missing.iter().map(|p| p.placement.as_str()).collect();
    Some(format!("Not measured here: {} ({why}).", list(&names)))
}

fn ended(set: &RunSet, summary: &SummaryRecord) -> Option<String> {
    (!summary.interrupted).then(|| format!("The run came to its end: {}.", finished(set)))
}
