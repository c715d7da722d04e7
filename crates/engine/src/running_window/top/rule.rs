//! Finds windows of which only the first rows are asked for.

use super::super::exec::RunningWindowExec;
use super::exec::{First, WindowTopExec};
use crate::breakdown::caught;
use crate::origin::unchanged;
use crate::scan::PlacedScanExec;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use std::sync::Arc;
use tierloom_corrections::Walk;

/// Most rows of a window that it keeps. The ranks of all windows are in memory.
const MAX_KEEP: u64 = 1024;

/// Rows of a table from which those of a sort with a limit are looked at before it.
const MANY_ROWS: usize = 64 << 10;

/// Rows that are few in a batch.
const FEW_ROWS: usize = 16;

/// Puts [`WindowTopExec`] below the sorts of windows whose rank or row number is filtered, and
/// below sorts with a limit.
///
/// Must run after [`super::super::RunningWindows`].
#[derive(Debug)]
pub(crate) struct WindowTops;

impl PhysicalOptimizerRule for WindowTops {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.up(&mut |node| {
            let input = caught(|| {
                let filter = node.downcast_ref::<FilterExec>().map(below_filter);
                filter.or_else(|| node.downcast_ref::<SortExec>().map(below_limit))
            });
            let input = input.ok().flatten().and_then(Result::ok);
            Ok(match input.flatten() {
                Some(input) => Transformed::yes(replace_children_if_necessary(node, vec![input])?),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "tierloom_window_tops"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The input of a sort with a limit, with fewer rows; `None` if it has none, or few rows anyway.
fn below_limit(sort: &SortExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(keep) = sort.fetch().filter(|keep| *keep as u64 <= MAX_KEEP) else {
        return Ok(None);
    };
    let first = First {
        keep,
        partition: Vec::new(),
        order: sort.expr().first().clone(),
    };
    let input = sort.input();
    if !reads_many_rows(input) || !first.is_supported(input.as_ref())? {
        return Ok(None);
    }
    let column = first.order.expr.downcast_ref::<Column>().map(Column::index);
    let (options, bound) = (first.order.options, Arc::default());
    let mut top = WindowTopExec::new(Arc::clone(input), first);
    let bounded = |scan: &PlacedScanExec, column| scan.with_bound(column, options, &bound);
    if let Some(column) = column
        && let Some(input) = with_scan(input, column, keep, &bounded)?
    {
        top = top.with_bound(input, bound);
    }
    Ok(Some(Arc::new(top)))
}

/// `plan` with another scan, which knows that the first `keep` rows of an order of its column are
/// asked for; `column` is that of the plan.
///
/// `None` if rows with other values may come out, or others the next time.
fn with_scan(
    plan: &Arc<dyn ExecutionPlan>,
    column: usize,
    keep: usize,
    other: &dyn Fn(&PlacedScanExec, usize) -> Option<PlacedScanExec>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = plan.downcast_ref::<PlacedScanExec>() {
        return Ok(other(scan, column).map(|scan| Arc::new(scan) as _));
    }
    let filter = plan.downcast_ref::<FilterExec>();
    let passes = match filter {
        Some(filter) => filter.fetch().is_none() && !is_volatile(filter.predicate()),
        None => plan.is::<ProjectionExec>() || plan.is::<RepartitionExec>(),
    };
    let Some((input, column)) = unchanged(plan, column).filter(|_| passes) else {
        return Ok(None);
    };
    let Some(input) = with_scan(input, column, keep, other)? else {
        return Ok(None);
    };
    let over = over(plan, input)?;
    // A filter that waits for a full batch would keep the first rows back until all were read.
    Ok(Some(match over.downcast_ref::<FilterExec>() {
        Some(filter) => Arc::new(filter.with_batch_size(2 * keep.max(FEW_ROWS))?),
        None => over,
    }))
}

/// Whether the rows come from a large table.
fn reads_many_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(scan) = plan.downcast_ref::<PlacedScanExec>() {
        return scan.table().rows() >= MANY_ROWS;
    }
    let passes =
        plan.is::<FilterExec>() || plan.is::<ProjectionExec>() || plan.is::<RepartitionExec>();
    matches!(plan.children()[..], [input] if passes && reads_many_rows(input))
}

/// The input of a filter with fewer rows to sort; `None` if it does not ask for the first ones.
fn below_filter(filter: &FilterExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let bounds = split_conjunction(filter.predicate()).into_iter();
    for (column, keep) in bounds.filter_map(bound) {
        if keep <= MAX_KEEP
            && let Some(input) = with_top(filter.input(), column, keep as usize)?
        {
            return Ok(Some(input));
        }
    }
    Ok(None)
}

/// A column, and the largest number that it may have.
fn bound(condition: &Arc<dyn PhysicalExpr>) -> Option<(usize, u64)> {
    let binary = condition.downcast_ref::<BinaryExpr>()?;
    let (left, right) = (binary.left(), binary.right());
    let swapped = binary.op().swap();
    let (column, operator, limit) = match left.downcast_ref::<Column>() {
        Some(column) => (column, *binary.op(), right),
        None => (right.downcast_ref::<Column>()?, swapped?, left),
    };
    let limit = limit.downcast_ref::<Literal>()?.value();
    let ScalarValue::UInt64(Some(limit)) =
        limit.cast_to(&arrow::datatypes::DataType::UInt64).ok()?
    else {
        return None;
    };
    match operator {
        Operator::LtEq | Operator::Eq => Some((column.index(), limit)),
        Operator::Lt => Some((column.index(), limit.checked_sub(1)?)),
        _ => None,
    }
}

/// `plan`, which is a window or renames its columns, with fewer rows to sort.
fn with_top(
    plan: &Arc<dyn ExecutionPlan>,
    column: usize,
    keep: usize,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let expr = projection.expr()[column].expr.downcast_ref::<Column>();
        let Some(column) = expr.map(Column::index) else {
            return Ok(None);
        };
        let input = with_top(projection.input(), column, keep)?;
        return input.map(|i| over(plan, i)).transpose();
    }
    // Repartitioned rows are the same rows.
    if plan.is::<RepartitionExec>()
        && let [input] = plan.children()[..]
    {
        let input = with_top(input, column, keep)?;
        return input.map(|i| over(plan, i)).transpose();
    }
    let Some(window) = plan.downcast_ref::<RunningWindowExec>() else {
        return Ok(None);
    };
    let ([input], Some(ranked)) = (&window.children()[..], window.ranks_in(column)) else {
        return Ok(None);
    };
    // Values of windows without an order do not depend on which rows come first.
    let Some(order) = ranked.order_by().first() else {
        return Ok(None);
    };
    let first = First {
        keep,
        partition: ranked.partition_by().to_vec(),
        order: order.clone(),
    };
    let input = below_sort(input, &first, false)?;
    input.map(|i| over(plan, i)).transpose()
}

/// `plan` with the operator below its sort, and below what brings the rows of a window together.
fn below_sort(
    plan: &Arc<dyn ExecutionPlan>,
    first: &First,
    sorted: bool,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let sort = plan.downcast_ref::<SortExec>();
    let passes = sort.is_some_and(|sort| sort.fetch().is_none())
        || plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>() && plan.fetch().is_none()
        || plan.is::<SortPreservingMergeExec>() && plan.fetch().is_none();
    if let ([input], true) = (&plan.children()[..], passes) {
        let input = below_sort(input, first, sorted || sort.is_some())?;
        return input.map(|i| over(plan, i)).transpose();
    }
    if !sorted || !first.is_supported(plan.as_ref())? {
        return Ok(None);
    }
    // Rows that come later lose against those before them.
    let options = first.order.options;
    let best_first = |scan: &PlacedScanExec, column| scan.with_best_first(column, options);
    let input = match first.order.expr.downcast_ref::<Column>() {
        Some(column) => with_scan(plan, column.index(), first.keep, &best_first)?,
        None => None,
    };
    Ok(Some(Arc::new(WindowTopExec::new(
        input.unwrap_or_else(|| Arc::clone(plan)),
        first.clone(),
    ))))
}

fn over(
    plan: &Arc<dyn ExecutionPlan>,
    input: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    replace_children_if_necessary(Arc::clone(plan), vec![input])
}
