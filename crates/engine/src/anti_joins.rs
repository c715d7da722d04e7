//! Outer joins of which only the rows without a match are asked for.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, NullEquality, Result, ScalarValue};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan, Projection};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// Makes `f LEFT JOIN r ON f.k = r.k WHERE r.k IS NULL` an anti join.
///
/// A row with a match has a key that is not NULL, so the condition says that there is none. The
/// columns of `r` become NULLs, which usually nothing reads.
#[derive(Debug, Default)]
pub(crate) struct AntiJoinsByNulls;

impl AntiJoinsByNulls {
    /// The rule that brings conditions to their join, after which this one belongs.
    pub(crate) const AFTER: &str = "push_down_filter";
}

impl OptimizerRule for AntiJoinsByNulls {
    fn name(&self) -> &'static str {
        "tierloom_anti_joins_by_nulls"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = &plan else {
            return Ok(Transformed::no(plan));
        };
        let LogicalPlan::Join(join) = filter.input.as_ref() else {
            return Ok(Transformed::no(plan));
        };
        let conditions = split_conjunction(&filter.predicate);
        let (missing, others): (Vec<&Expr>, Vec<&Expr>) = conditions
            .into_iter()
            .partition(|condition| says_no_match(join, condition));
        if missing.is_empty() {
            return Ok(Transformed::no(plan));
        }
        let rows = without_match(join)?;
        Ok(Transformed::yes(
            match conjunction(others.into_iter().cloned()) {
                Some(others) => LogicalPlan::Filter(Filter::try_new(others, Arc::new(rows))?),
                None => rows,
            },
        ))
    }
}

/// Whether `condition` is true for the rows of an outer join without a match, and for no others.
fn says_no_match(join: &Join, condition: &Expr) -> bool {
    let Expr::IsNull(inner) = condition else {
        return false;
    };
    let Some(column) = inner.try_as_col() else {
        return false;
    };
    if join.null_equality != NullEquality::NullEqualsNothing || join.null_aware {
        return false;
    }
    let is = |key: &Expr| key.try_as_col() == Some(column);
    match join.join_type {
        JoinType::Left => join.on.iter().any(|(_, right)| is(right)),
        JoinType::Right => join.on.iter().any(|(left, _)| is(left)),
        _ => false,
    }
}

/// The rows of an outer join that have no match, with all its columns.
fn without_match(join: &Join) -> Result<LogicalPlan> {
    let left_columns = 0..join.left.schema().fields().len();
    let (join_type, keeps_left) = match join.join_type {
        JoinType::Left => (JoinType::LeftAnti, true),
        _ => (JoinType::RightAnti, false),
    };
    let anti = Join::try_new(
        Arc::clone(&join.left),
        Arc::clone(&join.right),
        join.on.clone(),
        join.filter.clone(),
        join_type,
        join.join_constraint,
        join.null_equality,
        false,
    )?;
    let columns = join
        .schema
        .iter()
        .enumerate()
        .map(|(index, (qualifier, field))| {
            if left_columns.contains(&index) == keeps_left {
                return Ok(Expr::Column(Column::new(qualifier.cloned(), field.name())));
            }
            let null = Expr::Literal(ScalarValue::try_from(field.data_type())?, None);
            Ok(null.alias_qualified(qualifier.cloned(), field.name()))
        });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let anti = Arc::new(LogicalPlan::Join(anti));
    Ok(LogicalPlan::Projection(Projection::try_new(columns, anti)?))
}
