//! Outer joins whose rows with NULL other joins drop.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, SubqueryAlias};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::sync::Arc;
use tierloom_corrections::Walk;

/// Makes an outer join an inner one where a join above compares a column that the outer join fills
/// with NULL: `f LEFT JOIN r ON ..., d WHERE r.k = d.k`.
///
/// DataFusion's rule of this kind looks at filters, and a condition between two tables has become a
/// join. Inner joins can be put into another order, and be star joins.
#[derive(Debug, Default)]
pub(crate) struct OuterJoinsByKeys;

impl OuterJoinsByKeys {
    /// DataFusion's rule, after which this one belongs.
    pub(crate) const AFTER: &str = "eliminate_outer_join";
}

impl OptimizerRule for OuterJoinsByKeys {
    fn name(&self) -> &'static str {
        "tierloom_outer_joins_by_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = plan else {
            return Ok(Transformed::no(plan));
        };
        if join.null_equality != NullEquality::NullEqualsNothing || join.null_aware {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        }
        let [left, right] = drops_nulls(join.join_type);
        let columns = |of: fn(&(Expr, Expr)) -> &Expr| -> Vec<Column> {
            let keys = join.on.iter().map(of);
            keys.filter_map(Expr::try_as_col).cloned().collect()
        };
        let left = if left { columns(|(l, _)| l) } else { vec![] };
        let right = if right { columns(|(_, r)| r) } else { vec![] };
        below(join, &left, &right)
    }
}

/// Whether a join drops rows of its left and of its right input whose key is NULL, or would not
/// miss them.
fn drops_nulls(join_type: JoinType) -> [bool; 2] {
    match join_type {
        JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => [true, true],
        JoinType::Left | JoinType::LeftAnti => [false, true],
        JoinType::Right | JoinType::RightAnti => [true, false],
        JoinType::Full | JoinType::LeftMark | JoinType::RightMark => [false, false],
    }
}

/// The join with inputs from which rows with NULL in these columns may be missing.
fn below(join: Join, left: &[Column], right: &[Column]) -> Result<Transformed<LogicalPlan>> {
    let new_left = without_nulls(&join.left, left)?;
    let new_right = without_nulls(&join.right, right)?;
    if new_left.is_none() && new_right.is_none() {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    Ok(Transformed::yes(LogicalPlan::Join(Join {
        left: new_left.map_or(join.left, Arc::new),
        right: new_right.map_or(join.right, Arc::new),
        ..join
    })))
}

/// The plan without some rows that have NULL in one of `columns`; `None` if nothing changes.
///
/// Columns stay nullable, so that nothing above has to change.
fn without_nulls(plan: &LogicalPlan, columns: &[Column]) -> Result<Option<LogicalPlan>> {
    if columns.is_empty() {
        return Ok(None);
    }
    let inner: Vec<Column> = match plan {
        LogicalPlan::Join(join) => return of_join(join, columns),
        LogicalPlan::Filter(_) => columns.to_vec(),
        LogicalPlan::Projection(projection) => {
            let of = |column| {
                let index = projection.schema.maybe_index_of_column(column)?;
                let expr = projection.expr[index].clone().unalias();
                expr.try_as_col().cloned()
            };
            columns.iter().filter_map(of).collect()
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let inner = columns.iter().map(|column| below_alias(alias, column));
            inner.flatten().collect()
        }
        _ => return Ok(None),
    };
    let [input] = plan.inputs()[..] else {
        return Ok(None);
    };
    let Some(input) = without_nulls(input, &inner)? else {
        return Ok(None);
    };
    let replaced = plan
        .clone()
        .change_children(&mut |_| Ok(Transformed::yes(input.clone())))?;
    Ok(Some(replaced.data))
}

/// The column of the input that is a column of its alias.
pub(crate) fn below_alias(alias: &SubqueryAlias, column: &Column) -> Option<Column> {
    let index = alias.schema.maybe_index_of_column(column)?;
    Some(Column::from(alias.input.schema().qualified_field(index)))
}

fn of_join(join: &Join, columns: &[Column]) -> Result<Option<LogicalPlan>> {
    let of = |side: &LogicalPlan, other: &LogicalPlan| -> Vec<Column> {
        let is_of = |c: &&Column| side.schema().has_column(c) && !other.schema().has_column(c);
        columns.iter().filter(is_of).cloned().collect()
    };
    let left = of(&join.left, &join.right);
    let right = of(&join.right, &join.left);
    let join_type = match (join.join_type, left.is_empty(), right.is_empty()) {
        (JoinType::Left, _, false) | (JoinType::Right, false, _) => JoinType::Inner,
        (JoinType::Full, false, false) => JoinType::Inner,
        (JoinType::Full, false, true) => JoinType::Left,
        (JoinType::Full, true, false) => JoinType::Right,
        (as_it_is, _, _) => as_it_is,
    };
    // Rows of the other input are missing where these are.
    let [keeps_left, keeps_right] = match join_type {
        JoinType::Inner => [true, true],
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => [true, false],
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => [false, true],
        JoinType::Full | JoinType::LeftMark | JoinType::RightMark => [false, false],
    };
    let left = if keeps_left { left } else { vec![] };
    let right = if keeps_right { right } else { vec![] };
    let is_changed = join_type != join.join_type;
    let join = Join {
        join_type,
        ..join.clone()
    };
    let deeper = below(join, &left, &right)?;
    Ok((deeper.transformed || is_changed).then_some(deeper.data))
}
