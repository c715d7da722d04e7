//! Intervals times numbers, or divided by them, which DataFusion 55 refuses.

use super::constants::evaluated;
use arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray};
use arrow::datatypes::{
    DataType, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use arrow::error::ArrowError;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, cast, lit,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::{Arc, LazyLock};

const NAME: &str = "tierloom_scaled_interval";
const DAYS_OF_A_MONTH: f64 = 30.0;
const SECONDS_OF_A_DAY: f64 = 86_400.0;
const NANOS_OF_A_SECOND: f64 = 1e9;

/// Plans `interval * number`, `number * interval` and `interval / number`.
#[derive(Debug)]
pub(crate) struct IntervalProducts;

impl ExprPlanner for IntervalProducts {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let divides = match expr.op {
            BinaryOperator::Multiply => false,
            BinaryOperator::Divide => true,
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let type_of = |side: &Expr| side.get_type(schema).unwrap_or(DataType::Null);
        let (left, right) = (type_of(&expr.left), type_of(&expr.right));
        let is_interval = |side: &DataType| matches!(side, DataType::Interval(_));
        // A parameter has no type yet.
        let is_number = |side: &DataType| side.is_numeric() || side.is_null();
        let (interval, number) = match divides {
            _ if is_interval(&left) && is_number(&right) => (expr.left, expr.right),
            false if is_number(&left) && is_interval(&right) => (expr.right, expr.left),
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let product = scaled_by(interval, number, divides);
        Ok(PlannerResult::Planned(product))
    }
}

/// An interval times or divided by a number. Constants are computed at once: whether a date plus an
/// interval has a time of day depends on the interval.
fn scaled_by(interval: Expr, number: Expr, divides: bool) -> Expr {
    let product = SCALED.call(vec![
        cast(interval, MONTH_DAY_NANO),
        cast(number, DataType::Float64),
        lit(divides),
    ]);
    evaluated(&product).map_or(product, lit)
}

const MONTH_DAY_NANO: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Whether the expression is an interval that is computed for each row.
pub(super) fn is_product(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == NAME)
}

/// The function that stands in plans for the operators.
pub(super) fn scaled_interval() -> Arc<ScalarUDF> {
    Arc::new(SCALED.clone())
}

static SCALED: LazyLock<ScalarUDF> = LazyLock::new(|| {
    let signature = Signature::exact(
        vec![MONTH_DAY_NANO, DataType::Float64, DataType::Boolean],
        Volatility::Immutable,
    );
    ScalarUDF::new_from_impl(ScaledInterval { signature })
});

/// An interval, a number, and whether it divides.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ScaledInterval {
    signature: Signature,
}

impl ScalarUDFImpl for ScaledInterval {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(MONTH_DAY_NANO)
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = given.number_rows;
        let columns = given.args.into_iter().map(|value| value.into_array(rows));
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        let intervals = columns[0].as_primitive::<IntervalMonthDayNanoType>();
        let numbers = columns[1].as_primitive::<Float64Type>();
        let divides = columns[2].as_boolean();
        let products = intervals.iter().zip(numbers).zip(divides);
        let products = products.map(|((interval, number), divides)| {
            let given = interval.zip(number).zip(divides);
            let product = given.map(|((i, n), divides)| scaled(i, n, divides));
            product.transpose()
        });
        let products: IntervalMonthDayNanoArray =
            products.collect::<Result<Vec<_>, ArrowError>>()?.into();
        Ok(ColumnarValue::Array(Arc::new(products)))
    }
}

/// An interval times or divided by a number. Parts of months become days, of which a month has 30,
/// and parts of days become time, as in PostgreSQL (its function `interval_mul`).
///
/// # Errors
/// A division by zero, or an interval that is too long.
fn scaled(
    interval: IntervalMonthDayNano,
    by: f64,
    divides: bool,
) -> Result<IntervalMonthDayNano, ArrowError> {
    if divides && by == 0.0 {
        return Err(ArrowError::DivideByZero);
    }
    let of = |part: f64| if divides { part / by } else { part * by };
    let (months, days) = (of(interval.months.into()), of(interval.days.into()));
    let days_of_months = to_a_millionth(months.fract() * DAYS_OF_A_MONTH);
    let days_left = days.fract() + days_of_months.fract();
    let seconds = to_a_millionth(days_left * SECONDS_OF_A_DAY);
    let carried = (seconds / SECONDS_OF_A_DAY).trunc();
    let seconds = seconds - carried * SECONDS_OF_A_DAY;
    let nanos = match divides {
        // Floats have fewer digits than the time of a long interval.
        false if by.fract() == 0.0 && by.abs() < i64::MAX as f64 => {
            i128::from(interval.nanoseconds) * i128::from(by as i64)
        }
        _ => (of(interval.nanoseconds as f64) + seconds * NANOS_OF_A_SECOND).round() as i128,
    };
    let too_long = || ArrowError::ArithmeticOverflow(format!("interval out of range: {by} times"));
    let whole = |part: f64| {
        let fits = (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&part);
        fits.then_some(part as i32).ok_or_else(too_long)
    };
    Ok(IntervalMonthDayNano::new(
        whole(months.trunc())?,
        whole(days.trunc() + days_of_months.trunc() + carried)?,
        i64::try_from(nanos).map_err(|_| too_long())?,
    ))
}

/// Without the noise of the last digits, which would make a day of 86400 s one of 86399.9999999.
fn to_a_millionth(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000_000;

    fn interval(months: i32, days: i32, nanos: i64) -> IntervalMonthDayNano {
        IntervalMonthDayNano::new(months, days, nanos)
    }

    #[test]
    fn parts_of_months_become_days_and_parts_of_days_time() {
        // By the rule of PostgreSQL's `interval_mul` and `interval_div`, computed by hand.
        for (given, by, divides, expected) in [
            (interval(0, 1, 0), 3.0, false, interval(0, 3, 0)),
            (interval(1, 0, 0), 0.5, false, interval(0, 15, 0)),
            (interval(1, 1, 0), 1.5, false, interval(1, 16, 12 * HOUR)),
            (
                interval(0, 7, HOUR),
                -2.0,
                false,
                interval(0, -14, -2 * HOUR),
            ),
            (interval(12, 0, 0), 5.0, true, interval(2, 12, 0)),
            (
                interval(0, 1, 0),
                7.0,
                true,
                interval(0, 0, 12_342_857_143_000),
            ),
            (interval(0, 0, HOUR), 4.0, true, interval(0, 0, HOUR / 4)),
        ] {
            let found = scaled(given, by, divides).unwrap();
            assert_eq!(found.months, expected.months, "{given:?} {by}");
            assert_eq!(found.days, expected.days, "{given:?} {by}");
            let off = (found.nanoseconds - expected.nanoseconds).abs();
            assert!(off < 1000, "{given:?} {by}: {found:?}");
        }
    }

    #[test]
    fn time_is_exact_and_what_is_too_long_or_divided_by_zero_is_refused() {
        let long = interval(0, 0, 3_074_457_345_618_258_601);
        let found = scaled(long, 3.0, false).unwrap();
        assert_eq!(found.nanoseconds, 9_223_372_036_854_775_803);
        assert!(scaled(long, 4.0, false).is_err());
        assert!(scaled(interval(1, 0, 0), 1e10, false).is_err());
        assert!(scaled(interval(1, 0, 0), f64::NAN, false).is_err());
        assert!(scaled(interval(1, 0, 0), 0.0, true).is_err());
    }
}
