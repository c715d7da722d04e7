//! Groups by floats that are whole numbers of a known range, such as `floor(x / 10)`: with others
//! they are a part of a key, as integers are.

use super::NotFused;
use super::arithmetic::Arithmetic;
use super::typed::Typed;
use super::universe::placed_column;
use crate::ranks::float_of;
use arrow::datatypes::DataType;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal, NegativeExpr};
use datafusion::physical_plan::PhysicalExpr;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;
use tierloom_corrections::ONE_NAN_NAME;
use tierloom_star::MOST_WHOLE;

impl Arithmetic<'_> {
    /// The integers of an expression that gives whole floats.
    ///
    /// # Errors
    /// If they may be no whole numbers, are not known to be in a range, or not those of SQL.
    pub(super) fn whole_floats(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Typed, NotFused> {
        if !is_whole(expr) {
            return NotFused::because(format!("{expr} may be no whole number"));
        }
        let Some((low, high)) = self.range_of_floats(expr)? else {
            return NotFused::because(format!("{expr} has no known range"));
        };
        let computed = self.as_computed(expr)?;
        if !computed.is_as_computed() {
            return NotFused::because(format!("{expr} depends on how it is rounded"));
        }
        let floats = computed.in_bits()?;
        let most = MOST_WHOLE as f64;
        if !(-most <= low && high <= most) {
            return NotFused::because(format!("{expr} has too large values"));
        }
        Ok(Typed {
            expr: floats.expr.whole(low as i64, high as i64),
            float: None,
            ..floats
        })
    }

    /// The smallest and the largest value that a float can have; `None` if that is not known.
    fn range_of_floats(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
    ) -> Result<Option<(f64, f64)>, NotFused> {
        let is_narrow = expr.data_type(&self.lowered.universe)? == DataType::Float32;
        let rounded = |value: f64| match is_narrow {
            true => f64::from(value as f32),
            false => value,
        };
        let range = self.range_of_results(expr)?;
        Ok(range.map(|(low, high)| (rounded(low), rounded(high))))
    }

    /// The same, with the precision of 64 bits.
    fn range_of_results(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
    ) -> Result<Option<(f64, f64)>, NotFused> {
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            let value = match literal.value() {
                ScalarValue::Float64(value) => *value,
                ScalarValue::Float32(value) => value.map(f64::from),
                _ => None,
            };
            return Ok(value.map(|value| (value, value)));
        }
        let typed = self.as_computed(expr)?;
        if let Ok(form) = typed.form() {
            let units = self.interval(&typed.expr)?;
            let value = |units: i128| units as f64 / form.unit();
            return Ok(Some((value(units.low), value(units.high))));
        }
        if let Some(column) = expr.downcast_ref::<Column>() {
            return Ok(self.range_of_column(column.index()));
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            return self.range_of_floats(cast.expr());
        }
        if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
            let range = self.range_of_floats(negative.arg())?;
            return Ok(range.map(|(low, high)| (-high, -low)));
        }
        if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
            let [argument] = call.args() else {
                return Ok(None);
            };
            // All of them never fall.
            let function = match call.fun().name() {
                ONE_NAN_NAME => |value| value,
                "floor" => f64::floor,
                "ceil" => f64::ceil,
                "round" => f64::round,
                "sqrt" => f64::sqrt,
                _ => return Ok(None),
            };
            let range = self.range_of_floats(argument)?;
            let range = range.map(|(low, high)| (function(low), function(high)));
            return Ok(range.filter(|(low, high)| low.is_finite() && high.is_finite()));
        }
        let Some(binary) = expr.downcast_ref::<BinaryExpr>() else {
            return Ok(None);
        };
        let left = self.range_of_floats(binary.left())?;
        let right = self.range_of_floats(binary.right())?;
        let both = left.zip(right);
        Ok(both.and_then(|(a, b)| combined(*binary.op(), a, b)))
    }

    /// The smallest and the largest value of a column of words; `None` with NaN among them.
    fn range_of_column(&self, column: usize) -> Option<(f64, f64)> {
        if self.lowered.owner(column).is_some() {
            return None;
        }
        let (low, high) = placed_column(self.lowered, column).rank_range()??;
        let (low, high) = (float_of(low), float_of(high));
        // NaN is at one of the ends.
        (low.is_finite() && high.is_finite()).then_some((low, high))
    }
}

/// The range of the results of an operation on values of two ranges.
///
/// Rounding never turns the order of two values around, so the results at the ends are the ends.
fn combined(op: Operator, a: (f64, f64), b: (f64, f64)) -> Option<(f64, f64)> {
    let apply = match op {
        Operator::Plus => |a, b| a + b,
        Operator::Minus => |a, b| a - b,
        Operator::Multiply => |a, b| a * b,
        Operator::Divide if b.0 > 0.0 || b.1 < 0.0 => |a, b| a / b,
        _ => return None,
    };
    let ends: [f64; 4] = [(a.0, b.0), (a.0, b.1), (a.1, b.0), (a.1, b.1)].map(|(a, b)| apply(a, b));
    let low = ends.into_iter().fold(f64::INFINITY, f64::min);
    let high = ends.into_iter().fold(f64::NEG_INFINITY, f64::max);
    (low.is_finite() && high.is_finite()).then_some((low, high))
}

/// Whether a float is a whole number wherever it is finite.
fn is_whole(expr: &Arc<dyn PhysicalExpr>) -> bool {
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return match literal.value() {
            ScalarValue::Float64(Some(value)) => value.fract() == 0.0,
            ScalarValue::Float32(Some(value)) => value.fract() == 0.0,
            _ => false,
        };
    }
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        return match call.fun().name() {
            "floor" | "ceil" => true,
            ONE_NAN_NAME => call.args().iter().all(is_whole),
            "round" => call.args().len() == 1,
            _ => false,
        };
    }
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        let keeps = matches!(
            binary.op(),
            Operator::Plus | Operator::Minus | Operator::Multiply
        );
        return keeps && is_whole(binary.left()) && is_whole(binary.right());
    }
    expr.downcast_ref::<NegativeExpr>()
        .is_some_and(|negative| is_whole(negative.arg()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_the_ends_and_unknown_where_they_are_not_finite() {
        let of = |op| combined(op, (-3.0, 8.0), (2.0, 4.0));
        assert_eq!(of(Operator::Plus), Some((-1.0, 12.0)));
        assert_eq!(of(Operator::Minus), Some((-7.0, 6.0)));
        assert_eq!(of(Operator::Multiply), Some((-12.0, 32.0)));
        assert_eq!(of(Operator::Divide), Some((-1.5, 4.0)));
        assert_eq!(of(Operator::Modulo), None);
        assert_eq!(combined(Operator::Divide, (1.0, 2.0), (-1.0, 1.0)), None);
        assert_eq!(combined(Operator::Divide, (1.0, 2.0), (0.0, 1.0)), None);
        let huge = (f64::MAX, f64::MAX);
        assert_eq!(combined(Operator::Plus, huge, huge), None);
    }
}
