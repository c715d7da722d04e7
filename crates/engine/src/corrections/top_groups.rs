//! Groups that are given up early because a `LIMIT` above them wants only the first.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
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
/// aggregation: `SELECT m FROM (SELECT max(v) AS m FROM t GROUP BY k) GROUP BY m ORDER BY m LIMIT n`
/// keeps n groups of the inner one too, although several of them may be one group of the outer one.
/// This rule follows the position of the column, and takes back what goes further. It must run
/// after DataFusion's.
#[derive(Debug, Default)]
pub(crate) struct TopGroups;

impl PhysicalOptimizerRule for TopGroups {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        checked(plan, Wanted::All)
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
enum Wanted {
    All,
    /// The first by the column at this position.
    First(usize),
    /// The first by this column of partial groups, which an aggregation above completes.
    FirstPartial(usize),
}

impl Wanted {
    /// The same, by the position that `of` has for the column.
    fn at(self, of: impl Fn(usize) -> Option<usize>) -> Wanted {
        match self {
            Wanted::All => Wanted::All,
            Wanted::First(column) => of(column).map_or(Wanted::All, Wanted::First),
            Wanted::FirstPartial(column) => of(column).map_or(Wanted::All, Wanted::FirstPartial),
        }
    }
}

fn checked(plan: Arc<dyn ExecutionPlan>, wanted: Wanted) -> Result<Arc<dyn ExecutionPlan>> {
    let (plan, below) = match plan.downcast_ref::<AggregateExec>() {
        Some(aggregate) => {
            let first = is_first(aggregate, wanted);
            let limits = aggregate.limit_options();
            let cut = limits.is_some_and(|limit| limit.descending().is_some());
            let below = match (wanted, aggregate.mode()) {
                (Wanted::First(column), AggregateMode::Final | AggregateMode::FinalPartitioned)
                    if first =>
                {
                    Wanted::FirstPartial(column)
                }
                _ => Wanted::All,
            };
            match cut && !first {
                true => {
                    let whole = aggregate.with_new_limit_options(None);
                    (Arc::new(whole) as Arc<dyn ExecutionPlan>, below)
                }
                false => (plan, below),
            }
        }
        None => {
            let below = wanted_below(&plan, wanted);
            (plan, below)
        }
    };
    let children: Vec<_> = plan.children().into_iter().cloned().collect();
    if children.is_empty() {
        return Ok(plan);
    }
    let mut changed = Vec::with_capacity(children.len());
    for child in &children {
        changed.push(checked(Arc::clone(child), below)?);
    }
    let same = children.iter().zip(&changed);
    if same.into_iter().all(|(a, b)| Arc::ptr_eq(a, b)) {
        return Ok(plan);
    }
    plan.with_new_children(changed)
}

/// Whether the first groups of the aggregation are the rows that are wanted of it.
fn is_first(aggregate: &AggregateExec, wanted: Wanted) -> bool {
    let partial = *aggregate.mode() == AggregateMode::Partial;
    let column = match wanted {
        Wanted::All => return false,
        Wanted::First(column) if !partial => column,
        Wanted::FirstPartial(column) if partial => column,
        Wanted::First(_) | Wanted::FirstPartial(_) => return false,
    };
    // The key comes first, then the one aggregate, whose partial state is its value.
    match aggregate.aggr_expr() {
        [] => column == 0,
        [_] => column == 1,
        _ => false,
    }
}

/// The rows that an operator needs of its children.
fn wanted_below(plan: &Arc<dyn ExecutionPlan>, wanted: Wanted) -> Wanted {
    let position = |expr: &Arc<dyn datafusion::physical_plan::PhysicalExpr>| {
        expr.downcast_ref::<Column>().map(Column::index)
    };
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        return match (sort.fetch(), sort.expr().as_ref()) {
            (Some(_), [by]) => position(&by.expr).map_or(Wanted::All, Wanted::First),
            _ => Wanted::All,
        };
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return wanted.at(|column| position(&projection.expr().get(column)?.expr));
    }
    match plan.children().as_slice() {
        [child] if child.schema() == plan.schema() => match plan.cardinality_effect() {
            CardinalityEffect::Equal => wanted,
            _ => Wanted::All,
        },
        _ => Wanted::All,
    }
}
