//! Estimated numbers of rows of joins.

use super::graph::{JoinGraph, Order, Set};
use crate::star_order::{kept_share, placed_table};
use datafusion::common::stats::Precision;
use datafusion::common::{Column, Statistics};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use std::collections::BTreeMap;

/// The share of rows that a comparison of two leaves' columns keeps, as Selinger et al. take it.
pub(crate) const COMPARED: f64 = 1.0 / 3.0;

/// The share of rows that any other condition keeps.
const OTHER: f64 = 0.5;

/// Rows of a leaf that is no table, such as a group-by, if nothing is known of it.
const UNKNOWN_ROWS: f64 = 1e4;

/// What decides how many rows joins have.
pub(super) struct Estimates {
    leaves: Vec<f64>,
    /// Sets of leaves, and the share of their combinations that fulfil the conditions on just them.
    kept: Vec<(Set, f64)>,
}

impl Estimates {
    /// Estimates as if no leaf had a filter, from statistics alone.
    pub fn without_filters(graph: &JoinGraph) -> Estimates {
        Self::with(graph, |plan| base_rows(plan).unwrap_or(UNKNOWN_ROWS))
    }

    /// Estimates with the filters of leaves, which are evaluated on samples.
    pub fn of(graph: &JoinGraph) -> Estimates {
        let props = ExecutionProps::new();
        Self::with(graph, |plan| {
            base_rows(plan).map_or(UNKNOWN_ROWS, |rows| rows * kept_share(plan, &props))
        })
    }

    fn with(graph: &JoinGraph, rows: impl Fn(&LogicalPlan) -> f64) -> Estimates {
        let mut keys: BTreeMap<(usize, usize), [f64; 2]> = BTreeMap::new();
        let mut kept = Vec::new();
        for condition in &graph.conditions {
            match &condition.equality {
                Some([(a, x), (b, y)]) => {
                    let sides = match a < b {
                        true => [(*a, x), (*b, y)],
                        false => [(*b, y), (*a, x)],
                    };
                    let values = sides.map(|(leaf, side)| distinct(side, &graph.leaves[leaf]));
                    let key = keys.entry((sides[0].0, sides[1].0)).or_insert([1.0, 1.0]);
                    (key[0], key[1]) = (key[0] * values[0], key[1] * values[1]);
                }
                None => kept.push((condition.set, share_of(&condition.expr))),
            }
        }
        for ((a, b), values) in keys {
            // A key of several columns has no more values than its table has rows.
            let most = |leaf: usize, values: f64| {
                let rows = base_rows(&graph.leaves[leaf]).unwrap_or(UNKNOWN_ROWS);
                values.min(rows).max(1.0)
            };
            let larger = most(a, values[0]).max(most(b, values[1]));
            kept.push((1 << a | 1 << b, 1.0 / larger));
        }
        Estimates {
            leaves: graph.leaves.iter().map(|l| rows(l).max(1.0)).collect(),
            kept,
        }
    }

    /// Estimates from the rows of leaves and the shares that conditions on sets of them keep.
    #[cfg(test)]
    pub fn given(leaves: Vec<f64>, kept: Vec<(Set, f64)>) -> Estimates {
        Estimates { leaves, kept }
    }

    /// Rows of the join of all leaves in `set`.
    pub fn rows(&self, set: Set) -> f64 {
        let leaves = self.leaves.iter().enumerate();
        let leaves = leaves.filter(|(leaf, _)| set >> leaf & 1 == 1);
        let all: f64 = leaves.map(|(_, rows)| rows).product();
        let within = self.kept.iter().filter(|(of, _)| of & !set == 0);
        (all * within.map(|(_, share)| share).product::<f64>()).max(1.0)
    }

    /// The rows of all joins of `order`.
    pub fn cost(&self, order: &Order) -> f64 {
        order.joins().map(|set| self.rows(set)).sum()
    }
}

fn share_of(condition: &Expr) -> f64 {
    match condition {
        Expr::BinaryExpr(BinaryExpr {
            op: Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq,
            ..
        }) => COMPARED,
        _ => OTHER,
    }
}

/// Rows of a leaf without its filters; `None` if it is no table.
fn base_rows(plan: &LogicalPlan) -> Option<f64> {
    Some(placed_table(plan)?.all_rows() as f64)
}

/// Distinct values of a leaf's side of an equality, filters left out.
fn distinct(side: &Expr, leaf: &LogicalPlan) -> f64 {
    let rows = base_rows(leaf).unwrap_or(UNKNOWN_ROWS);
    let column = match side {
        Expr::Cast(cast) => cast.expr.as_ref(),
        other => other,
    };
    let Expr::Column(column) = column else {
        return rows;
    };
    known_distinct(column, leaf).map_or(rows, |count| count.min(rows))
}

fn known_distinct(column: &Column, leaf: &LogicalPlan) -> Option<f64> {
    let table = placed_table(leaf)?;
    let index = table.schema().index_of(&column.name).ok()?;
    let statistics: &Statistics = &table.statistics();
    match statistics.column_statistics.get(index)?.distinct_count {
        Precision::Exact(count) | Precision::Inexact(count) => Some(count as f64),
        Precision::Absent => None,
    }
}
