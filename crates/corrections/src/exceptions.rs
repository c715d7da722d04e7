//! DataFusion's logical rules that are right but for some plans.

use super::has_join;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::logical_expr::{Expr, Join, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::collections::HashSet;
use std::sync::Arc;

/// Whether a rule must leave a plan alone.
type IsLeft = fn(&LogicalPlan) -> Result<bool>;

/// A rule of DataFusion that leaves the plans alone for which it is wrong.
#[derive(Debug)]
pub(crate) struct Except {
    rule: Arc<dyn OptimizerRule + Send + Sync>,
    is_left: IsLeft,
}

impl Except {
    /// The rules with exceptions.
    #[cfg(test)]
    pub(crate) fn names() -> [&'static str; EXCEPTIONS.len()] {
        EXCEPTIONS.map(|(name, _)| name)
    }

    /// `rule` with its exception, or `rule` itself if it has none.
    pub(crate) fn around(
        rule: Arc<dyn OptimizerRule + Send + Sync>,
    ) -> Arc<dyn OptimizerRule + Send + Sync> {
        match EXCEPTIONS.iter().find(|(name, _)| *name == rule.name()) {
            Some((_, is_left)) => Arc::new(Except {
                rule,
                is_left: *is_left,
            }),
            None => rule,
        }
    }
}

const EXCEPTIONS: [(&str, IsLeft); 5] = [
    ("eliminate_group_by_constant", has_one_key_name_twice),
    ("eliminate_duplicated_expr", is_sort),
    ("eliminate_cross_join", has_null_equal_inner_join),
    ("extract_equijoin_predicate", is_null_equal_join),
    ("eliminate_join", is_over_outer_join_of_joins),
];

impl OptimizerRule for Except {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match (self.is_left)(&plan)? {
            true => Ok(Transformed::no(plan)),
            false => self.rule.rewrite(plan, config),
        }
    }
}

/// Outer joins stay where joins are below them.
///
/// The rule of DataFusion 55 removes an outer join of which one side is not used, if the join finds
/// at most one row of that side for each of the other. It goes by the dependencies of [`is_sort`]:
/// a column that was unique before an inner join is not unique after it.
///
/// It looks at the operators above the join, which show what is used.
fn is_over_outer_join_of_joins(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| match node {
        LogicalPlan::Join(join) if join.join_type != JoinType::Inner => {
            Ok(has_join(&join.left)? || has_join(&join.right)?)
        }
        _ => Ok(false),
    })
}

/// Sorts keep all of their keys.
///
/// From a sort the rule of DataFusion 55 also removes expressions that are functionally dependent
/// on earlier ones, by dependencies that it propagates through joins. In `SELECT f.id, d.k FROM f,
/// (SELECT k FROM t GROUP BY k) d WHERE ... GROUP BY f.id, d.k ORDER BY d.k, f.id` it concludes
/// that `d.k`, unique before the join, determines `f.id`, and so leaves rows of one `d.k` in any
/// order.
fn is_sort(plan: &LogicalPlan) -> Result<bool> {
    Ok(matches!(plan, LogicalPlan::Sort(_)))
}

/// Aggregates keep their keys where two have one name.
///
/// The rule of DataFusion 55 removes keys that follow from others and adds a projection of all of
/// them. A cast has the name of what it casts, so that of `GROUP BY CAST(a AS DATE), a` the
/// projection is refused.
fn has_one_key_name_twice(plan: &LogicalPlan) -> Result<bool> {
    let LogicalPlan::Aggregate(aggregate) = plan else {
        return Ok(false);
    };
    let mut names = HashSet::new();
    let mut is_new = |key: &Expr| names.insert(key.schema_name().to_string());
    Ok(!aggregate.group_expr.iter().all(&mut is_new))
}

/// Inner joins for which NULL equals NULL stay together.
///
/// The rule of DataFusion 55 takes chains of inner joins apart and puts them together with the
/// usual equality, so that `x.a IS NOT DISTINCT FROM y.a` lost the rows in which both are NULL. It
/// rewrites subqueries too.
fn has_null_equal_inner_join(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::Join(join)
            if join.join_type == JoinType::Inner && null_equals_null(join));
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// Joins for which NULL equals NULL get no further keys.
///
/// The rule of DataFusion 55 makes a key of `x.b = y.b` too, for which NULL then equals NULL as
/// well.
fn is_null_equal_join(plan: &LogicalPlan) -> Result<bool> {
    Ok(matches!(plan, LogicalPlan::Join(join) if null_equals_null(join) && !join.on.is_empty()))
}

fn null_equals_null(join: &Join) -> bool {
    join.null_equality == NullEquality::NullEqualsNull
}
