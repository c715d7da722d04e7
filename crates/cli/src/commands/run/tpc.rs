//! TPC-H and TPC-DS: their arguments, the check of their answers, and the mix of their queries.

use super::args::TpcArgs;
use super::plan::{REFERENCE, RunPlan, StreamPlan};
use super::workload::{RunQuery, Workload};
use crate::failure::Failure;
use std::path::Path;
use tierloom_engine::RecordBatch;
use tierloom_record::{EngineKind, QueryRecord};
use tierloom_tpc::{Benchmark, compare, stored_answer};

/// Limit on streams: each has its plans and at least one thread, so a higher number is a typing
/// error.
const MOST_STREAMS: usize = 1000;

/// Resolves and checks the arguments.
///
/// # Errors
/// Bad input.
pub fn plan(benchmark: Benchmark, args: &TpcArgs) -> Result<RunPlan, Failure> {
    // The scale factor is checked by the first table's generator; all tables accept the same.
    let first = benchmark.tables().first().copied().unwrap_or_default();
    benchmark.source(first, args.sf).map_err(Failure::input)?;
    let streams = match (args.streams, args.duration) {
        (Some(count), Some(seconds)) => {
            let duration = seconds.duration();
            let duration =
                duration.ok_or_else(|| Failure::input("--duration: longer than a time can be"))?;
            Some(StreamPlan { count, duration })
        }
        _ => None,
    };
    if let Some(streams) = streams {
        if streams.count == 0 || streams.count > MOST_STREAMS {
            return Err(Failure::input(format!(
                "--streams {}: expected 1 to {MOST_STREAMS}",
                streams.count
            )));
        }
        if streams.duration.is_zero() {
            return Err(Failure::input("--duration 0s: nothing could run"));
        }
    }
    if let Some(folder) = args.answers.as_ref().filter(|f| !f.is_dir()) {
        return Err(Failure::input(format!(
            "--answers {}: no such folder; scripts/golden_tpc.py --sf {} --into makes it",
            folder.display(),
            args.sf
        )));
    }
    let workload = Workload::Tpc {
        benchmark,
        scale_factor: args.sf,
        answers: args.answers.clone(),
    };
    RunPlan::resolve(workload, &args.queries, streams, &args.options)
}

/// Compares an answer with the stored one; returns the reason if none is stored.
///
/// # Errors
/// A wrong answer, or a file of answers that cannot be read.
pub fn check(
    workload: &Workload,
    query: &RunQuery,
    batches: &[RecordBatch],
) -> Result<Option<String>, Failure> {
    let Workload::Tpc {
        benchmark,
        scale_factor,
        answers,
    } = workload
    else {
        return Ok(Some("not a query of the TPC".into()));
    };
    let stored = match answers {
        Some(folder) => Some(read_answer(&folder.join(benchmark.id()), query)?),
        None => tierloom_tpc::query(*benchmark, query.id)
            .map_err(Failure::runtime)?
            .first()
            .and_then(|q| stored_answer(q, *scale_factor))
            .map(str::to_owned),
    };
    let Some(stored) = stored else {
        return Ok(Some(format!(
            "no stored answer for scale factor {scale_factor}; scripts/golden_tpc.py --sf {scale_factor} --into DIR makes them for --answers DIR"
        )));
    };
    compare(query.id, &stored, batches).map_err(Failure::runtime)?;
    Ok(None)
}

fn read_answer(folder: &Path, query: &RunQuery) -> Result<String, Failure> {
    let path = folder.join(format!("{}.csv", query.id));
    std::fs::read_to_string(&path)
        .map_err(|e| Failure::input(format!("--answers: cannot read {}: {e}", path.display())))
}

/// The throughput of each placement relative to everything in DRAM, on each modelled machine.
///
/// Every query counts once and times are summed, so long queries weigh as much as they do in
/// streams; a geometric mean would weigh all queries alike.
pub fn mixes(plan: &RunPlan, records: &[QueryRecord]) -> Vec<String> {
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
