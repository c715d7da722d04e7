//! Physical optimizer rule that finds subplans which occur several times.

use super::exec::{SharedExec, SharedSubplan};
use super::same::same;
use crate::breakdown::caught;
use crate::operators::aggregate_of;
use crate::running_window::{RunningWindowExec, WholeWindowExec};
use crate::scan::PlacedScanExec;
use crate::star::StarExec;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{HashMap, Result};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateMode;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use std::sync::Arc;
use tierloom_corrections::Walk;

/// Rows of the largest table of a subplan below which it is as quick to run it again.
const FEW_ROWS: usize = 10_000;

/// Has aggregations and windows that occur several times run once; see the module documentation of
/// `shared_subplans`.
#[derive(Debug, Default)]
pub(crate) struct SharedSubplans;

impl PhysicalOptimizerRule for SharedSubplans {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // The rule is an optimization only, so an error or panic keeps the plan.
        let shared = caught(|| shared(&plan));
        Ok(shared.ok().and_then(Result::ok).unwrap_or(plan))
    }

    fn name(&self) -> &str {
        "tierloom_shared_subplans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// An aggregation or a window, and the places of it and of all below it in the order of a walk.
struct Candidate {
    plan: Arc<dyn ExecutionPlan>,
    first: usize,
    end: usize,
}

fn shared(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    // The part of a recursive query that repeats has other rows each time.
    if plan.has(&mut |node| Ok(node.is::<RecursiveQueryExec>()))? {
        return Ok(Arc::clone(plan));
    }
    let mut candidates = Vec::new();
    walk(plan, &mut 0, &mut candidates);
    candidates.sort_by_key(|candidate| candidate.first);
    let mut replaced = Vec::new();
    let mut places = HashMap::new();
    let is_in = |parts: &[(usize, usize)], at: usize| {
        parts
            .iter()
            .any(|(first, end)| (*first..*end).contains(&at))
    };
    for (index, one) in candidates.iter().enumerate() {
        if is_in(&replaced, one.first) {
            continue;
        }
        let mut found = vec![one];
        for other in &candidates[index + 1..] {
            let apart = other.first >= one.end && !is_in(&replaced, other.first);
            if apart && same(&one.plan, &other.plan) {
                found.push(other);
            }
        }
        if found.len() == 1 {
            continue;
        }
        let number = replaced.len() + 1;
        let subplan = Arc::new(SharedSubplan::new(
            Arc::clone(&one.plan),
            number,
            found.len(),
        ));
        for (at, place) in found.into_iter().enumerate() {
            let address = Arc::as_ptr(&place.plan).addr();
            places.insert(address, (Arc::clone(&subplan), at == 0));
            replaced.push((place.first, place.end));
        }
    }
    match places.is_empty() {
        true => Ok(Arc::clone(plan)),
        false => rebuilt(plan, &places),
    }
}

/// Finds the aggregations and windows of `plan`; returns the rows of its largest table.
fn walk(plan: &Arc<dyn ExecutionPlan>, next: &mut usize, found: &mut Vec<Candidate>) -> usize {
    let first = *next;
    *next += 1;
    let of_scan = plan.downcast_ref::<PlacedScanExec>();
    let mut rows = of_scan.map_or(0, |scan| scan.table().rows());
    for child in plan.children() {
        rows = rows.max(walk(child, next, found));
    }
    let fact = plan.downcast_ref::<StarExec>();
    rows = rows.max(fact.map_or(0, |star| star.fact().rows()));
    if rows >= FEW_ROWS && is_complete(plan) {
        found.push(Candidate {
            plan: Arc::clone(plan),
            first,
            end: *next,
        });
    }
    rows
}

/// Whether `plan` ends an aggregation or computes windows.
fn is_complete(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if plan.is::<RunningWindowExec>()
        || plan.is::<WholeWindowExec>()
        || plan.is::<BoundedWindowAggExec>()
        || plan.is::<WindowAggExec>()
    {
        return true;
    }
    let ends = |mode: &AggregateMode| {
        !matches!(mode, AggregateMode::Partial | AggregateMode::PartialReduce)
    };
    match aggregate_of(plan) {
        Some(aggregate) => ends(aggregate.mode()),
        None => {
            let star = plan.downcast_ref::<StarExec>();
            let replaced = star.and_then(|star| aggregate_of(star.fallback()));
            replaced.is_some_and(|aggregate| ends(aggregate.mode()))
        }
    }
}

/// The plan with a [`SharedExec`] at each of `places`.
fn rebuilt(
    plan: &Arc<dyn ExecutionPlan>,
    places: &HashMap<usize, (Arc<SharedSubplan>, bool)>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let rebuilt = Arc::clone(plan).down(&mut |node| {
        let place = places.get(&Arc::as_ptr(&node).addr());
        Ok(match place {
            Some((subplan, is_first)) => {
                let shared: Arc<dyn ExecutionPlan> =
                    Arc::new(SharedExec::new(Arc::clone(subplan), *is_first));
                Transformed::new(shared, true, TreeNodeRecursion::Jump)
            }
            None => Transformed::no(node),
        })
    })?;
    Ok(rebuilt.data)
}
