//! Seconds of a duration.
//!
//! DataFusion 55 takes the fraction of the seconds of a duration from all of its nanoseconds in 32
//! bits, so that it is missing from about two seconds on: `extract(epoch from a - b)` is 5 for
//! 5.75. [`DatePart`] takes the place of `date_part` in a session and divides.

use crate::ticks_per_second;
use arrow::array::{ArrayRef, AsArray, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Int64Type, TimeUnit};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions::datetime::date_part as plain;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};
use std::sync::{Arc, LazyLock};

static DATE_PART: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::new_from_impl(DatePart(plain()))));

/// `date_part` for a session.
#[must_use]
pub(crate) fn date_part() -> Arc<ScalarUDF> {
    Arc::clone(&DATE_PART)
}

/// Plans `EXTRACT` with that function.
#[derive(Debug)]
pub(crate) struct Extract;

impl ExprPlanner for Extract {
    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(DATE_PART.call(args)))
    }
}

/// DataFusion's function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct DatePart(Arc<ScalarUDF>);

impl ScalarUDFImpl for DatePart {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.inner().return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.0.return_field_from_args(args)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.0.output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.0.preserves_lex_ordering(inputs)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let [ColumnarValue::Scalar(part), times] = &args.args[..]
            && let Some(Some(part)) = part.try_as_str()
            && part.eq_ignore_ascii_case("epoch")
            && let DataType::Duration(unit) = times.data_type()
        {
            return Ok(match times {
                ColumnarValue::Array(times) => {
                    ColumnarValue::Array(Arc::new(seconds(times, unit)?))
                }
                ColumnarValue::Scalar(time) => {
                    let times = seconds(&time.to_array()?, unit)?;
                    ColumnarValue::Scalar(ScalarValue::try_from_array(&times, 0)?)
                }
            });
        }
        self.0.invoke_with_args(args)
    }
}

/// The seconds of durations.
fn seconds(times: &ArrayRef, unit: TimeUnit) -> Result<Float64Array> {
    let ticks = cast(times, &DataType::Int64)?;
    let of_second = ticks_per_second(unit) as f64;
    Ok(ticks
        .as_primitive::<Int64Type>()
        .unary(|t| t as f64 / of_second))
}
