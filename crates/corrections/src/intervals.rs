//! Intervals that are compared, or added to dates.

use super::interval_products::is_product;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, not_impl_err};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Operator, cast};

const NANOS_OF_A_DAY: i64 = 86_400_000_000_000;

/// Compares differences of timestamps, and intervals of days or less, as durations; whether it did.
///
/// DataFusion 55 compares intervals by months, then by days, then by the rest, so that no
/// difference of timestamps, which has neither, reaches `INTERVAL '1 day'`. Here a day has 24
/// hours.
///
/// # Errors
/// Other intervals have no order and are refused.
pub(super) fn as_durations(values: &mut [Expr], schema: &DFSchema) -> Result<bool> {
    let is_interval = |value: &Expr| {
        let data_type = value.get_type(schema);
        matches!(data_type, Ok(DataType::Interval(_)))
    };
    if !values.iter().any(is_interval) {
        return Ok(false);
    }
    let durations: Option<Vec<Expr>> = values.iter().map(|v| as_duration(v, schema)).collect();
    match durations {
        Some(durations) => {
            values.clone_from_slice(&durations);
            Ok(true)
        }
        None => not_impl_err!(
            "a comparison of intervals with months or of columns of intervals; compare dates or \
             timestamps"
        ),
    }
}

fn as_duration(value: &Expr, schema: &DFSchema) -> Option<Expr> {
    let nanos = DataType::Duration(TimeUnit::Nanosecond);
    match value {
        Expr::Literal(literal, metadata) => {
            let literal = match literal {
                literal if literal.is_null() => ScalarValue::DurationNanosecond(None),
                ScalarValue::IntervalMonthDayNano(Some(interval)) if interval.months == 0 => {
                    let days = i64::from(interval.days).checked_mul(NANOS_OF_A_DAY)?;
                    ScalarValue::DurationNanosecond(Some(days.checked_add(interval.nanoseconds)?))
                }
                _ => return None,
            };
            Some(Expr::Literal(literal, metadata.clone()))
        }
        Expr::Cast(Cast { expr, .. }) => match expr.get_type(schema) {
            Ok(DataType::Duration(_)) => Some(cast(expr.as_ref().clone(), nanos)),
            _ => None,
        },
        _ => None,
    }
}

/// Whether the expression is an interval with hours or less, or one that may have them.
pub(super) fn has_time(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), _) => {
            interval.nanoseconds != 0
        }
        Expr::Negative(interval) => has_time(interval),
        other => is_product(other),
    }
}

/// Makes a timestamp of a date to which an interval with hours or less is added.
///
/// DataFusion 55 returns a date and drops the time.
pub(super) fn with_time(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(binary) = expr else {
        return Ok(Transformed::no(expr));
    };
    let is_date = |side: &Expr| {
        let data_type = side.get_type(schema);
        matches!(data_type, Ok(DataType::Date32 | DataType::Date64))
    };
    let timestamp =
        |side: Box<Expr>| Box::new(cast(*side, DataType::Timestamp(TimeUnit::Nanosecond, None)));
    let BinaryExpr { left, op, right } = binary;
    let is_sum = matches!(op, Operator::Plus | Operator::Minus);
    Ok(if is_sum && has_time(&right) && is_date(&left) {
        Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(
            timestamp(left),
            op,
            right,
        )))
    } else if op == Operator::Plus && has_time(&left) && is_date(&right) {
        Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(
            left,
            op,
            timestamp(right),
        )))
    } else {
        Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }))
    })
}
