//! Logical rule that orders star joins by the selectivity of their dimensions.
//!
//! DataFusion joins tables in the order of the FROM clause. In a tree of inner equi-joins in which
//! one table (the fact table, the largest) is joined directly to every other one, any order is
//! correct, and it is cheapest to probe the dimension first that keeps the fewest fact rows. The
//! rule rebuilds such a tree with the fact table as the probe side of every join:
//!
//! ```text
//!   from:  ((date x lineorder) x customer) x supplier     to:   join supplier <- build
//!                                                               └ join customer <- build
//!                                                                 └ join date  <- build
//!                                                                   └ lineorder (most selective
//! first)
//! ```
//! Selectivity is measured by evaluating the filter on a sample of the dimension, not estimated
//! from statistics.

use crate::breakdown::found;
use crate::provider::PlacedTableProvider;
use crate::table::PlacedTable;
use arrow::array::{AsArray, BooleanArray};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, NullEquality, Result, TableReference};
use datafusion::datasource::source_as_provider;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::{Expr, Join, JoinConstraint, JoinType, LogicalPlan, Projection};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::create_physical_expr;
use std::sync::Arc;
use tierloom_corrections::Walk;

/// Number of sampled dimension rows on which a filter is evaluated.
const SAMPLE_ROWS: usize = 16 * 1024;

/// Rule that probes the most selective dimension first; see the module documentation.
#[derive(Debug, Default)]
pub struct StarJoinOrder;

impl OptimizerRule for StarJoinOrder {
    fn name(&self) -> &str {
        "tierloom_star_join_order"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = &plan else {
            return Ok(Transformed::no(plan));
        };
        let props = config.execution_props_or_default();
        // The order only saves time, so any error or panic leaves the plan as it is.
        let reordered = found(|| reordered(&plan, join, &props));
        Ok(reordered.map_or_else(|| Transformed::no(plan), Transformed::yes))
    }
}

/// Reorders `plan`, which is `join`; `None` if it is not a star or is in that order already.
fn reordered(
    plan: &LogicalPlan,
    join: &Join,
    props: &ExecutionProps,
) -> Result<Option<LogicalPlan>> {
    let Some(star) = Star::find(join) else {
        return Ok(None);
    };
    let ordered = star.ordered(props);
    if ordered.matches(join) {
        return Ok(None);
    }
    with_columns_of(plan, ordered.build()?).map(Some)
}

/// `rebuilt`, whose columns are those of `plan` in another order, with the names and the order that
/// the parents of `plan` expect.
pub(crate) fn with_columns_of(plan: &LogicalPlan, rebuilt: LogicalPlan) -> Result<LogicalPlan> {
    let columns = plan.schema().columns().into_iter().map(Expr::Column);
    let schema = Arc::clone(plan.schema());
    let restored = Projection::try_new_with_schema(columns.collect(), Arc::new(rebuilt), schema)?;
    Ok(LogicalPlan::Projection(restored))
}

/// Execution properties to evaluate filters with at planning time.
trait PropsOrDefault {
    fn execution_props_or_default(&self) -> ExecutionProps;
}

impl PropsOrDefault for dyn OptimizerConfig + '_ {
    fn execution_props_or_default(&self) -> ExecutionProps {
        ExecutionProps::new()
    }
}

/// A dimension of a star and its join columns.
struct StarDimension {
    plan: Arc<LogicalPlan>,
    /// Pairs of dimension expression and fact expression.
    on: Vec<(Expr, Expr)>,
}

/// A fact table and its dimensions, in probing order.
struct Star {
    fact: Arc<LogicalPlan>,
    dimensions: Vec<StarDimension>,
}

impl Star {
    /// The star rooted at `join`; `None` if the tree has another shape.
    fn find(join: &Join) -> Option<Star> {
        let (mut leaves, mut edges) = (Vec::new(), Vec::new());
        flatten(join, &mut leaves, &mut edges)?;
        let fact =
            (0..leaves.len()).max_by_key(|&i| placed_table(&leaves[i]).map_or(0, |t| t.rows()))?;
        // With two tables there is only one order.
        if leaves.len() < 3 || leaves.iter().any(|leaf| placed_table(leaf).is_none()) {
            return None;
        }
        let mut dimensions: Vec<StarDimension> = Vec::new();
        for (index, leaf) in leaves
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != fact)
        {
            let on: Vec<(Expr, Expr)> = edges
                .iter()
                .filter_map(|(a, b)| match (owner(a, &leaves)?, owner(b, &leaves)?) {
                    (x, y) if x == index && y == fact => Some((a.clone(), b.clone())),
                    (x, y) if x == fact && y == index => Some((b.clone(), a.clone())),
                    _ => None,
                })
                .collect();
            if on.is_empty() {
                return None;
            }
            dimensions.push(StarDimension {
                plan: Arc::clone(leaf),
                on,
            });
        }
        // An edge between two dimensions makes it a snowflake or a cycle, which this rule does not
        // reorder.
        let used: usize = dimensions.iter().map(|d| d.on.len()).sum();
        (used == edges.len()).then(|| Star {
            fact: Arc::clone(&leaves[fact]),
            dimensions,
        })
    }

    /// Sorts the dimensions by the share of rows that they keep, smallest first.
    fn ordered(mut self, props: &ExecutionProps) -> Star {
        // Ties are broken by name. The order in the present tree would not do: the rebuilt tree
        // reverses it, and the rule would reorder forever.
        self.dimensions.sort_by_cached_key(|d| {
            let name = d.plan.schema().columns().first().map(|c| c.flat_name());
            ((kept_share(&d.plan, props) * 1e9) as u64, name)
        });
        self
    }

    /// Whether `join` already is this star in this order.
    fn matches(&self, join: &Join) -> bool {
        let mut node = join;
        for dimension in self.dimensions.iter().rev() {
            if !same(&node.left, &dimension.plan) {
                return false;
            }
            match node.right.as_ref() {
                LogicalPlan::Join(next) => node = next,
                _ => return same(&node.right, &self.fact),
            }
        }
        false
    }

    fn build(self) -> Result<LogicalPlan> {
        let mut probe = self.fact;
        for dimension in self.dimensions {
            let join = Join::try_new(
                dimension.plan,
                probe,
                dimension.on,
                None,
                JoinType::Inner,
                JoinConstraint::On,
                NullEquality::NullEqualsNothing,
                false,
            )?;
            probe = Arc::new(LogicalPlan::Join(join));
        }
        Ok(Arc::unwrap_or_clone(probe))
    }
}

fn same(one: &Arc<LogicalPlan>, other: &Arc<LogicalPlan>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

/// Collects the leaves and equalities of a tree of inner equi-joins.
///
/// `None` if a join is of another kind.
fn flatten(
    join: &Join,
    leaves: &mut Vec<Arc<LogicalPlan>>,
    edges: &mut Vec<(Expr, Expr)>,
) -> Option<()> {
    if join.join_type != JoinType::Inner
        || join.filter.is_some()
        || join.null_equality != NullEquality::NullEqualsNothing
        || join.on.is_empty()
    {
        return None;
    }
    edges.extend(join.on.iter().cloned());
    for side in [&join.left, &join.right] {
        match side.as_ref() {
            LogicalPlan::Join(inner) => flatten(inner, leaves, edges)?,
            _ => leaves.push(Arc::clone(side)),
        }
    }
    Some(())
}

/// The leaf that all columns of `expr` come from.
pub(crate) fn owner(expr: &Expr, leaves: &[Arc<LogicalPlan>]) -> Option<usize> {
    let columns = expr.column_refs();
    (!columns.is_empty()).then_some(())?;
    leaves
        .iter()
        .position(|leaf| columns.iter().all(|c| leaf.schema().has_column(c)))
}

/// The placed table under filters, projections and aliases.
pub(crate) fn placed_table(plan: &LogicalPlan) -> Option<Arc<PlacedTable>> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let provider = source_as_provider(&scan.source).ok()?;
            provider
                .downcast_ref::<PlacedTableProvider>()
                .map(|p| Arc::clone(p.table()))
        }
        LogicalPlan::Filter(filter) => placed_table(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => placed_table(&alias.input),
        LogicalPlan::Projection(projection) => placed_table(&projection.input),
        _ => None,
    }
}

/// Share of a dimension's rows that its filters keep, from a sample.
///
/// 1 without a filter or if it cannot be evaluated.
pub(crate) fn kept_share(plan: &LogicalPlan, props: &ExecutionProps) -> f64 {
    match plan {
        LogicalPlan::Filter(filter) => {
            let own = sampled_share(&filter.predicate, &filter.input, props).unwrap_or(1.0);
            own * kept_share(&filter.input, props)
        }
        LogicalPlan::SubqueryAlias(alias) => kept_share(&alias.input, props),
        LogicalPlan::Projection(projection) => kept_share(&projection.input, props),
        _ => 1.0,
    }
}

fn sampled_share(predicate: &Expr, input: &LogicalPlan, props: &ExecutionProps) -> Option<f64> {
    let table = placed_table(input)?;
    let unaliased = unqualify(predicate.clone(), table.name());
    if unaliased.is_volatile() {
        return share_of_sample(&table, &unaliased, props);
    }
    table
        .shares()
        .of(&unaliased, || share_of_sample(&table, &unaliased, props))
}

/// The share of a sample's rows for which `predicate`, of columns of `table`, is true.
fn share_of_sample(table: &PlacedTable, predicate: &Expr, props: &ExecutionProps) -> Option<f64> {
    let columns = predicate.column_refs();
    let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
    let sample = table.sample(SAMPLE_ROWS, &names).ok()?;
    let name = TableReference::bare(table.name());
    let schema = DFSchema::try_from_qualified_schema(name, &sample.schema()).ok()?;
    let physical = create_physical_expr(predicate, &schema, props, &Default::default()).ok()?;
    let kept = physical
        .evaluate(&sample)
        .ok()?
        .into_array(sample.num_rows())
        .ok()?;
    let kept: &BooleanArray = kept.as_boolean_opt()?;
    // Half a row is added to both counts: a filter that no sampled row passes is very selective,
    // not certainly empty.
    Some((kept.true_count() as f64 + 0.5) / (sample.num_rows() as f64 + 0.5))
}

/// Renames the columns of `expr` to `table`'s own name; an alias in FROM gives them another one.
fn unqualify(expr: Expr, table: &str) -> Expr {
    // The name as it is, which is not parsed for each column.
    let table = TableReference::bare(table);
    let rewritten = expr.clone().up(&mut |e| match e {
        Expr::Column(column) => Ok(Transformed::yes(Expr::Column(
            datafusion::common::Column::new(Some(table.clone()), column.name),
        ))),
        other => Ok(Transformed::no(other)),
    });
    rewritten.map_or(expr, |t| t.data)
}
