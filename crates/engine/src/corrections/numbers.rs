//! Numbers in the types that comparisons need.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable};

/// A float literal as the decimal that its shortest text says; `None` if `decimal` has too few
/// digits.
pub(super) fn as_exact_decimal(number: &ScalarValue, decimal: &DataType) -> Option<Expr> {
    let text = match number {
        ScalarValue::Float64(Some(number)) if number.is_finite() => number.to_string(),
        ScalarValue::Float32(Some(number)) if number.is_finite() => number.to_string(),
        number if number.is_null() => {
            let null = ScalarValue::try_from(decimal).ok()?;
            return Some(Expr::Literal(null, None));
        }
        _ => return None,
    };
    let DataType::Decimal128(precision, scale) = *decimal else {
        return None;
    };
    let unscaled = unscaled(&text, precision, scale)?;
    let value = ScalarValue::Decimal128(Some(unscaled), precision, scale);
    Some(Expr::Literal(value, None))
}

/// The digits of a number without exponent, as an integer of 10^-`scale`.
fn unscaled(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let scale = usize::try_from(scale).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > scale {
        return None;
    }
    let digits = format!("{whole}{fraction:0<scale$}");
    let significant = digits.trim_start_matches(['-', '0']).len();
    (significant <= usize::from(precision))
        .then(|| digits.parse().ok())
        .flatten()
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
        for (text, right) in [
            ("1234567.89", Some(1_234_567_890)),
            ("-0.005", Some(-5)),
            ("0", Some(0)),
            ("7", Some(7_000)),
            ("0.0001", None),
            ("123456789", None),
        ] {
            assert_eq!(unscaled(text, 10, 3), right, "{text}");
        }
    }
}
