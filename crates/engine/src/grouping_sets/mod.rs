//! `ROLLUP`, `CUBE` and `GROUPING SETS` from the groups by all of their columns.
//!
//! DataFusion 55 adds each row to a group of every set. Here rows are grouped once, by all columns
//! that any set has, and the groups of each set are made of the states of these groups, of which
//! there are fewer. The aggregation of the rows is then a plain one, so that it can be part of a
//! star join or use the operator for many groups.

mod exec;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use exec::GroupingSetsExec;
use std::sync::Arc;
use tierloom_corrections::Walk;

/// Replaces the first step of aggregations with grouping sets; see the module documentation.
#[derive(Debug, Default)]
pub(crate) struct GroupingSets;

impl GroupingSets {
    /// The rule before which this one belongs: what it makes needs repartitioning.
    pub(crate) const BEFORE: &str = "EnsureRequirements";
}

impl PhysicalOptimizerRule for GroupingSets {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.up(&mut |node| {
            let replaced = match node.downcast_ref::<AggregateExec>() {
                Some(aggregate) if applies(aggregate) => in_three_steps(aggregate)?,
                _ => None,
            };
            Ok(match replaced {
                Some(plan) => Transformed::yes(plan),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "tierloom_grouping_sets"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn applies(aggregate: &AggregateExec) -> bool {
    let sets = aggregate.group_expr();
    let is_plain = |function: &Arc<_>| -> bool {
        let function: &datafusion::physical_expr::aggregate::AggregateFunctionExpr = function;
        // States of distinct values are as long as the rows of a group, and an order of rows is
        // lost between the steps.
        !function.is_distinct() && function.order_bys().is_empty()
    };
    *aggregate.mode() == AggregateMode::Partial
        && sets.has_grouping_set()
        && sets.groups().len() > 1
        && !sets.expr().is_empty()
        && aggregate.aggr_expr().iter().all(is_plain)
}

/// States by all columns, then those of each set, then those of equal groups put together; `None`
/// if that has other columns than `aggregate`.
fn in_three_steps(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let sets = aggregate.group_expr();
    let finest = AggregateExec::try_new(
        AggregateMode::Partial,
        PhysicalGroupBy::new_single(sets.expr().to_vec()),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )?;
    let states = aggregate.schema();
    let expanded = GroupingSetsExec::new(Arc::new(finest), aggregate)?;
    let reduced = AggregateExec::try_new(
        AggregateMode::PartialReduce,
        sets.as_final(),
        aggregate.aggr_expr().to_vec(),
        vec![None; aggregate.aggr_expr().len()],
        Arc::new(expanded),
        aggregate.input_schema(),
    )?;
    // Without what is only a description of the columns.
    let plain = |schema: SchemaRef| Schema::new(schema.fields().clone());
    let is_same = plain(reduced.schema()) == plain(states);
    Ok(is_same.then(|| Arc::new(reduced) as _))
}

/// The sets, over groups by all of their columns, which come first.
fn over_groups(sets: &PhysicalGroupBy) -> PhysicalGroupBy {
    let columns = sets.expr().iter().enumerate().map(|(index, (_, name))| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(name, index));
        (column, name.clone())
    });
    PhysicalGroupBy::new(
        columns.collect(),
        sets.null_expr().to_vec(),
        sets.groups().to_vec(),
        true,
    )
}
