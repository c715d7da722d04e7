//! Where the columns of an operator come from.

use crate::big_sort::BigSortExec;
use crate::scan::PlacedScanExec;
use crate::table::PlacedTable;
use datafusion::common::stats::Precision;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
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

/// Whether no two rows of `plan` have the same value in a column, and none has NULL: the column of
/// a table in which all values differ.
pub(crate) fn is_unique(plan: &Arc<dyn ExecutionPlan>, column: usize) -> bool {
    match plan.downcast_ref::<PlacedScanExec>() {
        Some(scan) => values(scan, column) == Precision::Exact(scan.table().rows()),
        None => unchanged(plan, column).is_some_and(|(input, column)| is_unique(input, column)),
    }
}
