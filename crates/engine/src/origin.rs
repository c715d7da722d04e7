//! Where the columns of an operator come from.

use crate::big_sort::BigSortExec;
use crate::scan::PlacedScanExec;
use crate::table::PlacedTable;
use arrow::datatypes::Schema;
use datafusion::common::stats::Precision;
use datafusion::physical_expr::expressions::{Column, TryCastExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use std::sync::Arc;
use tierloom_corrections::input_with_known_values;

/// The input that a column of an operator comes from unchanged, and its index there, for operators
/// that judge each row alone.
pub(crate) fn unchanged(
    plan: &Arc<dyn ExecutionPlan>,
    column: usize,
) -> Option<(&Arc<dyn ExecutionPlan>, usize)> {
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let kept = filter.projection().as_ref();
        let index = kept.map_or(Some(column), |kept| kept.get(column).copied())?;
        return Some((filter.input(), index));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let expr = &projection.expr().get(column)?.expr;
        return Some((projection.input(), expr.downcast_ref::<Column>()?.index()));
    }
    if let Some(input) = input_with_known_values(plan) {
        return Some((input, column));
    }
    let passes = plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<SortExec>()
        || plan.is::<BigSortExec>()
        || plan.is::<SortPreservingMergeExec>();
    passes.then(|| (plan.children()[0], column))
}

/// The number of values that a column of a scan has.
pub(crate) fn values(scan: &PlacedScanExec, column: usize) -> Precision<usize> {
    let column = scan.projection().get(column);
    column.map_or(Precision::Absent, |column| {
        values_of_table(scan.table(), *column)
    })
}

/// The number of values that a column of a table has.
pub(crate) fn values_of_table(table: &PlacedTable, column: usize) -> Precision<usize> {
    let statistics = table.statistics();
    let known = statistics.column_statistics.get(column);
    known.map_or(Precision::Absent, |known| known.distinct_count)
}

/// Whether no two rows of `plan` have the same value in a column: it is one of a table in which all
/// values differ, or of such a one as another integer type, which may make some of them NULL.
pub(crate) fn is_unique(plan: &Arc<dyn ExecutionPlan>, column: usize) -> bool {
    if let Some(scan) = plan.downcast_ref::<PlacedScanExec>() {
        return values(scan, column) == Precision::Exact(scan.table().rows());
    }
    let from = unchanged(plan, column).or_else(|| as_other_integer(plan, column));
    from.is_some_and(|(input, column)| is_unique(input, column))
}

/// The input that a column of a projection comes from by a cast between integer types.
fn as_other_integer(
    plan: &Arc<dyn ExecutionPlan>,
    column: usize,
) -> Option<(&Arc<dyn ExecutionPlan>, usize)> {
    let projection = plan.downcast_ref::<ProjectionExec>()?;
    let expr = &projection.expr().get(column)?.expr;
    let of = expr.downcast_ref::<TryCastExpr>()?.expr();
    let input = projection.input();
    let is_integer = |expr: &Arc<dyn PhysicalExpr>, schema: &Schema| {
        expr.data_type(schema).is_ok_and(|of| of.is_integer())
    };
    let integers = is_integer(expr, &input.schema()) && is_integer(of, &input.schema());
    Some((input, of.downcast_ref::<Column>()?.index())).filter(|_| integers)
}
