//! The queries of a question, cut for a cluster.

use crate::question::RequestedWork;
use crate::{PredictError, Request};
use tierloom_model::cluster::{
    SSB_SHARDED, SpreadQuery, TPCH_SHARDED, ssb_spread, tpch_sent, tpch_spread,
};
use tierloom_model::reference::work::Work;
use tierloom_record::RecordSet;

/// The queries that `request` names, as nodes with `workers` workers run them.
///
/// # Errors
/// Bad input: work of which it is not known what leaves a node.
pub(super) fn queries_of(
    asked: &RequestedWork,
    request: &Request,
    workers: u32,
) -> Result<Vec<SpreadQuery>, PredictError> {
    match asked.work() {
        Some(Work::Ssb(ssb)) => return Ok(ssb_spread(ssb, workers)),
        Some(Work::Tpch(tpch)) => return Ok(tpch_spread(tpch)),
        Some(other) => {
            return Err(PredictError::input(format!(
                "{} has no tables to put on several machines: give ssb, tpch or a recorded query of them",
                other.name()
            )));
        }
        None => {}
    }
    let (Some(query), Some(from)) = (&request.query, &request.from) else {
        return Err(PredictError::input(
            "phases from a file do not say what one machine sends to another: give work ssb or tpch, or a recorded query of them",
        ));
    };
    let phases = asked.phases(workers).map_err(PredictError::input)?;
    let (workload, scale_factor) = workload_of(query, from)?;
    match workload.as_str() {
        "ssb" => Ok(vec![SpreadQuery::with_states(query, phases, &SSB_SHARDED)]),
        "tpch" => {
            let spread = SpreadQuery::with_states(query, phases, &TPCH_SHARDED);
            Ok(vec![tpch_sent(spread, scale_factor)])
        }
        other => Err(PredictError::input(format!(
            "{query} in {} is a query of {other}: what leaves a machine is known of ssb and tpch",
            from.display()
        ))),
    }
}

/// The benchmark and scale factor of the run whose phases of `query` are used: the last one.
fn workload_of(query: &str, from: &std::path::Path) -> Result<(String, f64), PredictError> {
    let set = RecordSet::read(from)?;
    let run = set.runs.iter().rev().find(|run| {
        let mut queries = run.queries.iter();
        queries.any(|q| q.query == query && !q.phases.is_empty())
    });
    match run {
        Some(set) => Ok((set.run.workload.clone(), set.run.settings.scale_factor)),
        None => Err(PredictError::input(format!(
            "{}: no phases of query {query:?}",
            from.display()
        ))),
    }
}
