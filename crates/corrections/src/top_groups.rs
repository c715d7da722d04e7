//! Groups that are given up early because a `LIMIT` above them wants only the first.

use crate::Walk;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use std::sync::Arc;

/// Keeps all groups where the first groups of an aggregation are not the first rows above.
///
/// `ORDER BY x LIMIT n` over an aggregation needs its first n groups only, if x is its key or its
/// `min` or `max`. DataFusion 55 looks for the column by its name and goes on below that
/// aggregation. `SELECT m FROM (SELECT max(v) AS m FROM t GROUP BY k) GROUP BY m ORDER BY m LIMIT
/// 5` keeps five groups of the inner one too, although several may be one of the outer one. This
/// rule follows the position of the column, and takes back what goes further. It must run after
/// DataFusion's.
#[derive(Debug, Default)]
pub(crate) struct TopGroups;

impl PhysicalOptimizerRule for TopGroups {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        checked(plan, Needed::All)
    }

    fn name(&self) -> &str {
        "tierloom_top_groups"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The rows of an operator that those above need.
#[derive(Debug, Clone, Copy)]
enum Needed {
    All,
    /// The first by the column at this position.
    First(usize),
    /// The first by this column of partial groups, which an aggregation above completes.
    FirstPartial(usize),
}

impl Needed {
    /// The same, by the position that `of` has for the column.
    fn at(self, of: impl Fn(usize) -> Option<usize>) -> Needed {
        match self {
            Needed::All => Needed::All,
            Needed::First(column) => of(column).map_or(Needed::All, Needed::First),
            Needed::FirstPartial(column) => of(column).map_or(Needed::All, Needed::FirstPartial),
        }
    }
}

fn checked(plan: Arc<dyn ExecutionPlan>, needed: Needed) -> Result<Arc<dyn ExecutionPlan>> {
    let below = needed_below(&plan, needed);
    let plan = match plan.downcast_ref::<AggregateExec>() {
        Some(aggregate)
            if is_cut(aggregate) && (!is_first(aggregate, needed) || has_float_key(aggregate)) =>
        {
            Arc::new(aggregate.with_new_limit_options(None)) as _
        }
        _ => plan,
    };
    plan.change_children(&mut |child| {
        let whole = checked(Arc::clone(&child), below)?;
        let changed = !Arc::ptr_eq(&child, &whole);
        Ok(Transformed::new_transformed(whole, changed))
    })
    .data()
}

/// Whether the aggregation keeps only its first groups by their order.
fn is_cut(aggregate: &AggregateExec) -> bool {
    let limit = aggregate.limit_options();
    limit.is_some_and(|limit| limit.descending().is_some())
}

/// Whether groups are floats, of which the first ones hold a NaN once for each row that has it.
fn has_float_key(aggregate: &AggregateExec) -> bool {
    let schema = aggregate.schema();
    let keys = schema
        .fields()
        .iter()
        .take(aggregate.group_expr().expr().len());
    keys.into_iter().any(|key| key.data_type().is_floating())
}

/// Whether the first groups of the aggregation are the rows that are needed of it.
fn is_first(aggregate: &AggregateExec, needed: Needed) -> bool {
    let partial = *aggregate.mode() == AggregateMode::Partial;
    let column = match needed {
        Needed::All => return false,
        Needed::First(column) if !partial => column,
        Needed::FirstPartial(column) if partial => column,
        Needed::First(_) | Needed::FirstPartial(_) => return false,
    };
    // The key comes first, then the one aggregate, whose partial state is its value.
    match aggregate.aggr_expr() {
        [] => column == 0,
        [_] => column == 1,
        _ => false,
    }
}

/// The rows that an operator needs of its children.
fn needed_below(plan: &Arc<dyn ExecutionPlan>, needed: Needed) -> Needed {
    let position = |expr: &Arc<dyn datafusion::physical_plan::PhysicalExpr>| {
        expr.downcast_ref::<Column>().map(Column::index)
    };
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        return match (sort.fetch(), sort.expr().as_ref()) {
            (Some(_), [by]) => position(&by.expr).map_or(Needed::All, Needed::First),
            _ => Needed::All,
        };
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return match (needed, aggregate.mode()) {
            (Needed::First(column), AggregateMode::Final | AggregateMode::FinalPartitioned)
                if is_first(aggregate, needed) =>
            {
                Needed::FirstPartial(column)
            }
            _ => Needed::All,
        };
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return needed.at(|column| position(&projection.expr().get(column)?.expr));
    }
    match plan.children().as_slice() {
        [child] if child.schema() == plan.schema() => match plan.cardinality_effect() {
            CardinalityEffect::Equal => needed,
            _ => Needed::All,
        },
        _ => Needed::All,
    }
}
