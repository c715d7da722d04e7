//! The functions that take the place of DataFusion's.

use super::ticks::{self, TimeCut, TimePart, cut, dates, parts, ticks_of};
use arrow::array::ArrayRef;
use arrow::compute::kernels::numeric::{add_wrapping, sub_wrapping};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions::datetime::{date_part, date_trunc};
use datafusion::logical_expr::expr_fn::cast;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, binary_expr,
};
use datafusion::physical_expr_common::datum::apply;
use std::sync::Arc;

/// Functions that a rule of the optimizer puts into plans: whoever reads a plan that was
/// written down needs them beside those of the session.
pub fn calendar_functions() -> [Arc<ScalarUDF>; 5] {
    [quick_part(), quick_cut(), date_of(), later(), earlier()].map(Arc::new)
}

/// `date_part` of timestamps.
pub(super) fn quick_part() -> ScalarUDF {
    ScalarUDF::from(Quick {
        name: "tierloom_date_part",
        plain: date_part(),
    })
}

/// `date_trunc` of timestamps.
pub(super) fn quick_cut() -> ScalarUDF {
    ScalarUDF::from(Quick {
        name: "tierloom_date_trunc",
        plain: date_trunc(),
    })
}

/// The cast of a timestamp to a date.
pub(super) fn date_of() -> ScalarUDF {
    ScalarUDF::from(DateOf {
        signature: Signature::any(1, Volatility::Immutable),
    })
}

/// A timestamp and a constant interval without months.
pub(super) fn later() -> ScalarUDF {
    ScalarUDF::from(Shift {
        name: "tierloom_later",
        op: Operator::Plus,
        signature: Signature::any(2, Volatility::Immutable),
    })
}

/// A timestamp less a constant interval without months.
pub(super) fn earlier() -> ScalarUDF {
    ScalarUDF::from(Shift {
        name: "tierloom_earlier",
        op: Operator::Minus,
        signature: Signature::any(2, Volatility::Immutable),
    })
}

/// A function of the name of a part or unit, and of timestamps.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Quick {
    name: &'static str,
    plain: Arc<ScalarUDF>,
}

impl Quick {
    /// `None` if the function in whose place this is has to compute it.
    fn computed(&self, args: &[ColumnarValue]) -> Option<ArrayRef> {
        let [
            ColumnarValue::Scalar(name),
            ColumnarValue::Array(timestamps),
        ] = args
        else {
            return None;
        };
        let name = ScalarValue::try_as_str(name)??;
        match self.plain.name() {
            "date_part" => parts(timestamps, TimePart::of(name)?),
            _ => cut(timestamps, TimeCut::of(name)?),
        }
    }
}

impl ScalarUDFImpl for Quick {
    fn name(&self) -> &str {
        self.name
    }

    // As before, so that no other operator has to change.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.plain.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.plain.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.plain.inner().return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.plain.return_field_from_args(args)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.plain.output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.plain.preserves_lex_ordering(inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match self.computed(&args.args) {
            Some(array) => Ok(ColumnarValue::Array(array)),
            None => self.plain.invoke_with_args(args),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateOf {
    signature: Signature,
}

impl ScalarUDFImpl for DateOf {
    fn name(&self) -> &str {
        "tierloom_date"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let casts = args.iter().map(|arg| cast(arg.clone(), DataType::Date32));
        Ok(casts.map(|cast| cast.schema_name().to_string()).collect())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Date32)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = args.arg_fields[0].is_nullable();
        Ok(Arc::new(Field::new(
            self.name(),
            DataType::Date32,
            nullable,
        )))
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs[0].sort_properties)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let array = args.args[0].to_array(args.number_rows)?;
        // A date that there is not is an error, as in DataFusion's casts.
        let options = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        Ok(ColumnarValue::Array(match dates(&array) {
            Some(dates) => dates,
            None => cast_with_options(&array, &DataType::Date32, &options)?,
        }))
    }
}

/// A timestamp and an interval, added or subtracted.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Shift {
    name: &'static str,
    op: Operator,
    signature: Signature,
}

impl Shift {
    /// `None` if the operator in whose place this is has to compute it.
    fn computed(&self, args: &[ColumnarValue]) -> Option<ArrayRef> {
        let [
            ColumnarValue::Array(timestamps),
            ColumnarValue::Scalar(ScalarValue::IntervalMonthDayNano(Some(by))),
        ] = args
        else {
            return None;
        };
        let DataType::Timestamp(unit, _) = timestamps.data_type() else {
            return None;
        };
        let ticks = ticks_of(*by, *unit)?;
        let later_by = match self.op {
            Operator::Minus => ticks.checked_neg()?,
            _ => ticks,
        };
        ticks::later(timestamps, later_by)
    }
}

impl ScalarUDFImpl for Shift {
    fn name(&self) -> &str {
        self.name
    }

    // As before, so that no other operator has to change.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let before = binary_expr(args[0].clone(), self.op, args[1].clone());
        Ok(before.schema_name().to_string())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let time = &args.arg_fields[0];
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        let data_type = time.data_type().clone();
        Ok(Arc::new(Field::new(self.name(), data_type, nullable)))
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs[0].sort_properties)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Some(array) = self.computed(&args.args) {
            return Ok(ColumnarValue::Array(array));
        }
        match self.op {
            Operator::Minus => apply(&args.args[0], &args.args[1], sub_wrapping),
            _ => apply(&args.args[0], &args.args[1], add_wrapping),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, Int64Array, make_array};
    use arrow::compute::cast as cast_array;
    use arrow::datatypes::{IntervalMonthDayNano, TimeUnit};
    use datafusion::common::config::ConfigOptions;
    use proptest::prelude::*;

    const UNITS: [(TimeUnit, i64); 4] = [
        (TimeUnit::Second, 1),
        (TimeUnit::Millisecond, 1_000),
        (TimeUnit::Microsecond, 1_000_000),
        (TimeUnit::Nanosecond, 1_000_000_000),
    ];

    const PARTS: [&str; 14] = [
        "year",
        "QUARTER",
        "Month",
        "day",
        "hour",
        "minute",
        "second",
        "dow",
        "isodow",
        "doy",
        "week",
        "isoyear",
        "epoch",
        "millisecond",
    ];

    const CUTS: [&str; 6] = ["year", "quarter", "MONTH", "week", "hour", "second"];

    fn invoke(function: &ScalarUDF, args: Vec<ColumnarValue>) -> std::result::Result<ArrayRef, ()> {
        let fields = args
            .iter()
            .map(|arg| Field::new("a", arg.data_type(), true));
        let fields: Vec<FieldRef> = fields.map(Arc::new).collect();
        let constants: Vec<Option<&ScalarValue>> = args
            .iter()
            .map(|arg| match arg {
                ColumnarValue::Scalar(value) => Some(value),
                ColumnarValue::Array(_) => None,
            })
            .collect();
        let returned = ReturnFieldArgs {
            arg_fields: &fields,
            scalar_arguments: &constants,
        };
        let return_field = function.return_field_from_args(returned).unwrap();
        let rows = args.iter().find_map(|arg| match arg {
            ColumnarValue::Array(array) => Some(array.len()),
            ColumnarValue::Scalar(_) => None,
        });
        let number_rows = rows.unwrap_or(1);
        let called = function.invoke_with_args(ScalarFunctionArgs {
            args,
            arg_fields: fields,
            number_rows,
            return_field: Arc::clone(&return_field),
            config_options: Arc::new(ConfigOptions::default()),
        });
        let array = called
            .and_then(|value| value.into_array(number_rows))
            .map_err(drop)?;
        assert_eq!(array.data_type(), return_field.data_type());
        Ok(array)
    }

    /// Days and nanoseconds that are added and subtracted.
    const SHIFTS: [(i32, i64); 7] = [
        (0, 0),
        (3, 0),
        (-40, 7_000_000_000),
        (0, 1),
        (400, -86_400_000_000_001),
        (i32::MIN, 0),
        (0, i64::MAX),
    ];

    fn assert_shifted(timestamps: &ArrayRef) {
        for (days, nanoseconds) in SHIFTS {
            let by = IntervalMonthDayNano::new(0, days, nanoseconds);
            let by = ColumnarValue::Scalar(ScalarValue::IntervalMonthDayNano(Some(by)));
            let time = ColumnarValue::Array(Arc::clone(timestamps));
            for (function, plain) in [
                (later(), apply(&time, &by, add_wrapping)),
                (earlier(), apply(&time, &by, sub_wrapping)),
            ] {
                let quick = invoke(&function, vec![time.clone(), by.clone()]);
                let plain = plain.and_then(|value| value.into_array(timestamps.len()));
                let plain = plain.map_err(drop);
                assert_eq!(quick, plain, "{timestamps:?} {days} {nanoseconds}");
            }
        }
    }

    fn assert_equal(values: &[Option<i64>], unit: TimeUnit) {
        let of_type = DataType::Timestamp(unit, None);
        let data = Int64Array::from(values.to_vec()).into_data();
        let data = data.into_builder().data_type(of_type.clone()).build();
        let timestamps = make_array(data.unwrap());
        assert_shifted(&timestamps);
        let args = |name: &str| {
            let name = ScalarValue::Utf8(Some(name.to_owned()));
            let timestamps = ColumnarValue::Array(Arc::clone(&timestamps));
            vec![ColumnarValue::Scalar(name), timestamps]
        };
        for part in PARTS {
            let quick = invoke(&quick_part(), args(part));
            let plain = invoke(&date_part(), args(part));
            assert_eq!(quick, plain, "{part} of {values:?} {of_type}");
        }
        // DataFusion 55 subtracts from the smallest timestamp when a unit has a fixed length.
        let is_extreme = values.iter().flatten().any(|v| v.unsigned_abs() > 1 << 62);
        for to in CUTS.into_iter().take(if is_extreme { 4 } else { 6 }) {
            let quick = invoke(&quick_cut(), args(to));
            // DataFusion cuts in nanoseconds, which do not reach as far as the other units.
            if let Ok(plain) = invoke(&date_trunc(), args(to)) {
                assert_eq!(quick, Ok(plain), "{values:?} {of_type} cut to {to}");
            }
        }
        let quick = invoke(&date_of(), args("").split_off(1));
        let plain = cast_array(&timestamps, &DataType::Date32);
        match (quick, plain) {
            (Ok(quick), Ok(plain)) => assert_eq!(&quick, &plain, "{values:?} {of_type}"),
            (Err(()), Err(_)) => {}
            different => panic!("{values:?} {of_type}: {different:?}"),
        }
    }

    #[test]
    fn parts_of_dates_are_those_of_datafusion() {
        let days = (-800_000..800_000)
            .step_by(371)
            .chain([i32::MIN, 0, -1, 100_000_000]);
        let days: ArrayRef = Arc::new(arrow::array::Date32Array::from_iter(
            days.map(Some).chain([None]),
        ));
        for days in [Arc::clone(&days), days.slice(0, 4_000)] {
            for part in PARTS {
                let name = ScalarValue::Utf8(Some(part.to_owned()));
                let args = vec![
                    ColumnarValue::Scalar(name),
                    ColumnarValue::Array(Arc::clone(&days)),
                ];
                let quick = invoke(&quick_part(), args.clone());
                assert_eq!(quick, invoke(&date_part(), args), "{part}");
            }
        }
    }

    #[test]
    fn borders_of_days_months_and_years_are_those_of_datafusion() {
        for (unit, per_second) in UNITS {
            let day = 86_400 * per_second;
            let leap = (11_016 + 59) * day;
            let mut values = vec![None, Some(0), Some(-1), Some(1), Some(leap), Some(leap - 1)];
            for days in (-30_000..30_000).step_by(97).chain([-719_529, -106_750]) {
                values.extend([-1, 0, 1].map(|tick| Some((days.max(-106_750) * day) + tick)));
            }
            assert_equal(&values, unit);
            for limit in [
                i64::MIN,
                i64::MAX,
                i64::MIN + 200 * day,
                80_000_001 * 86_400,
            ] {
                assert_equal(&[Some(limit)], unit);
            }
            assert_equal(&[], unit);
        }
    }

    proptest! {
        #[test]
        fn parts_of_any_timestamps_are_those_of_datafusion(
            days in proptest::collection::vec(
                proptest::option::weighted(0.9, (-100_000_i64..100_000, 0.0..1.0_f64)),
                0..40,
            ),
        ) {
            for (unit, per_second) in UNITS {
                let ticks = 86_400 * per_second;
                let of = |(days, part): (i64, f64)| days * ticks + (part * ticks as f64) as i64;
                let values: Vec<Option<i64>> = days.iter().map(|day| day.map(of)).collect();
                assert_equal(&values, unit);
            }
        }
    }
}
