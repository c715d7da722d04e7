//! Estimated numbers of rows of joins.

use super::classes::Set;
use super::equalities::Equalities;
use super::graph::{JoinGraph, Order};
use super::statistics::{UNKNOWN_ROWS, base_rows};
use crate::star_order::kept_share;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use std::sync::Arc;

/// The share of rows that a comparison of two leaves' columns keeps, as Selinger et al. take it.
pub(crate) const COMPARED: f64 = 1.0 / 3.0;

/// The share of rows that any other condition keeps.
const OTHER: f64 = 0.5;

/// What decides how many rows joins have.
pub(super) struct Estimates {
    leaves: Vec<f64>,
    /// Sets of leaves, and the share of their combinations that fulfil the conditions on just them.
    kept: Vec<(Set, f64)>,
    /// The equalities, if some of them follow from others; otherwise they are in `kept`.
    repeated: Option<Equalities>,
    /// Leaves of which each row of another one finds at most one: the leaves that find it, and the
    /// share of its rows that its filters keep.
    found: Vec<FilteredLeaf>,
    /// Pairs of leaves in which a row of either may find many of the other.
    many: Vec<Set>,
}

/// A leaf with filters whose keys are unique.
struct FilteredLeaf {
    leaf: usize,
    /// The leaves that an equality with such a key joins with it.
    by: Set,
    share: f64,
}

impl Estimates {
    /// Estimates as if no leaf had a filter, from statistics alone.
    pub fn without_filters(graph: &JoinGraph) -> Estimates {
        Self::with(graph, |_| 1.0)
    }

    /// Estimates with the filters of leaves, which are evaluated on samples.
    pub fn of(graph: &JoinGraph) -> Estimates {
        let props = ExecutionProps::new();
        Self::with(graph, |plan| kept_share(plan, &props))
    }

    fn with(graph: &JoinGraph, kept_of: impl Fn(&LogicalPlan) -> f64) -> Estimates {
        let others = graph.conditions.iter().filter(|c| c.equality.is_none());
        let mut kept: Vec<_> = others.map(|c| (c.set, share_of(&c.expr))).collect();
        let equalities = Equalities::of(graph);
        let shares: Vec<f64> = graph.leaves.iter().map(|leaf| kept_of(leaf)).collect();
        let filtered = shares.iter().enumerate().filter(|(_, share)| **share < 1.0);
        let found = filtered.map(|(leaf, share)| FilteredLeaf {
            leaf,
            by: equalities.find_one_row_of(leaf),
            share: *share,
        });
        let found = match graph.has_ring() {
            true => Vec::new(),
            false => found.filter(|found| found.by != 0).collect(),
        };
        let many = equalities.find_many().collect();
        let repeated = match graph.repeats_itself() {
            true => Some(equalities),
            false => {
                kept.extend(equalities.shares());
                None
            }
        };
        let rows = |(leaf, share): (&Arc<LogicalPlan>, f64)| {
            (base_rows(leaf).unwrap_or(UNKNOWN_ROWS) * share).max(1.0)
        };
        Estimates {
            leaves: graph.leaves.iter().zip(shares).map(rows).collect(),
            kept,
            repeated,
            found,
            many,
        }
    }

    /// Estimates from the rows of leaves and the shares that conditions on sets of them keep.
    #[cfg(test)]
    pub fn given(leaves: Vec<f64>, kept: Vec<(Set, f64)>) -> Estimates {
        Estimates {
            leaves,
            kept,
            repeated: None,
            found: Vec::new(),
            many: Vec::new(),
        }
    }

    /// Rows of the join of all leaves in `set`.
    pub fn rows(&self, set: Set) -> f64 {
        let leaves = self.leaves.iter().enumerate();
        let leaves = leaves.filter(|(leaf, _)| set >> leaf & 1 == 1);
        let all: f64 = leaves.map(|(_, rows)| rows).product();
        let within = self.kept.iter().filter(|(of, _)| of & !set == 0);
        let kept: f64 = within.map(|(_, share)| share).product();
        let equal = self.repeated.as_ref().map_or(1.0, |all| all.share(set));
        (all * kept * equal).max(1.0)
    }

    /// Rows of the join of all leaves in `set` that runtime filters leave: scans leave out the rows
    /// that find none in a leaf which is joined later.
    ///
    /// Where rows find many others, that is not counted on: frequent values of one table are often
    /// frequent in the other as well, so that there are far more pairs than estimated. Nor is it
    /// where tables are joined in a ring: which scan a filter reaches depends on the order.
    pub fn rows_left(&self, set: Set) -> f64 {
        if self.many.iter().any(|pair| pair & !set == 0) {
            return self.rows(set);
        }
        let later = self.found.iter().filter(|found| set >> found.leaf & 1 == 0);
        let later = later.filter(|found| found.by & set != 0);
        let share: f64 = later.map(|found| found.share).product();
        (self.rows(set) * share).max(1.0)
    }

    /// The rows of all joins of `order`.
    pub fn cost(&self, order: &Order) -> f64 {
        order.joins().map(|set| self.rows_left(set)).sum()
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
