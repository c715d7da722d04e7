//! The mix of a benchmark's queries.

use crate::{REFERENCE, SuitePlan};
use tierloom_record::{EngineKind, QueryRecord};

/// The throughput of each placement relative to everything in DRAM, on each modelled machine.
///
/// Every query counts once and times are summed, so long queries weigh as much as they do in
/// streams; a geometric mean would weigh all queries alike.
pub(crate) fn mixes(plan: &SuitePlan, records: &[QueryRecord]) -> Vec<String> {
    if plan.workload.id() == "ssb" {
        return Vec::new();
    }
    let total_ms = |machine: &str, placement: &str| {
        let of = records.iter().filter(|r| {
            r.machine == machine && r.placement == placement && r.engine == EngineKind::Tierloom
        });
        let times: Vec<f64> = of.map(|r| r.time_ms.median).collect();
        // An incomplete sum would favour the placement that lacks a query.
        (times.len() == plan.queries.len()).then(|| times.iter().sum::<f64>())
    };
    let mix = |machine: &str, placement: &str| {
        let dram_ms = total_ms(machine, REFERENCE)?;
        let kept = dram_ms / total_ms(machine, placement)?;
        Some(format!(
            "Modelled on {machine}: {placement} gives {:.1}% of the throughput of dram over the mix of {} queries.",
            kept * 100.0,
            plan.queries.len()
        ))
    };
    let placements = || plan.placements.iter().filter(|p| p.text != REFERENCE);
    plan.machines
        .iter()
        .flat_map(|m| {
            placements()
                .filter_map(|p| mix(&m.name, &p.text))
                .collect::<Vec<_>>()
        })
        .collect()
}
