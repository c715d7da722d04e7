//! Semi and anti joins with one table of a join.

use crate::star_order::placed_table;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::{Join, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::sync::Arc;
use tierloom_corrections::Walk;

/// How many times as many rows as a table the largest table of its join must have.
const LARGER: usize = 2;

/// Moves a semi or anti join down to the table that it is about, where that is not the largest of
/// its join: `f JOIN d ON ... WHERE d.day IN (SELECT ...)` asks once per row of `d`, not once per
/// row of the join.
///
/// DataFusion moves filters down but no such joins. With the largest table they stay: other joins
/// may leave few rows to ask about.
#[derive(Debug, Default)]
pub(crate) struct SemiJoinsDown;

impl SemiJoinsDown {
    /// DataFusion's rule that puts joins where filters on several tables were.
    pub(crate) const AFTER: &str = "push_down_filter";
}

impl OptimizerRule for SemiJoinsDown {
    fn name(&self) -> &'static str {
        "tierloom_semi_joins_down"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = &plan else {
            return Ok(Transformed::no(plan));
        };
        if !keeps_left(join) || join.null_aware || is_volatile(join) {
            return Ok(Transformed::no(plan));
        }
        let most = largest(&join.left);
        Ok(match moved(join, &join.left, most)? {
            Some(moved) => Transformed::yes(moved),
            None => Transformed::no(plan),
        })
    }
}

fn is_volatile(join: &Join) -> bool {
    let keys = join.on.iter().flat_map(|(left, right)| [left, right]);
    keys.chain(&join.filter).any(|expr| expr.is_volatile())
}

/// Rows of the largest table of a tree of inner joins.
fn largest(plan: &LogicalPlan) -> usize {
    match plan {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            largest(&join.left).max(largest(&join.right))
        }
        leaf => rows_of(leaf).unwrap_or(0),
    }
}

/// Rows of a table without its filters and semi joins; `None` if `plan` is none.
fn rows_of(plan: &LogicalPlan) -> Option<usize> {
    match plan {
        LogicalPlan::Join(join) if keeps_left(join) => rows_of(&join.left),
        _ => Some(placed_table(plan)?.all_rows()),
    }
}

fn keeps_left(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
}

/// `plan`, a part of the left input of `semi`, with the join in it; `None` where that is no gain.
fn moved(semi: &Join, plan: &LogicalPlan, most: usize) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Join(join) = plan else {
        return Ok(None);
    };
    if join.join_type != JoinType::Inner {
        return Ok(None);
    }
    for (side, other, is_left) in [
        (&join.left, &join.right, true),
        (&join.right, &join.left, false),
    ] {
        if !asks_about(semi, side)? {
            continue;
        }
        let below = match moved(semi, side, most)? {
            Some(below) => below,
            None if is_small(side, most) => with_input(semi, side)?,
            None => return Ok(None),
        };
        let [left, right] = match is_left {
            true => [Arc::new(below), Arc::clone(other)],
            false => [Arc::clone(other), Arc::new(below)],
        };
        return Ok(Some(LogicalPlan::Join(Join {
            left,
            right,
            ..join.clone()
        })));
    }
    Ok(None)
}

/// Whether `plan` is a table with few rows beside the largest.
fn is_small(plan: &LogicalPlan, most: usize) -> bool {
    rows_of(plan).is_some_and(|rows| rows.saturating_mul(LARGER) <= most)
}

/// Whether all columns of the left input that the conditions of `semi` read are those of `part`.
fn asks_about(semi: &Join, part: &LogicalPlan) -> Result<bool> {
    let (left, mut any, mut all) = (semi.left.schema(), false, true);
    let filter = semi.filter.iter();
    for expr in semi.on.iter().map(|(key, _)| key).chain(filter) {
        expr.each(&mut |expr| {
            if let Some(column) = expr.try_as_col()
                && left.has_column(column)
            {
                any = true;
                all &= part.schema().has_column(column);
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(any && all)
}

/// `semi` with another left input.
fn with_input(semi: &Join, left: &Arc<LogicalPlan>) -> Result<LogicalPlan> {
    let right = Arc::clone(&semi.right);
    Ok(LogicalPlan::Join(Join::try_new(
        Arc::clone(left),
        right,
        semi.on.clone(),
        semi.filter.clone(),
        semi.join_type,
        semi.join_constraint,
        semi.null_equality,
        semi.null_aware,
    )?))
}
