//! Columns that are constant below an operator, and are not above it.

use crate::pass_through::PassThrough;
use crate::walk::Walk;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{JoinType, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::sync::Arc;

/// Tells the planner nothing of the values of its input's rows or of their order.
static ANY_VALUES: PassThrough = PassThrough {
    name: "AnyValuesExec",
    hides_values: true,
    stream: |rows| rows,
};

/// The input of `plan` if it only hides from the planner what is known of its rows.
///
/// The rows are those of the input, column by column: what drops some of them may do so below.
pub fn input_with_known_values(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    ANY_VALUES.input_of(plan)
}

/// Keeps from the planner that columns are constant below an outer join or grouping sets that fill
/// them up with NULLs.
///
/// In `f LEFT JOIN d ON f.id = d.id AND d.kind = 5`, `d.kind` is 5 before the join, and 5 or NULL
/// after it; in `WHERE y = 2020 GROUP BY ROLLUP (y)`, `y` is NULL for the total. DataFusion 55
/// takes such columns for constant above as well: it leaves them out of sorts, and treats rows as
/// sorted by them in group-bys and windows, which then end groups too early and return them several
/// times. Equalities fail in the same way: `coalesce(d.kind, 0)` is not NULL where `d.kind` is, and
/// of two keys that are equal in the input one is NULL in a set without it.
///
/// The same for `UNION ALL` of inputs with constants, such as a column that says where a row is
/// from, or with equal columns. Each partition is then sorted without such a column, but the
/// partitions of `ORDER BY ... LIMIT` share the bound beyond which rows are dropped, and above the
/// union nothing is known of the column ("SanityCheckPlan").
///
/// The rule must run before all others, because those leave out sorts.
#[derive(Debug, Default)]
pub(crate) struct NullFilled;

impl PhysicalOptimizerRule for NullFilled {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut change = |node: Arc<dyn ExecutionPlan>| {
            if node.is::<UnionExec>() && node.children().into_iter().any(knows_equalities) {
                return Ok(Transformed::yes(ANY_VALUES.over(node)));
            }
            let inputs = node.children().into_iter();
            let affected: Vec<bool> = inputs
                .zip(fills_up(&node))
                .map(|(input, filled)| match filled {
                    Filled::No => false,
                    Filled::Rows => will_know(input, knows_values),
                    Filled::Values => will_know(input, knows_equalities),
                })
                .collect();
            if !affected.contains(&true) {
                return Ok(Transformed::no(node));
            }
            if node.is::<SortMergeJoinExec>() {
                // It need not sort an input whose keys are constant.
                return Ok(Transformed::yes(ANY_VALUES.over(node)));
            }
            let inputs = node.children().into_iter().zip(affected);
            let inputs = inputs.map(|(input, affected)| match affected {
                true => ANY_VALUES.over(Arc::clone(input)),
                false => Arc::clone(input),
            });
            let inputs = inputs.collect();
            let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            node.replace_children(inputs, recompute)
                .map(Transformed::yes)
        };
        plan.up(&mut change).data()
    }

    fn name(&self) -> &str {
        "tierloom_null_filled"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Where an operator puts NULLs into the columns of an input.
#[derive(Clone, Copy)]
enum Filled {
    /// Nowhere.
    No,
    /// Into all columns of some rows.
    Rows,
    /// Into some columns of some rows.
    Values,
}

fn fills_up(node: &Arc<dyn ExecutionPlan>) -> [Filled; 2] {
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        return match aggregate.group_expr().has_grouping_set() {
            true => [Filled::Values, Filled::No],
            false => [Filled::No; 2],
        };
    }
    let join = if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        join.join_type
    } else if let Some(join) = node.downcast_ref::<SortMergeJoinExec>() {
        join.join_type
    } else if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        *join.join_type()
    } else {
        return [Filled::No; 2];
    };
    match join {
        JoinType::Left => [Filled::No, Filled::Rows],
        JoinType::Right => [Filled::Rows, Filled::No],
        JoinType::Full => [Filled::Rows; 2],
        _ => [Filled::No; 2],
    }
}

/// Whether the planner knows something of an input, or will when it has exchanged the sides of a
/// cross join below: what it knows of one side is lost until then.
fn will_know(input: &Arc<dyn ExecutionPlan>, knows: fn(&Arc<dyn ExecutionPlan>) -> bool) -> bool {
    let mut inputs = input.children().into_iter();
    let is_hidden =
        |side| (input.is::<CrossJoinExec>() || has_cross_join(side)) && will_know(side, knows);
    knows(input) || inputs.any(is_hidden)
}

fn has_cross_join(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<CrossJoinExec>() || plan.children().into_iter().any(has_cross_join)
}

/// Whether the planner knows columns that equal others or a constant.
fn knows_equalities(input: &Arc<dyn ExecutionPlan>) -> bool {
    !input.equivalence_properties().eq_group().is_empty()
}

/// Whether the planner knows values of the rows, or equalities that may not hold of NULLs.
fn knows_values(input: &Arc<dyn ExecutionPlan>) -> bool {
    let known = input.equivalence_properties();
    let is_column = |member: &Arc<dyn PhysicalExpr>| member.is::<Column>();
    let mut classes = known.eq_group().iter();
    !known.constants().is_empty() || !classes.all(|class| class.iter().all(is_column))
}
