//! Formats predictions of clusters as one JSON document.

use super::answer::{ClusterPrediction, ClusterSize, QueryOnCluster};
use crate::PredictError;
use crate::document::document;
use crate::question::RequestedWork;
use serde_json::{Value, json};
use tierloom_model::cluster::ClusterRun;
use tierloom_record::Provenance;

/// Name and version of the document's format.
const SCHEMA: &str = "tierloom-cluster-prediction/1";

/// The predictions as JSON text.
///
/// # Errors
/// A run-time failure if a number is not finite.
pub(crate) fn json(
    asked: &RequestedWork,
    predictions: &[ClusterPrediction],
) -> Result<String, PredictError> {
    let predictions = predictions.iter().map(prediction).collect();
    document(SCHEMA, asked, predictions)
}

fn prediction(p: &ClusterPrediction) -> Value {
    json!({
        "machine": p.machine.name,
        "provenance": Provenance::Modelled,
        "workers": p.workers,
        "placement": p.placement,
        "checked_on_one_machine": p.known.to_string(),
        "clusters": p.sizes.iter().map(size).collect::<Vec<_>>(),
    })
}

fn size(s: &ClusterSize) -> Value {
    let (network, costs) = (&s.setup.network, &s.setup.costs);
    let (time_ms, low_ms, high_ms) = s.round_ms();
    json!({
        "nodes": s.setup.nodes,
        "backend": s.setup.backend.name(),
        "shards": s.setup.shards,
        "network_gbps": network.gbps,
        "network_us": network.round_trip_us,
        "statement_ms": costs.statement_ms,
        "task_us": costs.task_us,
        "task_shard_us": costs.task_shard_us,
        "shard_us": costs.shard_us,
        "task_bytes": s.setup.task_bytes(),
        "fetch_us": costs.fetch_us,
        "shuffle": s.setup.shuffle.to_string(),
        "time_ms": time_ms,
        "low_ms": low_ms,
        "high_ms": high_ms,
        "one_process_ms": s.alone_ms(),
        "longest_part": s.longest_part(),
        "round": run(&s.round),
        "streams": s.streams,
        "statements_per_hour": s.per_hour(),
        "busy_with_streams": s.busy().into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        "queries": s.queries.iter().map(query).collect::<Vec<_>>(),
    })
}

fn run(r: &ClusterRun) -> Value {
    json!({
        "tasks": r.tasks,
        "task_bytes": r.task_bytes,
        "fetches": r.fetches,
        "made_bytes": r.made_bytes,
        "moved_bytes": r.moved_bytes,
    })
}

fn query(q: &QueryOnCluster) -> Value {
    let ms = |ns: f64| ns / 1e6;
    json!({
        "query": q.work.name,
        "time_ms": q.time_ms.answer,
        "low_ms": q.time_ms.low,
        "high_ms": q.time_ms.high,
        "one_process_ms": ms(q.work.alone_ns),
        "fixed_ms": ms(q.times.fixed_ns),
        "giving_out_ms": ms(q.giving_out_ns()),
        "node_plan_ms": ms(q.node_plan_ns()),
        "fetch_ms": ms(q.times.fetch_ns),
        "final_plan_ms": ms(q.times.last_ns),
        "final_plan_on": q.last_on(),
        "sent_bytes": q.sent_bytes(),
    })
}
