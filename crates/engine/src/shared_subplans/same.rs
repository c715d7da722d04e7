//! Whether two subplans return the same rows.

use crate::big_sort::BigSortExec;
use crate::bigjoin::{BigAggregateExec, BigJoinExec};
use crate::operators::{aggregate_of, join_of};
use crate::running_window::{RunningWindowExec, WholeWindowExec, WindowTopExec};
use crate::runtime_filter::RuntimeFilterExec;
use crate::scan::{BoundColumn, PlacedScanExec, RankBound, RuntimeFilter};
use crate::star::StarExec;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PhysicalExpr};
use std::sync::Arc;
use tierloom_corrections::Walk;

/// Whether two subplans certainly return the same rows in the same partitions.
///
/// Operators that are not known here return rows of their own.
pub(crate) fn same(one: &Arc<dyn ExecutionPlan>, other: &Arc<dyn ExecutionPlan>) -> bool {
    Pairs::default().plans(one, other)
}

type Filters<'p> = (&'p Arc<RuntimeFilter>, &'p Arc<RuntimeFilter>);

type Bounds<'p> = (&'p Arc<RankBound>, &'p Arc<RankBound>);

/// What operators within the subplans tell scans, which is not the same value but says the same.
#[derive(Default)]
struct Pairs<'p> {
    /// Keys of joins.
    filters: Vec<Filters<'p>>,
    /// Limits of sorts.
    bounds: Vec<Bounds<'p>>,
}

impl<'p> Pairs<'p> {
    fn plans(
        &mut self,
        one: &'p Arc<dyn ExecutionPlan>,
        other: &'p Arc<dyn ExecutionPlan>,
    ) -> bool {
        let (inputs, others) = (one.children(), other.children());
        one.name() == other.name()
            && inputs.len() == others.len()
            && one.fetch() == other.fetch()
            && one.output_partitioning().partition_count()
                == other.output_partitioning().partition_count()
            && one.schema() == other.schema()
            && self.operators(one, other)
            // The build side first: its keys are known where the probe side is looked at.
            && inputs.into_iter().zip(others).all(|(one, other)| self.plans(one, other))
    }

    /// Whether two operators of the same name do the same with their inputs.
    fn operators(
        &mut self,
        one: &'p Arc<dyn ExecutionPlan>,
        other: &'p Arc<dyn ExecutionPlan>,
    ) -> bool {
        if let Some((one, other)) = pair::<PlacedScanExec>(one, other) {
            return self.scans(one, other);
        }
        if let Some((one, other)) = pair::<RuntimeFilterExec>(one, other) {
            let keys = one.keys().iter().zip(other.keys());
            let same = one.keys().len() == other.keys().len()
                && keys
                    .clone()
                    .all(|(a, b)| a.most_rows == b.most_rows && exprs(&a.key, &b.key));
            self.filters
                .extend(keys.map(|(a, b)| (&a.filter, &b.filter)));
            return same;
        }
        if let Some((one, other)) = pair::<StarExec>(one, other) {
            return self.filters_agree(one.runtime_filters(), other.runtime_filters())
                && Pairs::default().plans(one.fallback(), other.fallback());
        }
        if let Some((one, other)) = pair::<FilterExec>(one, other) {
            return one.projection() == other.projection()
                && exprs(one.predicate(), other.predicate());
        }
        if let Some((one, other)) = pair::<ProjectionExec>(one, other) {
            let (one, other) = (one.expr(), other.expr());
            let mut all = one.iter().zip(other);
            return one.len() == other.len()
                && all.all(|(a, b)| a.alias == b.alias && exprs(&a.expr, &b.expr));
        }
        if let Some((one, other)) = pair::<RepartitionExec>(one, other) {
            return one.partitioning() == other.partitioning()
                && one.preserve_order() == other.preserve_order();
        }
        if is::<HashJoinExec>(one) || is::<BigJoinExec>(one) {
            return join_of(one).zip(join_of(other)).is_some_and(joins);
        }
        if is::<AggregateExec>(one) || is::<BigAggregateExec>(one) {
            return aggregate_of(one)
                .zip(aggregate_of(other))
                .is_some_and(aggregates);
        }
        if let Some((one, other)) = sort_of(one).zip(sort_of(other)) {
            return one.preserve_partitioning() == other.preserve_partitioning()
                && one.expr() == other.expr()
                && one.expr().iter().all(|by| is_plain(&by.expr));
        }
        if let Some((one, other)) = pair::<BoundedWindowAggExec>(one, other) {
            return one.input_order_mode == other.input_order_mode
                && windows(one.window_expr(), other.window_expr());
        }
        if let Some((one, other)) = pair::<RunningWindowExec>(one, other) {
            return windows(one.window_expr(), other.window_expr());
        }
        if let Some((one, other)) = pair::<WholeWindowExec>(one, other) {
            return windows(one.window_expr(), other.window_expr());
        }
        if let Some((one, other)) = pair::<WindowTopExec>(one, other) {
            self.bounds.extend(one.bound().zip(other.bound()));
            return one.first() == other.first();
        }
        if let Some((one, other)) = pair::<WindowAggExec>(one, other) {
            return windows(one.window_expr(), other.window_expr());
        }
        is::<CoalescePartitionsExec>(one)
            || is::<CooperativeExec>(one)
            || is::<UnionExec>(one)
            || is::<InterleaveExec>(one)
    }

    fn scans(&self, one: &PlacedScanExec, other: &PlacedScanExec) -> bool {
        one.reads_what(other)
            && self.filters_agree(one.runtime_filters(), other.runtime_filters())
            && self.bounds_agree(one.bound(), other.bound())
    }

    /// Whether rows are left out beyond the same rows.
    fn bounds_agree(&self, one: Option<&BoundColumn>, other: Option<&BoundColumn>) -> bool {
        let (one, other) = match (one, other) {
            (Some(one), Some(other)) => (one, other),
            (one, other) => return one.is_none() && other.is_none(),
        };
        (one.column, one.options) == (other.column, other.options)
            && agree(&self.bounds, &one.bound, &other.bound)
    }

    /// Whether columns are filtered by the same keys.
    fn filters_agree(
        &self,
        filters: &[(usize, Arc<RuntimeFilter>)],
        others: &[(usize, Arc<RuntimeFilter>)],
    ) -> bool {
        let has_partner = |(column, filter): &(usize, Arc<RuntimeFilter>)| {
            let mut others = others.iter();
            others.any(|(of, other)| of == column && agree(&self.filters, filter, other))
        };
        filters.len() == others.len() && filters.iter().all(has_partner)
    }
}

/// Whether two values are the same or known to say the same.
fn agree<T>(pairs: &[(&Arc<T>, &Arc<T>)], one: &Arc<T>, other: &Arc<T>) -> bool {
    let mut pairs = pairs.iter();
    Arc::ptr_eq(one, other) || pairs.any(|(a, b)| Arc::ptr_eq(a, one) && Arc::ptr_eq(b, other))
}

fn is<T: ExecutionPlan>(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.downcast_ref::<T>().is_some()
}

/// Both operators, if they are of this type.
fn pair<'p, T: ExecutionPlan>(
    one: &'p Arc<dyn ExecutionPlan>,
    other: &'p Arc<dyn ExecutionPlan>,
) -> Option<(&'p T, &'p T)> {
    one.downcast_ref().zip(other.downcast_ref())
}

/// The sort that an operator is.
fn sort_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&SortExec> {
    let big = plan.downcast_ref::<BigSortExec>();
    big.map_or_else(|| plan.downcast_ref(), |big| big.sort().ok())
}

fn joins((one, other): (&HashJoinExec, &HashJoinExec)) -> bool {
    let keys = one.on().iter().zip(other.on());
    let filters = match (one.filter(), other.filter()) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            a.column_indices() == b.column_indices()
                && a.schema() == b.schema()
                && exprs(a.expression(), b.expression())
        }
        _ => false,
    };
    filters
        && one.on().len() == other.on().len()
        && keys
            .into_iter()
            .all(|((a, b), (c, d))| exprs(a, c) && exprs(b, d))
        && one.join_type() == other.join_type()
        && one.partition_mode() == other.partition_mode()
        && one.null_equality() == other.null_equality()
        && one.null_aware == other.null_aware
        && one.projection == other.projection
}

fn aggregates((one, other): (&AggregateExec, &AggregateExec)) -> bool {
    let functions = one.aggr_expr().iter().zip(other.aggr_expr());
    let conditions = one.filter_expr().iter().zip(other.filter_expr());
    let plain = |aggregate: &AggregateExec| {
        let groups = aggregate.group_expr().input_exprs();
        groups.iter().all(is_plain) && aggregate.limit_options().is_none()
    };
    plain(one)
        && plain(other)
        && one.mode() == other.mode()
        && one.group_expr() == other.group_expr()
        && one.aggr_expr().len() == other.aggr_expr().len()
        && functions.into_iter().all(|(a, b)| same_function(a, b))
        && conditions.into_iter().all(|pair| match pair {
            (None, None) => true,
            (Some(a), Some(b)) => exprs(a, b),
            _ => false,
        })
}

fn same_function(one: &AggregateFunctionExpr, other: &AggregateFunctionExpr) -> bool {
    // Two ordered aggregates are never taken for the same; equality does not look at the order.
    one == other
        && one.order_bys().is_empty()
        && other.order_bys().is_empty()
        && one.is_distinct() == other.is_distinct()
        && one.ignore_nulls() == other.ignore_nulls()
        && one.expressions().iter().all(is_plain)
}

fn windows(one: &[Arc<dyn WindowExpr>], other: &[Arc<dyn WindowExpr>]) -> bool {
    let same = |a: &Arc<dyn WindowExpr>, b: &Arc<dyn WindowExpr>| {
        let of = a.all_expressions();
        let mut all = of
            .args
            .iter()
            .chain(&of.partition_by_exprs)
            .chain(&of.order_by_exprs);
        all.all(is_plain)
            && a.expressions() == b.expressions()
            && a.partition_by() == b.partition_by()
            && a.order_by() == b.order_by()
            && a.get_window_frame() == b.get_window_frame()
            // There is no other way to compare the functions with all that they were given.
            && format!("{a:?}") == format!("{b:?}")
    };
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| same(a, b))
}

/// Whether two expressions have the same value for the same row, in every execution.
fn exprs(one: &Arc<dyn PhysicalExpr>, other: &Arc<dyn PhysicalExpr>) -> bool {
    one == other && is_plain(one)
}

/// Whether an expression's value depends on nothing but the row.
fn is_plain(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let mut plain = !is_volatile(expr);
    let seen = expr.each(&mut |expr| {
        plain &= expr.downcast_ref::<ScalarSubqueryExpr>().is_none()
            && expr.downcast_ref::<DynamicFilterPhysicalExpr>().is_none();
        Ok(TreeNodeRecursion::Continue)
    });
    seen.is_ok() && plain
}
