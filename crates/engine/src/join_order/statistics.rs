//! Rows and distinct values of the leaves of a tree of joins.

use crate::star_order::placed_table;
use datafusion::common::stats::Precision;
use datafusion::common::{Dependency, Statistics};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Rows of a leaf that is no table, such as a group-by, if nothing is known of it.
pub(super) const UNKNOWN_ROWS: f64 = 1e4;

/// Rows of a leaf without its filters; `None` if it is no table.
pub(super) fn base_rows(plan: &LogicalPlan) -> Option<f64> {
    Some(placed_table(plan)?.all_rows() as f64)
}

/// Distinct values of a leaf's side of an equality, filters left out; its rows if they are unknown.
pub(super) fn distinct(side: &Expr, leaf: &LogicalPlan) -> f64 {
    let rows = base_rows(leaf).unwrap_or(UNKNOWN_ROWS);
    known_distinct(side, leaf).map_or(rows, |count| count.min(rows))
}

/// Whether a leaf's side of an equality is known to have no value twice.
pub(super) fn is_unique(side: &Expr, leaf: &LogicalPlan) -> bool {
    let rows = base_rows(leaf);
    known_distinct(side, leaf).is_some_and(|count| rows.is_some_and(|rows| count >= rows))
        || is_only_key(side, leaf)
}

/// Whether a leaf has groups by that column alone.
fn is_only_key(side: &Expr, leaf: &LogicalPlan) -> bool {
    let Expr::Column(column) = side else {
        return false;
    };
    let Some(index) = leaf.schema().maybe_index_of_column(column) else {
        return false;
    };
    leaf.schema()
        .functional_dependencies()
        .iter()
        .any(|d| d.source_indices == [index] && d.mode == Dependency::Single)
}

fn known_distinct(side: &Expr, leaf: &LogicalPlan) -> Option<f64> {
    let column = match side {
        Expr::Cast(cast) => cast.expr.as_ref(),
        other => other,
    };
    let Expr::Column(column) = column else {
        return None;
    };
    let table = placed_table(leaf)?;
    let index = table.schema().index_of(&column.name).ok()?;
    let statistics: &Statistics = &table.statistics();
    match statistics.column_statistics.get(index)?.distinct_count {
        Precision::Exact(count) | Precision::Inexact(count) => Some(count as f64),
        Precision::Absent => None,
    }
}
