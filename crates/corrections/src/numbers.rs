//! Numbers in the types that comparisons need.

use super::constants::evaluated;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, Operator};

/// A constant with a point as the decimal that its text says; `None` if it is none or `decimal` has
/// too few digits.
///
/// Sums, differences and products are exact too: `0.06 + 0.01` is 0.07, which the sum of the
/// doubles is not.
pub(super) fn as_exact_decimal(constant: &Expr, decimal: &DataType) -> Option<Expr> {
    let DataType::Decimal128(precision, scale) = *decimal else {
        return None;
    };
    let value = match evaluated(&in_decimals(constant)?)? {
        ScalarValue::Decimal128(Some(unscaled), _, from) => {
            Some(rescaled(unscaled, from, precision, scale)?)
        }
        value if value.is_null() => None,
        _ => return None,
    };
    let value = ScalarValue::Decimal128(value, precision, scale);
    Some(Expr::Literal(value, None))
}

/// A constant expression with its numbers as decimals of their digits.
fn in_decimals(constant: &Expr) -> Option<Expr> {
    Some(match constant {
        Expr::Literal(value, _) if value.is_null() => constant.clone(),
        Expr::Literal(ScalarValue::Float64(Some(number)), _) => literal(&number.to_string())?,
        Expr::Literal(ScalarValue::Float32(Some(number)), _) => literal(&number.to_string())?,
        Expr::Literal(ScalarValue::Int64(Some(number)), _) => literal(&number.to_string())?,
        Expr::Cast(cast) if cast.field.data_type().is_floating() => in_decimals(&cast.expr)?,
        Expr::Negative(inner) => Expr::Negative(Box::new(in_decimals(inner)?)),
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply) =>
        {
            let (left, right) = (in_decimals(left)?, in_decimals(right)?);
            Expr::BinaryExpr(BinaryExpr::new(Box::new(left), *op, Box::new(right)))
        }
        _ => return None,
    })
}

/// A number without exponent as a decimal literal; `None` for NaN, infinities and more than 38
/// digits.
fn literal(text: &str) -> Option<Expr> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{fraction}");
    let precision = digits.trim_start_matches('-').len().max(1);
    let unscaled: i128 = digits.parse().ok()?;
    let precision = u8::try_from(precision).ok().filter(|p| *p <= 38)?;
    let scale = i8::try_from(fraction.len()).ok()?;
    let value = ScalarValue::Decimal128(Some(unscaled), precision, scale);
    Some(Expr::Literal(value, None))
}

/// A value of scale `from` as one of scale `to`; `None` if digits would be lost.
fn rescaled(unscaled: i128, from: i8, precision: u8, to: i8) -> Option<i128> {
    let factor = 10i128.checked_pow(u32::from(to.abs_diff(from)))?;
    let value = match to >= from {
        true => unscaled.checked_mul(factor)?,
        false if unscaled % factor == 0 => unscaled / factor,
        false => return None,
    };
    let most = 10i128.checked_pow(u32::from(precision))?;
    (value.abs() < most).then_some(value)
}

/// A value that was converted to `decimal` for a comparison, as a double.
pub(super) fn as_double(value: Expr, decimal: &DataType, schema: &DFSchema) -> Result<Expr> {
    let inner = match value {
        Expr::Cast(cast) if cast.field.data_type() == decimal => *cast.expr,
        other => other,
    };
    Ok(match inner.get_type(schema)? {
        DataType::Float64 => inner,
        _ => Expr::Cast(Cast::new(Box::new(inner), DataType::Float64)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_from_their_digits() {
        let float = |value: f64| Expr::Literal(ScalarValue::Float64(Some(value)), None);
        for (constant, right) in [
            (float(1_234_567.89), Some(1_234_567_890)),
            (float(-0.005), Some(-5)),
            (float(0.0), Some(0)),
            (float(0.06) + float(0.01), Some(70)),
            (float(0.1) * float(0.2) - float(1.0), Some(-980)),
            (float(0.0001), None),
            (float(123_456_789.0), None),
            (float(f64::NAN), None),
            (float(1.0) / float(3.0), None),
        ] {
            let exact = as_exact_decimal(&constant, &DataType::Decimal128(10, 3));
            let unscaled = exact.and_then(|exact| match exact {
                Expr::Literal(ScalarValue::Decimal128(unscaled, 10, 3), _) => unscaled,
                _ => None,
            });
            assert_eq!(unscaled, right, "{constant}");
        }
    }
}
