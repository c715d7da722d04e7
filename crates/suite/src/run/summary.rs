//! The summary of a run: its findings, and how the gain of an interleave depends on the engine's
//! intensity.

use super::measure::Measured;
use super::price::{BLIND, Blind, INTENSITIES_NS, MachineWork, Pricer};
use crate::{RunError, SuitePlan};
use tierloom_model::Phase;
use tierloom_placement::ColumnUse;
use tierloom_record::findings::conclude;
use tierloom_record::{
    IntensityRow, QueryRecord, RunRecord, RunSet, SAME_WITHIN, SummaryRecord, ThroughputRecord,
    geometric_mean,
};

/// Utilisation, averaged over a query, from which a tier counts as full.
const SATURATED: f64 = 0.95;

/// The summary with what follows from all records of its run.
pub fn concluded(
    run: RunRecord,
    queries: Vec<QueryRecord>,
    throughputs: Vec<ThroughputRecord>,
    mut summary: SummaryRecord,
) -> SummaryRecord {
    let set = RunSet {
        run,
        queries,
        throughputs,
        summary: Some(summary.clone()),
    };
    summary.findings = conclude(&set).sentences().map(str::to_owned).collect();
    summary
}

/// Prices the blind interleaves of the two published studies on every machine of the run, over a
/// range of engine intensities.
///
/// # Errors
/// Errors of the model.
pub fn intensity(
    plan: &SuitePlan,
    measured: &[&Measured],
    columns: &[ColumnUse],
) -> Result<Vec<IntensityRow>, RunError> {
    let mut rows = Vec::new();
    for machine in plan
        .machines
        .iter()
        .filter(|m| m.tier("dram").is_some() && m.tier("cxl").is_some())
    {
        let pricer = Pricer::new(plan, machine, columns);
        let works: Vec<_> = measured.iter().map(|one| pricer.work(one)).collect();
        for blind in BLIND {
            for ns in [None].into_iter().chain(INTENSITIES_NS.map(Some)) {
                rows.extend(intensity_row(&pricer, &works, blind, ns)?);
            }
        }
    }
    Ok(rows)
}

fn intensity_row(
    pricer: &Pricer<'_>,
    works: &[MachineWork<'_>],
    blind: Blind,
    ns: Option<f64>,
) -> Result<Option<IntensityRow>, RunError> {
    let (mut all, mut first_group, mut own_ns) = (Vec::new(), Vec::new(), Vec::new());
    let (mut busiest, mut saturated) = (0.0f64, 0);
    for work in works {
        let Some((captured, phases)) = work.typical() else {
            continue;
        };
        let alone = pricer.solve_blind(phases, (1.0, 0.0), ns)?;
        let speedup = alone.time_ns / pricer.solve_blind(phases, blind.weights, ns)?.time_ns;
        let busy = alone
            .tiers
            .iter()
            .filter(|t| t.name == "dram")
            .map(|t| t.utilisation)
            .fold(0.0, f64::max);
        busiest = busiest.max(busy);
        saturated += u32::from(busy >= SATURATED);
        all.push(speedup);
        own_ns.extend(own_time_per_tuple(captured));
        if work.measured.query.group == 1 {
            first_group.push(speedup);
        }
    }
    Ok(
        geometric_mean(all.iter().copied()).map(|speedup_over_dram| IntensityRow {
            machine: pricer.machine().name.clone(),
            placement: blind.text.into(),
            time_per_tuple_ns: ns,
            // Rows with an assumed CPU time do not depend on the engine's own.
            own_time_per_tuple_ns: if ns.is_none() {
                geometric_mean(own_ns)
            } else {
                None
            },
            speedup_over_dram,
            first_group_speedup: geometric_mean(first_group),
            slower: all.iter().filter(|s| **s < 1.0 - SAME_WITHIN).count() as u32,
            faster: all.iter().filter(|s| **s > 1.0 + SAME_WITHIN).count() as u32,
            dram_utilisation: busiest,
            saturated,
        }),
    )
}

/// CPU time per tuple of the phase that handles most tuples, which is the one on the fact table.
fn own_time_per_tuple(phases: &[Phase]) -> Option<f64> {
    phases
        .iter()
        .max_by(|a, b| a.tuples.total_cmp(&b.tuples))
        .map(|p| p.compute_ns_per_tuple)
}
