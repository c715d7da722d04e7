//! Logical rule that puts joins into a far cheaper order.
//!
//! DataFusion joins tables in the order of the FROM clause. Where two large tables meet before the
//! others have filtered them, intermediate results are far larger than need be, hundreds of times
//! larger than the tables where rows of both find many of the other (query 72 of TPC-DS, most of
//! the Join Order Benchmark). The rule looks at trees of inner joins whose intermediate results
//! have many rows by the statistics of their tables alone; it then estimates filters on samples,
//! looks for the cheapest order ([`search`]), and uses it if it is far cheaper. All other trees are
//! left to the text's order, to [`StarJoinOrder`](crate::StarJoinOrder) and to the fused operators.
//! Equalities that follow from others are left out of trees that are looked at.
//!
//! The estimates are those of Selinger et al., "Access Path Selection in a Relational Database
//! Management System", 1979: an equality of two columns keeps one row of as many as the larger of
//! their numbers of distinct values, and conditions are independent. Several equalities between two
//! tables are one key, which has no more values than its table has rows. The cost of an order is
//! the sum of its intermediate results, as they are after runtime filters.

mod classes;
mod early_counts;
mod equalities;
mod estimate;
mod graph;
mod search;
mod skew;
mod statistics;

use crate::breakdown::found;
use crate::star_order::with_columns_of;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{JoinType, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use estimate::Estimates;
use std::collections::HashSet;
use std::sync::Arc;
use tierloom_corrections::WalkAll;

pub(crate) use early_counts::EarlyCounts;
pub(crate) use estimate::COMPARED;
use graph::JoinGraph;

/// How many times cheaper another order has to be. Estimates are often wrong by a small factor, and
/// the order of the text is what its author chose.
const GAIN: f64 = 4.0;

/// How many times more rows are needed where the rows of a leaf are guessed.
const GUESSED: f64 = 10.0;

/// Which joins are put into another order; tests lower the threshold.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinOrderOptions {
    /// Rows of intermediate results below which any order is quick.
    pub min_rows: usize,
}

impl Default for JoinOrderOptions {
    fn default() -> Self {
        JoinOrderOptions { min_rows: 50_000 }
    }
}

/// Rule that orders joins which multiply rows; see the module documentation.
#[derive(Debug)]
pub struct JoinOrder {
    options: JoinOrderOptions,
}

impl JoinOrder {
    /// The rule with these options.
    pub fn new(options: JoinOrderOptions) -> Self {
        JoinOrder { options }
    }
}

impl OptimizerRule for JoinOrder {
    fn name(&self) -> &str {
        "tierloom_join_order"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let few_rows = self.options.min_rows as f64;
        // The joins of trees that were looked at, by their schemas, which stay where they are.
        let mut seen: HashSet<*const DFSchema> = HashSet::new();
        plan.down_all(&mut |node| {
            let LogicalPlan::Join(join) = &node else {
                return Ok(Transformed::no(node));
            };
            if join.join_type != JoinType::Inner || seen.contains(&Arc::as_ptr(&join.schema)) {
                return Ok(Transformed::no(node));
            }
            // The order only saves time, so any error or panic leaves the plan as it is.
            let better = found(|| ordered(&node, few_rows, &mut seen));
            Ok(match better {
                // Its leaves are looked at in the next pass.
                Some(better) => Transformed::new(better, true, TreeNodeRecursion::Jump),
                None => Transformed::no(node),
            })
        })
    }
}

/// `plan`, the root of a tree of inner joins, in a far cheaper order; `None` if there is none.
fn ordered(
    plan: &LogicalPlan,
    few_rows: f64,
    seen: &mut HashSet<*const DFSchema>,
) -> Result<Option<LogicalPlan>> {
    let Some(graph) = JoinGraph::of(plan, seen) else {
        return Ok(None);
    };
    // With two leaves there is only one order.
    if graph.leaves.len() < 3 {
        return Ok(None);
    }
    let few_rows = match graph.has_tables_only() {
        true => few_rows,
        false => few_rows * GUESSED,
    };
    let unfiltered = Estimates::without_filters(&graph);
    if unfiltered.cost(&graph.present) < few_rows {
        return Ok(None);
    }
    let estimates = unfiltered.with_filters(&graph);
    let present = estimates.cost(&graph.present);
    let best = match present < few_rows {
        true => None,
        false => search::cheapest(&graph, &estimates),
    };
    let best = match best.filter(|best| present >= GAIN * estimates.cost(best)) {
        Some(best) => best,
        // Keys that follow from others make hash tables larger and filters of scans weaker.
        None if graph.repeats_itself() => graph.present.clone(),
        None => return Ok(None),
    };
    let joined = graph.build(&best, &|set| estimates.rows(set))?;
    joined
        .map(|joined| with_columns_of(plan, joined))
        .transpose()
}
