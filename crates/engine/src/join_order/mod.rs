//! Logical rule that orders joins which multiply rows.
//!
//! DataFusion joins tables in the order of the FROM clause. Where two large tables meet in a join
//! of many rows with many before the others have filtered them, intermediate results are hundreds
//! of times larger than the tables (query 72 of TPC-DS). The rule looks for such trees of inner
//! joins by the statistics of their tables alone; only if an intermediate result is several times
//! larger than the largest table does it estimate filters on samples, look for the cheapest order
//! ([`search`]), and use it if it is far cheaper. Trees whose tables are joined in a ring (sales
//! with a shop and a customer, whose address is in the shop's town) are looked at in any case: the
//! text begins with the sales, and the ring may leave a few of them. All other trees are left to
//! the text's order, to [`StarJoinOrder`](crate::StarJoinOrder) and to the fused operators.
//!
//! The estimates are those of Selinger et al., "Access Path Selection in a Relational Database
//! Management System", 1979: an equality of two columns keeps one row of as many as the larger of
//! their numbers of distinct values, and conditions are independent. Several equalities between two
//! tables are one key, which has no more values than its table has rows. The cost of an order is
//! the sum of its intermediate results.

mod estimate;
mod graph;
mod search;

use crate::breakdown::caught;
use crate::star_order::with_columns_of;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::{JoinType, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use estimate::Estimates;
use tierloom_corrections::WalkAll;

pub(crate) use estimate::COMPARED;
use graph::JoinGraph;

/// How many times larger than its largest table an intermediate result has to be for its tree to be
/// looked at.
const MULTIPLIES: f64 = 4.0;

/// How many times fewer rows are enough where tables are joined in a ring.
const RINGS: f64 = 10.0;

/// How many times cheaper another order has to be. Estimates are often wrong by a small factor, and
/// the order of the text is what its author chose.
const GAIN: f64 = 4.0;

/// Which joins are put into another order; tests lower the threshold.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinOrderOptions {
    /// Rows of intermediate results below which any order is quick.
    pub min_rows: usize,
}

impl Default for JoinOrderOptions {
    fn default() -> Self {
        JoinOrderOptions {
            min_rows: 1_000_000,
        }
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
        plan.down_all(&mut |node| {
            if !matches!(&node, LogicalPlan::Join(join) if join.join_type == JoinType::Inner) {
                return Ok(Transformed::no(node));
            }
            // The order only saves time, so any error or panic leaves the plan as it is.
            let found = caught(|| ordered(&node, few_rows))
                .ok()
                .and_then(Result::ok);
            Ok(match found.flatten() {
                // Its leaves are looked at in the next pass.
                Some(better) => Transformed::new(better, true, TreeNodeRecursion::Jump),
                None => Transformed::no(node),
            })
        })
    }
}

/// `plan`, the root of a tree of inner joins, in a far cheaper order; `None` if there is none.
fn ordered(plan: &LogicalPlan, few_rows: f64) -> Result<Option<LogicalPlan>> {
    let Some(graph) = JoinGraph::of(plan) else {
        return Ok(None);
    };
    let few_rows = match graph.has_ring() {
        true => few_rows / RINGS,
        false if multiplies(&graph, &Estimates::without_filters(&graph), few_rows) => few_rows,
        false => return Ok(None),
    };
    let estimates = Estimates::of(&graph);
    let present = estimates.cost(&graph.present);
    let Some(best) = search::cheapest(&graph, &estimates) else {
        return Ok(None);
    };
    if present < few_rows || present < GAIN * estimates.cost(&best) {
        return Ok(None);
    }
    let joined = graph.build(&best, &|set| estimates.rows(set))?;
    joined
        .map(|joined| with_columns_of(plan, joined))
        .transpose()
}

/// Whether an intermediate result of the present order is far larger than the largest table.
fn multiplies(graph: &JoinGraph, estimates: &Estimates, few_rows: f64) -> bool {
    let largest = (0..graph.leaves.len()).map(|leaf| estimates.rows(1 << leaf));
    let largest = largest.fold(few_rows, f64::max);
    graph
        .present
        .joins()
        .any(|set| estimates.rows(set) > MULTIPLIES * largest)
}
