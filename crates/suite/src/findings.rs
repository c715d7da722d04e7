//! The results of a run as sentences.
//!
//! [`derived`] repeats what the query records already hold, for the terminal; a report derives the
//! same from the records. [`findings`] needs the plan, the model or the page audits, so its
//! sentences are stored in the summary record.

use crate::{REFERENCE, SuitePlan};
use tierloom_model::reference::ssb::ssb_queries;
use tierloom_model::{Machine, Options, Phase, Placement, TierShares, solve_all};
use tierloom_record::{
    EngineKind, HERE, IntensityRow, MeanRecord, PlacementCard, Provenance, QueryRecord,
    geometric_mean,
};

/// Relative change below which a query counts as neither slower nor faster.
pub const NOTICEABLE: f64 = 0.01;

/// Range of the repeats, relative to their median, above which a figure is called noisy.
const NOISY: f64 = 0.10;

/// CPU time per row assumed for the engines of the literature, ns: compiled pipelines need a few.
/// The model's documentation shows other values.
const REFERENCE_NS: f64 = 3.0;

/// Findings that follow from the query records alone; the terminal prints them, records do not
/// carry them.
pub fn derived(plan: &SuitePlan, records: &[QueryRecord], means: &[MeanRecord]) -> Vec<String> {
    let mut found = Vec::new();
    found.extend(all_checked(records));
    found.extend(best_here(means));
    for machine in &plan.machines {
        found.extend(best_modelled(&machine.name, means));
    }
    found.extend(crate::mix::mixes(plan, records));
    found.extend(noise(records));
    found
}

/// Findings that need the plan, the model or the audits, most important first; the summary record
/// carries them.
pub fn findings(
    plan: &SuitePlan,
    records: &[QueryRecord],
    means: &[MeanRecord],
    placements: &[PlacementCard],
    intensity: &[IntensityRow],
) -> Vec<String> {
    let mut found = Vec::new();
    // QEMU's emulated processors carry TCG in their name.
    if plan.topology.cpu_model.contains("TCG") {
        found.push("This processor is emulated in software: measured times say nothing about memory, only answers and page audits count.".into());
    }
    found.extend(not_checked(records));
    for machine in &plan.machines {
        found.extend(blind(&machine.name, intensity, records));
        if plan.workload.id() == "ssb" {
            found.extend(reference(machine));
        }
    }
    found.extend(baseline(means));
    found.extend(audits(placements));
    found.extend(not_measured(placements));
    found
}

fn all_checked(records: &[QueryRecord]) -> Option<String> {
    let mut answers = records.iter().filter_map(|r| r.answer.as_ref());
    let count = answers.clone().count();
    (count > 0 && answers.all(|a| a.checked))
        .then(|| format!("All {count} answers equal those that DuckDB gave on the same data."))
}

fn not_checked(records: &[QueryRecord]) -> Option<String> {
    let answers: Vec<_> = records.iter().filter_map(|r| r.answer.as_ref()).collect();
    let unchecked = answers.iter().find(|a| !a.checked)?;
    let checked = answers.iter().filter(|a| a.checked).count();
    Some(match checked {
        0 => format!("No answer was checked: {}.", unchecked.check),
        some => format!(
            "{some} of {} answers were checked against DuckDB's and equal them; the others not: {}.",
            answers.len(),
            unchecked.check
        ),
    })
}

fn best_here(means: &[MeanRecord]) -> Option<String> {
    let here: Vec<&MeanRecord> = means
        .iter()
        .filter(|m| m.machine == HERE && m.engine == EngineKind::Tierloom)
        .collect();
    let best = here
        .iter()
        .min_by(|a, b| a.geomean_ms.total_cmp(&b.geomean_ms))?;
    let others = if here.len() > 1 {
        format!(", the fastest of {} placements measured here", here.len())
    } else {
        ", the one placement that could be measured here".into()
    };
    Some(format!(
        "Measured here: {} with a geometric mean of {:.1} ms over {} queries{others}.",
        best.placement, best.geomean_ms, best.queries
    ))
}

fn best_modelled(machine: &str, means: &[MeanRecord]) -> Option<String> {
    let of: Vec<&MeanRecord> = means
        .iter()
        .filter(|m| m.machine == machine && m.provenance == Provenance::Modelled)
        .collect();
    // The defaults keep a placement without a speed-up from being either best or worst.
    let best = of.iter().max_by(|a, b| {
        a.speedup_over_dram
            .unwrap_or(0.0)
            .total_cmp(&b.speedup_over_dram.unwrap_or(0.0))
    })?;
    let worst = of.iter().min_by(|a, b| {
        a.speedup_over_dram
            .unwrap_or(9.0)
            .total_cmp(&b.speedup_over_dram.unwrap_or(9.0))
    })?;
    let percent = |m: &MeanRecord| m.speedup_over_dram.map(|s| (s - 1.0) * 100.0);
    Some(format!(
        "Modelled on {machine}: best is {} ({:+.1}% against dram), worst is {} ({:+.1}%).",
        best.placement,
        percent(best)?,
        worst.placement,
        percent(worst)?
    ))
}

/// What blind interleaving would do at this engine's measured intensity, and at which intensity it
/// starts to pay.
fn blind(machine: &str, rows: &[IntensityRow], records: &[QueryRecord]) -> Vec<String> {
    let mut found = Vec::new();
    for measured in rows
        .iter()
        .filter(|r| r.machine == machine && r.time_per_tuple_ns.is_none())
    {
        let change = (measured.speedup_over_dram - 1.0) * 100.0;
        let queries = measured_queries(records);
        let mut text = format!(
            "At this engine's measured CPU time per row, a blind {} interleave of all memory on {machine} changes the geometric mean by {change:+.1}% ({} queries slower, {} faster). Dram alone is full in {} of {queries} queries: there a second tier adds bandwidth, elsewhere it only adds latency.",
            measured.placement, measured.slower, measured.faster, measured.saturated
        );
        let others: Vec<&IntensityRow> = rows
            .iter()
            .filter(|r| {
                r.machine == machine
                    && r.placement == measured.placement
                    && r.time_per_tuple_ns.is_some()
            })
            .collect();
        if let Some(ns) = others
            .iter()
            // The largest CPU time that still gains is where the verdict turns.
            .filter(|r| r.speedup_over_dram > 1.0)
            .filter_map(|r| r.time_per_tuple_ns)
            .max_by(f64::total_cmp)
        {
            text.push_str(&format!(
                " It pays for engines that need at most about {ns} ns a row."
            ));
        } else {
            text.push_str(" It pays at none of the CPU times tried.");
        }
        found.push(text);
    }
    found
}

/// What the literature's own engines get on a published machine: the 13 queries as hand-written or
/// compiled pipelines, at the scale, value width and blind interleave of the study (Lebedev et al.,
/// 2025; Huang et al., 2024).
fn reference(machine: &Machine) -> Option<String> {
    let (study, scale_factor, bytes_per_value, text, weights) = match machine.name.as_str() {
        "epfl25-full-pf-on" => ("Lebedev et al. (2025)", 100.0, 8, "9:1", (9.0, 1.0)),
        "nus24" => ("Huang et al. (2024)", 30.0, 4, "3:2", (3.0, 2.0)),
        _ => return None,
    };
    let price = |phases: &[Phase], dram: f64, cxl: f64| {
        let shares = TierShares::from_weights(&[("dram", dram), ("cxl", cxl)]).ok()?;
        Some(
            solve_all(
                machine,
                phases,
                &Placement::new(shares),
                machine.cores.value as u32,
                &Options::default(),
            )
            .ok()?
            .time_ns,
        )
    };
    let queries = ssb_queries(scale_factor, bytes_per_value, REFERENCE_NS);
    let speedups = queries
        .iter()
        .map(|(_, phases)| Some(price(phases, 1.0, 0.0)? / price(phases, weights.0, weights.1)?))
        .collect::<Option<Vec<f64>>>()?;
    let change = (geometric_mean(speedups.iter().copied())? - 1.0) * 100.0;
    let count = |test: &dyn Fn(&f64) -> bool| speedups.iter().filter(|s| test(s)).count();
    Some(format!(
        "For comparison, the engine of {study}, taken as {REFERENCE_NS} ns of CPU time per row at scale factor {scale_factor} with {bytes_per_value}-byte values: a blind {text} changes the geometric mean on {} by {change:+.1}% ({} queries slower, {} faster).",
        machine.name,
        // As in the summary.
        count(&|s| *s < 1.0 - NOTICEABLE),
        count(&|s| *s > 1.0 + NOTICEABLE)
    ))
}

fn not_measured(placements: &[PlacementCard]) -> Option<String> {
    let missing: Vec<&PlacementCard> = placements.iter().filter(|p| p.why_not.is_some()).collect();
    let why = missing.first()?.why_not.as_ref()?;
    let names: Vec<&str> = missing.iter().map(|p| p.placement.as_str()).collect();
    Some(format!(
        "Not measured here, only modelled: {} ({why}).",
        names.join(", ")
    ))
}

fn measured_queries(records: &[QueryRecord]) -> usize {
    records
        .iter()
        .filter(|r| {
            r.machine == HERE && r.placement == REFERENCE && r.engine == EngineKind::Tierloom
        })
        .count()
}

fn baseline(means: &[MeanRecord]) -> Option<String> {
    let of = |engine| {
        means
            .iter()
            .find(move |m| m.machine == HERE && m.engine == engine)
    };
    let (ours, plain) = (of(EngineKind::Tierloom)?, of(EngineKind::Datafusion)?);
    let ratio = ours.geomean_ms / plain.geomean_ms;
    Some(format!(
        "Against plain DataFusion on a MemTable of the same data ({}): {:.1} ms to {:.1} ms, a ratio of {ratio:.2}.",
        ours.placement, ours.geomean_ms, plain.geomean_ms
    ))
}

fn noise(records: &[QueryRecord]) -> Option<String> {
    let measured: Vec<&QueryRecord> = records
        .iter()
        .filter(|r| r.provenance == Provenance::Measured && r.time_ms.values.len() > 1)
        .collect();
    let noisy = measured
        .iter()
        .filter(|r| r.time_ms.relative_range() > NOISY)
        .count();
    (noisy > 0).then(|| format!("Noisy: in {noisy} of {} measured figures the repeats differ by more than {:.0}% of the median; compare only larger differences.", measured.len(), NOISY * 100.0))
}

fn audits(placements: &[PlacementCard]) -> Option<String> {
    let worst = placements
        .iter()
        .filter_map(|p| Some((p, p.audit_after.as_ref().or(p.audit_before.as_ref())?)))
        .max_by(|a, b| a.1.worst_deviation.total_cmp(&b.1.worst_deviation))?;
    Some(format!(
        "Page audit: the largest difference between requested and actual share of a node is {:.2}% ({}).",
        worst.1.worst_deviation * 100.0,
        worst.0.placement
    ))
}
