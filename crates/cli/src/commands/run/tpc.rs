//! What is special about TPC-H and TPC-DS: their plans and the check of their answers.

use super::args::TpcArgs;
use super::plan::{RunPlan, StreamPlan};
use super::workload::{RunQuery, Workload};
use crate::failure::Failure;
use std::path::Path;
use tierloom_engine::RecordBatch;
use tierloom_tpc::{Benchmark, compare, stored_answer};

/// More sessions than this are a slip of the finger: each has its plans and at least one thread.
const MOST_STREAMS: usize = 1000;

/// Checks and resolves what was typed.
///
/// # Errors
/// Bad input.
pub fn plan(benchmark: Benchmark, args: &TpcArgs) -> Result<RunPlan, Failure> {
    // Any table tells whether the scale factor is one.
    let first = benchmark.tables().first().copied().unwrap_or_default();
    benchmark.source(first, args.sf).map_err(Failure::input)?;
    let streams = match (args.streams, args.duration) {
        (Some(count), Some(duration)) => Some(StreamPlan {
            count,
            duration: duration.into(),
        }),
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

/// Compares an answer of TPC-H or TPC-DS; gives why it could not be, if so.
///
/// # Errors
/// An answer that is wrong, or a file of answers that cannot be read.
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
