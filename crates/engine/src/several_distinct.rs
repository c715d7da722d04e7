//! Distinct values of several columns.

use crate::repeatable::is_repeatable;
use crate::star_order::placed_table;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::AggregateFunctionParams;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// Makes `SELECT count(DISTINCT a), count(DISTINCT b), sum(c) FROM t` three aggregations of `t`
/// with a row each, which are joined.
///
/// DataFusion keeps a set of the values of each of them on each thread and joins these sets on one.
/// An aggregation with the distinct values of one column alone becomes the groups by it, which all
/// threads find. The table is read once for each; so only what is read from a table and filtered.
#[derive(Debug, Default)]
pub(crate) struct SeveralDistinct;

impl SeveralDistinct {
    /// The rule after which this one belongs: filters are at the tables by then.
    pub(crate) const AFTER: &str = "push_down_filter";
}

impl OptimizerRule for SeveralDistinct {
    fn name(&self) -> &'static str {
        "tierloom_several_distinct"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = plan else {
            return Ok(Transformed::no(plan));
        };
        Ok(match one_by_one(&aggregate)? {
            Some(made) => Transformed::yes(made),
            None => Transformed::no(LogicalPlan::Aggregate(aggregate)),
        })
    }
}

/// The same with the distinct values of one column in each aggregation; `None` if that is so.
fn one_by_one(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    if !aggregate.group_expr.is_empty() {
        return Ok(None);
    }
    // Those of the same values, and all that are of no distinct values.
    let mut parts: Vec<(Option<&AggregateFunctionParams>, Vec<Expr>)> = Vec::new();
    for expr in &aggregate.aggr_expr {
        let of = distinct_values(expr);
        let is_same = |(other, _): &&mut (Option<&AggregateFunctionParams>, _)| match (other, of) {
            (None, None) => true,
            (Some(a), Some(b)) => a.args == b.args && a.filter == b.filter,
            _ => false,
        };
        match parts.iter_mut().find(is_same) {
            Some((_, part)) => part.push(expr.clone()),
            None => parts.push((of, vec![expr.clone()])),
        }
    }
    let distinct = parts.iter().filter(|(of, _)| of.is_some()).count();
    let input = &aggregate.input;
    if distinct < 2 || placed_table(input).is_none() || !is_repeatable(input)? {
        return Ok(None);
    }
    let mut joined: Option<LogicalPlanBuilder> = None;
    for (_, part) in parts {
        let alone = Aggregate::try_new(Arc::clone(input), Vec::new(), part)?;
        let alone = LogicalPlan::Aggregate(alone);
        joined = Some(match joined {
            Some(joined) => joined.cross_join(alone)?,
            None => LogicalPlanBuilder::from(alone),
        });
    }
    let columns = aggregate.schema.iter().map(Column::from);
    let made = joined.map(|joined| joined.project(columns.map(Expr::Column))?.build());
    made.transpose()
}

/// What an aggregate of distinct values is of; `None` for one of all values.
fn distinct_values(expr: &Expr) -> Option<&AggregateFunctionParams> {
    match expr {
        Expr::AggregateFunction(function) => {
            Some(&function.params).filter(|params| params.distinct)
        }
        _ => None,
    }
}
