//! Columns that were unique before a join.
//!
//! DataFusion 55 knows of `SELECT k, count(*) FROM t GROUP BY k` that `k` determines all columns,
//! and of a join with it that `k` determines those of this input. Of a group-by over the join it
//! then concludes that `k` determines all groups: it removes further keys and `DISTINCT`, so that
//! `SELECT c, count(*) FROM (SELECT d.k AS c, f.x AS m FROM d JOIN f ... GROUP BY d.k, f.x) GROUP
//! BY c, m` had a row per `c` only. It also adds keys that a query does not name.
//!
//! [`KeylessRelations`] hides keys from the planner, [`KeylessJoins`] those of joins from the
//! optimizer, which derives them again.

use super::{has_join, has_operator};
use crate::walk::{Walk, WalkAll};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{FunctionalDependencies, Result};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::utils::expand_wildcard;
use datafusion::logical_expr::{Aggregate, Distinct, LogicalPlan, Projection};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::sql::sqlparser::ast::TableFactor;
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    /// Whether the next relation is the one that the planner itself asks for.
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// Hides which columns of subqueries and common table expressions are unique.
#[derive(Debug, Default)]
pub(crate) struct KeylessRelations;

impl RelationPlanner for KeylessRelations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        // The planner looks for joins at the top of a lateral subquery's plan.
        let may_have_keys = matches!(
            relation,
            TableFactor::Derived { lateral: false, .. } | TableFactor::Table { args: None, .. }
        );
        if OWN.take() || !may_have_keys {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        OWN.set(true);
        let plan = context.plan(relation);
        OWN.set(false);
        let plan = match plan? {
            // Keys of tables are declared, and groups by them may leave out the other columns.
            scan @ LogicalPlan::TableScan(_) => scan,
            plan => without_keys(plan)?,
        };
        // The alias is part of the plan already.
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(
            plan, None,
        ))))
    }
}

/// Hides the keys of joins from `DISTINCT` and group-bys above them, before the rule of that name.
#[derive(Debug, Default)]
pub(crate) struct KeylessJoins;

impl KeylessJoins {
    /// The rules of DataFusion that go by keys.
    pub(crate) const BEFORE: [&'static str; 2] =
        ["replace_distinct_aggregate", "optimize_projections"];
}

impl OptimizerRule for KeylessJoins {
    fn name(&self) -> &str {
        "tierloom_keyless_joins"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let may_group = |node: &LogicalPlan| match node {
            LogicalPlan::Aggregate(aggregate) => has_keys(&aggregate.input),
            node => matches!(node, LogicalPlan::Distinct(Distinct::All(_))),
        };
        if !has_operator(&plan, may_group)? {
            return Ok(Transformed::no(plan));
        }
        plan.down_all(&mut |node| match node {
            LogicalPlan::Aggregate(mut aggregate) if joins_keys(&aggregate.input)? => {
                let input = Arc::unwrap_or_clone(aggregate.input);
                aggregate.input = Arc::new(without_keys(input)?);
                Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
            }
            LogicalPlan::Distinct(Distinct::All(ref input)) if joins_groups(input)? => {
                // DISTINCT below would become groups, and keys, before the rule comes to this one.
                let keys = expand_wildcard(input.schema(), input, None)?;
                if keys.is_empty() {
                    return Ok(Transformed::no(node));
                }
                let input = without_keys(input.as_ref().clone())?;
                let groups = Aggregate::try_new(Arc::new(input), keys, Vec::new())?;
                Ok(Transformed::yes(LogicalPlan::Aggregate(groups)))
            }
            other => Ok(Transformed::no(other)),
        })
    }
}

/// Whether a plan has joins, and a key after them.
fn joins_keys(plan: &LogicalPlan) -> Result<bool> {
    Ok(has_keys(plan) && has_join(plan)?)
}

/// Whether a plan has joins, and groups that are or will be known as unique.
fn joins_groups(plan: &LogicalPlan) -> Result<bool> {
    let mut is_unique = |node: &LogicalPlan| {
        let is_group = matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_));
        Ok(is_group || has_keys(node))
    };
    Ok(has_join(plan)? && plan.has(&mut is_unique)?)
}

fn has_keys(plan: &LogicalPlan) -> bool {
    !plan.schema().functional_dependencies().is_empty()
}

/// The plan below a projection of all of its columns, of which no key is known.
fn without_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !has_keys(&plan) {
        return Ok(plan);
    }
    let schema = plan.schema().as_ref().clone();
    let schema = schema.with_functional_dependencies(FunctionalDependencies::empty())?;
    Ok(LogicalPlan::Projection(Projection::new_from_schema(
        Arc::new(plan),
        Arc::new(schema),
    )))
}
