//! Rows of joins on several keys.

use datafusion::common::stats::Precision;
use datafusion::common::{JoinType, Result, Statistics};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};

/// The statistics of `plan`, with fewer rows if it is an inner join on several keys.
///
/// DataFusion divides by the values of one key alone: rows of `store_sales` and `store_returns`
/// that agree in item and ticket would be twelve times as many as there are. The values of all keys
/// together are the product of theirs, but not more than their input has rows, so the estimate is
/// never below the rows of the smaller input.
///
/// # Errors
/// Those of computing the statistics of the inputs.
pub(super) fn corrected(
    plan: &dyn ExecutionPlan,
    statistics: Statistics,
    args: &StatisticsArgs,
) -> Result<Statistics> {
    let Some(join) = join_of(plan) else {
        return Ok(statistics);
    };
    let context = StatisticsContext::new();
    let left = context.compute(join.left().as_ref(), args)?;
    let right = context.compute(join.right().as_ref(), args)?;
    let (left_keys, right_keys): (Vec<_>, Vec<_>) = join.on().iter().map(|(l, r)| (l, r)).unzip();
    let known = statistics.num_rows.get_value().copied();
    let rows = estimated([(&left, &left_keys[..]), (&right, &right_keys[..])]);
    let (Some(known), Some(rows)) = (known, rows) else {
        return Ok(statistics);
    };
    if rows >= known {
        return Ok(statistics);
    }
    let mut fewer = statistics.to_inexact();
    fewer.num_rows = Precision::Inexact(rows);
    if let Some(bytes) = fewer.total_byte_size.get_value() {
        let share = rows as f64 / known as f64;
        fewer.total_byte_size = Precision::Inexact((*bytes as f64 * share) as usize);
    }
    Ok(fewer)
}

/// Whether [`corrected`] may change the statistics of `plan`.
pub(super) fn corrects(plan: &dyn ExecutionPlan) -> bool {
    join_of(plan).is_some()
}

/// The inner join on several keys that `plan` is, under a projection if its sides were swapped.
fn join_of(plan: &dyn ExecutionPlan) -> Option<&HashJoinExec> {
    let join = match plan.downcast_ref::<ProjectionExec>() {
        Some(projection) => projection.input().downcast_ref::<HashJoinExec>(),
        None => plan.downcast_ref::<HashJoinExec>(),
    };
    join.filter(|join| *join.join_type() == JoinType::Inner && join.on().len() > 1)
}

type Side<'s> = (&'s Statistics, &'s [&'s std::sync::Arc<dyn PhysicalExpr>]);

/// Rows of the inner join of two inputs on their keys; `None` if it is not known how many values
/// the keys have.
fn estimated(sides: [Side<'_>; 2]) -> Option<usize> {
    let mut rows = [0.0; 2];
    let mut values = [0.0; 2];
    for (side, (statistics, keys)) in sides.into_iter().enumerate() {
        rows[side] = *statistics.num_rows.get_value()? as f64;
        let mut product = 1.0;
        for key in keys {
            let column = key.downcast_ref::<Column>()?;
            let of = statistics.column_statistics.get(column.index())?;
            product *= *of.distinct_count.get_value()? as f64;
        }
        values[side] = f64::min(product, rows[side]).max(1.0);
    }
    Some((rows[0] * rows[1] / f64::max(values[0], values[1])) as usize)
}
