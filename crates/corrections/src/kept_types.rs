//! Rules that change the types of columns.

use super::operator_holds;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Projection};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// `single_distinct_aggregation_to_group_by` of DataFusion 55, with the types of before.
///
/// It groups by what is counted once, and adds the sums of these groups. A sum of decimals has ten
/// digits more than they have, and so a sum of sums twenty: the type of the column changes, and a
/// `HAVING` above, which was planned for the other type, fails. It is not applied at all where two
/// keys have one name.
#[derive(Debug)]
pub(crate) struct KeptTypes(pub Arc<dyn OptimizerRule + Send + Sync>);

impl KeptTypes {
    pub(crate) const NAME: &str = "single_distinct_aggregation_to_group_by";
}

impl OptimizerRule for KeptTypes {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if !counts_distinct(&plan)? || has_two_keys_of_one_name(&plan) {
            return Ok(Transformed::no(plan));
        }
        let before = Arc::clone(plan.schema());
        let done = self.0.rewrite(plan, config)?;
        if !done.transformed || same_types(&before, done.data.schema()) {
            return Ok(done);
        }
        done.map_data(|plan| as_before(plan, &before))
    }
}

/// Whether an aggregation is one of those that the rule is for.
fn counts_distinct(plan: &LogicalPlan) -> Result<bool> {
    let is_distinct =
        |expr: &Expr| matches!(expr, Expr::AggregateFunction(function) if function.params.distinct);
    Ok(matches!(plan, LogicalPlan::Aggregate(_)) && operator_holds(plan, is_distinct)?)
}

/// Whether two keys of an aggregation have the same name, such as a column and its cast: the rule
/// would give both to one projection, which fails.
fn has_two_keys_of_one_name(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Aggregate(aggregate) = plan else {
        return false;
    };
    let names = aggregate.group_expr.iter();
    let names: Vec<String> = names.map(|key| key.schema_name().to_string()).collect();
    (1..names.len()).any(|end| names[..end].contains(&names[end]))
}

fn same_types(one: &DFSchema, other: &DFSchema) -> bool {
    let types = one.fields().iter().zip(other.fields());
    types
        .into_iter()
        .all(|(a, b)| a.data_type() == b.data_type())
}

/// The columns of `plan` with the types and names of `before`.
fn as_before(plan: LogicalPlan, before: &DFSchema) -> Result<LogicalPlan> {
    let now = Arc::clone(plan.schema());
    let columns = now.iter().zip(before.iter());
    let columns = columns.map(|((table, field), (of, was))| {
        let column = Expr::Column(Column::new(table.cloned(), field.name()));
        let cast = column.cast_to(was.data_type(), &now)?;
        Ok(cast.alias_qualified(of.cloned(), was.name()))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(LogicalPlan::Projection(Projection::try_new(
        columns,
        Arc::new(plan),
    )?))
}
