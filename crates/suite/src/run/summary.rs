//! How the gain of an interleave depends on the intensity of the engine.

use super::measure::Measured;
use super::price::{BLIND, Blind, INTENSITIES_NS, Pricer};
use crate::{RunError, SuitePlan};
use tierloom_model::Phase;
use tierloom_placement::ColumnUse;
use tierloom_record::{IntensityRow, SAME_WITHIN, geometric_mean};

/// Utilisation, averaged over a query, from which a tier counts as full.
const SATURATED: f64 = 0.95;

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
        for blind in BLIND {
            for ns in [None].into_iter().chain(INTENSITIES_NS.map(Some)) {
                rows.extend(intensity_row(&pricer, measured, blind, ns)?);
            }
        }
    }
    Ok(rows)
}

fn intensity_row(
    pricer: &Pricer<'_>,
    measured: &[&Measured],
    blind: Blind,
    ns: Option<f64>,
) -> Result<Option<IntensityRow>, RunError> {
    let (mut all, mut first_group, mut own_ns) = (Vec::new(), Vec::new(), Vec::new());
    let (mut busiest, mut saturated) = (0.0f64, 0);
    for one in measured {
        // One execution represents all repeats: they run the same plan on the same data.
        let Some(work) = one.captured.get(one.captured.len() / 2) else {
            continue;
        };
        let alone = pricer.solve_blind(&work.phases, (1.0, 0.0), ns)?;
        let speedup = alone.time_ns / pricer.solve_blind(&work.phases, blind.weights, ns)?.time_ns;
        let busy = alone
            .tiers
            .iter()
            .filter(|t| t.name == "dram")
            .map(|t| t.utilisation)
            .fold(0.0, f64::max);
        busiest = busiest.max(busy);
        saturated += u32::from(busy >= SATURATED);
        all.push(speedup);
        own_ns.extend(own_time_per_tuple(&work.phases));
        if one.query.group == 1 {
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
