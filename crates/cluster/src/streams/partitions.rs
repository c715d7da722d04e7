//! Operators that were planned for one partition, as they are for several on several nodes.

use crate::spread::states_merge;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DataFusionError, Result};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    ExecutionPlan, PhysicalExpr, StatisticsArgs, StatisticsContext, replace_children_if_necessary,
};
use std::sync::Arc;
use tierloom_engine::{final_step, final_step_by_key, partial_step};

/// Groups in partitions by their key, and joins as moves fewer bytes between `nodes` nodes.
pub(super) fn in_partitions(
    node: Arc<dyn ExecutionPlan>,
    nodes: usize,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        if join.null_aware || join.partition_mode() != &PartitionMode::CollectLeft {
            return Ok(Transformed::no(node));
        }
        let mode = match is_sent_whole(join, nodes)? {
            true => PartitionMode::CollectLeft,
            false => PartitionMode::Partitioned,
        };
        let join = join.builder().with_partition_mode(mode);
        return Ok(Transformed::yes(join.build_exec()?));
    }
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else {
        return Ok(Transformed::no(node));
    };
    let grouped = !aggregate.group_expr().is_empty();
    let replaced = match aggregate.mode() {
        AggregateMode::Final if grouped => {
            final_step_by_key(aggregate, Arc::clone(aggregate.input()))?
        }
        AggregateMode::Single | AggregateMode::SinglePartitioned if states_merge(aggregate) => {
            let states = Arc::new(partial_step(aggregate)?);
            match grouped {
                true => final_step_by_key(aggregate, states)?,
                // Nodes send one row each.
                false => final_step(aggregate, states)?,
            }
        }
        _ => return Ok(Transformed::no(node)),
    };
    // Operators above were planned with these columns.
    Ok(match replaced.schema() == node.schema() {
        true => Transformed::yes(Arc::new(replaced)),
        false => Transformed::no(node),
    })
}

/// Whether fewer bytes move if the smaller side goes to all nodes as a whole than if rows of both
/// go to the node of their key. The optimizer makes the smaller side the left one.
fn is_sent_whole(join: &HashJoinExec, nodes: usize) -> Result<bool> {
    let context = StatisticsContext::new();
    let bytes = |side: &Arc<dyn ExecutionPlan>| {
        let statistics = context.compute(side.as_ref(), &StatisticsArgs::new())?;
        let rows = statistics.num_rows.get_value().copied();
        let width = || Some(rows?.saturating_mul(8 * side.schema().fields().len()));
        Ok::<_, DataFusionError>(
            statistics
                .total_byte_size
                .get_value()
                .copied()
                .or_else(width),
        )
    };
    let (Some(left), Some(right)) = (bytes(join.left())?, bytes(join.right())?) else {
        return Ok(false);
    };
    Ok(left.min(right).saturating_mul(nodes - 1) <= left.max(right))
}

/// The partition keys of a window operator.
fn window_keys(node: &Arc<dyn ExecutionPlan>) -> Option<Vec<Arc<dyn PhysicalExpr>>> {
    let window = node.downcast_ref::<WindowAggExec>();
    let bounded = node.downcast_ref::<BoundedWindowAggExec>();
    let exprs = window
        .map(WindowAggExec::window_expr)
        .or(bounded.map(BoundedWindowAggExec::window_expr))?;
    Some(exprs.first()?.partition_by().to_vec())
}

/// A window whose sorted input names all of its partition keys.
///
/// A sort leaves out keys that a filter below has made constant. A node that gets the rows from
/// others does not know of the filter, and would find its input not sorted.
pub(super) fn sorted_by_all_keys(
    node: Arc<dyn ExecutionPlan>,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(keys) = window_keys(&node) else {
        return Ok(Transformed::no(node));
    };
    match sorted_by(node.children()[0], &keys)? {
        Some(input) => replace_children_if_necessary(node, vec![input]).map(Transformed::yes),
        None => Ok(Transformed::no(node)),
    }
}

/// `plan` with a sort that has all `keys`; `None` if it is not sorted here or has them.
fn sorted_by(
    plan: &Arc<dyn ExecutionPlan>,
    keys: &[Arc<dyn PhysicalExpr>],
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if window_keys(plan).is_some() {
        // It adds columns behind those of its input, so keys are the same below.
        let below = sorted_by(plan.children()[0], keys)?;
        let plan = Arc::clone(plan);
        let plan = below.map(|below| replace_children_if_necessary(plan, vec![below]));
        return plan.transpose();
    }
    let Some(sort) = plan.downcast_ref::<SortExec>() else {
        return Ok(None);
    };
    let sorted = sort.expr();
    let is_sorted = |key: &Arc<dyn PhysicalExpr>| sorted.iter().any(|by| by.expr.eq(key));
    let width = sort.input().schema().fields().len();
    let missing = keys
        .iter()
        .filter(|key| !is_sorted(key) && is_of(key, width));
    let missing = missing.map(|key| PhysicalSortExpr::new_default(Arc::clone(key)));
    // Constants in front change no order.
    let all: Vec<_> = missing.chain(sorted.iter().cloned()).collect();
    let Some(all) = LexOrdering::new(all).filter(|all| all.len() > sorted.len()) else {
        return Ok(None);
    };
    let sort = SortExec::new(all, Arc::clone(sort.input()))
        .with_fetch(sort.fetch())
        .with_preserve_partitioning(sort.preserve_partitioning());
    Ok(Some(Arc::new(sort)))
}

/// Whether an expression reads only the first `width` columns.
fn is_of(expr: &Arc<dyn PhysicalExpr>, width: usize) -> bool {
    collect_columns(expr)
        .iter()
        .all(|column| column.index() < width)
}
