//! Logical rule that counts the rows of tables before they are joined.
//!
//! `SELECT count(*) FROM users u, posts p, votes v WHERE p.owner = u.id AND v.voter = u.id` joins
//! each post of a user with each vote, only to count the pairs. Posts and votes of a user are
//! counted first, and the products of these numbers are summed up: Yan and Larson, "Eager
//! Aggregation and Lazy Aggregation", 1995. Groups and smallest and largest values may be of other
//! tables.

use super::JoinOrderOptions;
use super::equalities::Equalities;
use super::estimate::Estimates;
use super::graph::JoinGraph;
use super::skew::skew;
use crate::breakdown::found;
use crate::distinct_lists::call;
use crate::star_order::placed_table;
use crate::summed_counts::summed_counts;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, ExprSchema, Result};
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, lit};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::collections::HashSet;
use std::sync::Arc;

/// Columns of a table, compared with others, by which counting is still quick.
const MOST_KEYS: usize = 2;

/// The rule; see the module documentation.
#[derive(Debug)]
pub(crate) struct EarlyCounts {
    options: JoinOrderOptions,
}

impl EarlyCounts {
    /// The rule for joins of at least as many rows as those that are put into another order.
    pub fn new(options: JoinOrderOptions) -> Self {
        EarlyCounts { options }
    }
}

impl OptimizerRule for EarlyCounts {
    fn name(&self) -> &str {
        "tierloom_early_counts"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = &plan else {
            return Ok(Transformed::no(plan));
        };
        let few_rows = self.options.min_rows as f64;
        // It only saves time, so any error or panic leaves the plan as it is.
        let counted = found(|| counted_early(aggregate, few_rows));
        Ok(counted.map_or_else(|| Transformed::no(plan), Transformed::yes))
    }
}

/// `aggregate` over tables whose rows are counted before; `None` if nothing is gained.
fn counted_early(aggregate: &Aggregate, few_rows: f64) -> Result<Option<LogicalPlan>> {
    let is_known = |expr: &Expr| is_count(expr) || is_extreme(expr);
    let is_set = |key: &Expr| matches!(key, Expr::GroupingSet(_));
    let aggregates = &aggregate.aggr_expr;
    if !aggregates.iter().any(is_count)
        || !aggregates.iter().all(is_known)
        || aggregate.group_expr.iter().any(is_set)
    {
        return Ok(None);
    }
    let Some(mut graph) = JoinGraph::of(&aggregate.input, &mut HashSet::new()) else {
        return Ok(None);
    };
    let sizes = Estimates::without_filters(&graph);
    let leaves = counted_leaves(aggregate, &graph, sizes.equalities());
    if leaves.is_empty() || !multiplies(&graph, &sizes, few_rows) {
        return Ok(None);
    }
    let mut numbers = Vec::with_capacity(leaves.len());
    for (leaf, keys) in leaves {
        let name = format!("__rows_{leaf}");
        let rows = count(lit(1_i64)).alias(&name);
        let keys = keys.into_iter().map(Expr::Column).collect();
        let groups = Aggregate::try_new(Arc::clone(&graph.leaves[leaf]), keys, vec![rows])?;
        graph.leaves[leaf] = Arc::new(LogicalPlan::Aggregate(groups));
        numbers.push(Expr::Column(Column::from_name(name)));
    }
    let Some(joined) = graph.build(&graph.present, &|set| sizes.rows(set))? else {
        return Ok(None);
    };
    let Some(combinations) = numbers.into_iter().reduce(|all, number| all * number) else {
        return Ok(None);
    };
    let made = aggregates.iter().enumerate().map(|(number, expr)| {
        let made = match is_count(expr) {
            true => sum(combinations.clone()),
            false => expr.clone().unalias(),
        };
        made.alias(format!("__early_{number}"))
    });
    let keys = aggregate.group_expr.clone();
    let groups = Aggregate::try_new(Arc::new(joined), keys, made.collect())?;
    let keys = aggregate.group_expr.iter().map(|_| false);
    let counts = keys.chain(aggregates.iter().map(is_count));
    summed_counts(groups, &aggregate.schema, counts).map(Some)
}

/// Whether the join of all leaves may have as many rows as the largest of them, as it pairs rows of
/// at least two leaves in which keys are there several times. `sizes` are those without filters.
fn multiplies(graph: &JoinGraph, sizes: &Estimates, few_rows: f64) -> bool {
    let leaves = 0..graph.leaves.len();
    let is_repeated = |leaf: &usize| !sizes.equalities().is_unique(*leaf);
    let repeated = leaves.clone().filter(is_repeated);
    let repeated: Vec<usize> = repeated.collect();
    if repeated.len() < 2 {
        return false;
    }
    let skew = skew(graph, &repeated);
    let has_many = |estimates: &Estimates| {
        let all = (1 << graph.leaves.len()) - 1;
        let sizes = leaves.clone().map(|leaf| estimates.rows(1 << leaf));
        skew * estimates.rows(all) >= sizes.fold(few_rows, f64::max)
    };
    // Filters are evaluated on samples, which takes longer.
    has_many(sizes) && has_many(&sizes.with_filters(graph))
}

/// The leaves of which only the number of rows matters, with their columns that others are compared
/// with. Tables without duplicates there are left out.
fn counted_leaves(
    aggregate: &Aggregate,
    graph: &JoinGraph,
    equalities: &Equalities,
) -> Vec<(usize, Vec<Column>)> {
    let outputs = aggregate.group_expr.iter().chain(&aggregate.aggr_expr);
    let others = graph.conditions.iter().filter(|c| c.equality.is_none());
    let used = outputs.chain(others.map(|condition| &condition.expr));
    let used: HashSet<&Column> = used.flat_map(Expr::column_refs).collect();
    let leaves = graph.leaves.iter().enumerate();
    let counted = leaves.filter_map(|(leaf, plan)| {
        placed_table(plan)?;
        let is_used = used.iter().any(|column| plan.schema().has_column(column));
        if is_used || equalities.is_unique(leaf) {
            return None;
        }
        let sides = graph.equalities().flat_map(|equality| &equality.sides);
        let own = sides.filter(|(of, _)| *of == leaf);
        let mut keys: Vec<Column> = own
            .map(|(_, side)| match side {
                // Groups by floats and joins by them may differ in what is equal.
                Expr::Column(column) if !is_float(column, plan) => Some(column.clone()),
                _ => None,
            })
            .collect::<Option<_>>()?;
        keys.sort();
        keys.dedup();
        (1..=MOST_KEYS)
            .contains(&keys.len())
            .then_some((leaf, keys))
    });
    counted.collect()
}

fn is_float(column: &Column, leaf: &LogicalPlan) -> bool {
    let data_type = leaf.schema().data_type(column);
    data_type.is_ok_and(DataType::is_floating)
}

/// Whether an aggregate is the number of all rows.
fn is_count(expr: &Expr) -> bool {
    let literal = |function: &AggregateFunction| match &function.params.args[..] {
        [Expr::Literal(value, _)] => !value.is_null(),
        _ => false,
    };
    plain_call(expr).is_some_and(|call| call.func.name() == "count" && literal(call))
}

/// Whether an aggregate is the same if rows are there several times.
fn is_extreme(expr: &Expr) -> bool {
    plain_call(expr).is_some_and(|call| matches!(call.func.name(), "min" | "max"))
}

/// A call of all rows' values, in any order.
fn plain_call(expr: &Expr) -> Option<&AggregateFunction> {
    call(expr).filter(|function| {
        let params = &function.params;
        !params.distinct && params.filter.is_none() && params.order_by.is_empty()
    })
}
