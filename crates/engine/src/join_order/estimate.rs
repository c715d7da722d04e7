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
    equalities: Arc<Equalities>,
    /// Whether some equalities follow from others; if not, they are in `kept`.
    repeats_itself: bool,
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
        let others = graph.conditions.iter().filter(|c| c.equality.is_none());
        let mut kept: Vec<_> = others.map(|c| (c.set, share_of(&c.expr))).collect();
        let equalities = Equalities::of(graph);
        let repeats_itself = graph.repeats_itself();
        if !repeats_itself {
            kept.extend(equalities.shares());
        }
        let rows = |leaf: &Arc<LogicalPlan>| base_rows(leaf).unwrap_or(UNKNOWN_ROWS).max(1.0);
        Estimates {
            leaves: graph.leaves.iter().map(rows).collect(),
            kept,
            many: equalities.find_many().collect(),
            equalities: Arc::new(equalities),
            repeats_itself,
            found: Vec::new(),
        }
    }

    /// The same with the filters of leaves, which are evaluated on samples.
    pub fn with_filters(&self, graph: &JoinGraph) -> Estimates {
        let props = ExecutionProps::new();
        let shares = graph.leaves.iter().map(|leaf| kept_share(leaf, &props));
        let shares: Vec<f64> = shares.collect();
        let filtered = shares.iter().enumerate().filter(|(_, share)| **share < 1.0);
        let found = filtered.map(|(leaf, share)| FilteredLeaf {
            leaf,
            by: self.equalities.find_one_row_of(leaf),
            share: *share,
        });
        let found = match graph.has_ring() {
            true => Vec::new(),
            false => found.filter(|found| found.by != 0).collect(),
        };
        let leaves = self.leaves.iter().zip(shares);
        Estimates {
            leaves: leaves
                .map(|(rows, share)| (rows * share).max(1.0))
                .collect(),
            kept: self.kept.clone(),
            equalities: Arc::clone(&self.equalities),
            repeats_itself: self.repeats_itself,
            found,
            many: self.many.clone(),
        }
    }

    /// The equalities of the graph.
    pub fn equalities(&self) -> &Equalities {
        &self.equalities
    }

    /// Estimates from the rows of leaves and the shares that conditions on sets of them keep.
    #[cfg(test)]
    pub fn given(leaves: Vec<f64>, kept: Vec<(Set, f64)>) -> Estimates {
        Estimates {
            leaves,
            kept,
            equalities: Arc::default(),
            repeats_itself: false,
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
        let equal = match self.repeats_itself {
            true => self.equalities.share(set),
            false => 1.0,
        };
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
