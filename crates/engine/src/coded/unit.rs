//! What the integers of a domain count.

use super::from_integers;
use crate::EngineError;
use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::compute::unary;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tierloom_kernels::{MOST_DIGITS, decimal};

/// What the integers of a domain count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// So many of the integers that the type has itself: 1, or 1,000,000 for whole seconds in a
    /// type of microseconds.
    Times(i64),
    /// Of 64-bit floats: the value is the float nearest to the integer divided by 10 to the power
    /// of so many digits.
    Decimal(u8),
}

impl Default for Unit {
    fn default() -> Self {
        Unit::ONE
    }
}

impl Unit {
    /// The integers of the type itself.
    pub const ONE: Unit = Unit::Times(1);

    /// Why values of `data_type` cannot be counted in it; `None` if they can.
    pub(super) fn mismatch(self, data_type: &DataType) -> Option<String> {
        let is_float = *data_type == DataType::Float64;
        match self {
            Unit::Times(_) if is_float => Some("counts floats by integers".into()),
            Unit::Times(1) => None,
            Unit::Times(step) if step > 1 && data_type.primitive_width() == Some(8) => None,
            Unit::Decimal(digits) if is_float && digits <= MOST_DIGITS => None,
            odd => Some(format!("counts values of type {data_type} by {odd:?}")),
        }
    }

    /// The values of integers, as an array of `data_type`.
    ///
    /// # Errors
    /// Arrow's, from casting to the type.
    pub(crate) fn values(
        self,
        units: Int64Array,
        data_type: &DataType,
    ) -> Result<ArrayRef, EngineError> {
        match self {
            Unit::Times(1) => from_integers(&(Arc::new(units) as ArrayRef), data_type),
            Unit::Times(step) => {
                // NULL has an integer too, whose product is arbitrary.
                let times = |unit: i64| unit.wrapping_mul(step);
                let integers: Int64Array = unary(&units, times);
                reinterpreted(integers, data_type)
            }
            Unit::Decimal(digits) => {
                let floats: Float64Array = unary(&units, |unit| decimal(unit, digits));
                Ok(Arc::new(floats))
            }
        }
    }

    /// The largest integer whose value is at most `value`, and whether it is `value`.
    ///
    /// `None` for NULL, for types without integers, and for the floats that SQL and Arrow order
    /// differently: NaN and -0.
    pub(crate) fn floor(self, value: &ScalarValue) -> Option<(i128, bool)> {
        match self {
            Unit::Times(step) => {
                let (value, step) = (integer(value)?, i128::from(step));
                let is_exact = value.rem_euclid(step) == 0;
                Some((value.div_euclid(step), is_exact))
            }
            Unit::Decimal(digits) => {
                let ScalarValue::Float64(Some(value)) = value else {
                    return None;
                };
                let is_negative_zero = *value == 0.0 && value.is_sign_negative();
                if value.is_nan() || is_negative_zero {
                    return None;
                }
                Some(decimal_floor(*value, digits))
            }
        }
    }
}

/// Integers of a 64-bit type as values of the type.
pub(super) fn reinterpreted(
    integers: Int64Array,
    data_type: &DataType,
) -> Result<ArrayRef, EngineError> {
    let data = integers
        .to_data()
        .into_builder()
        .data_type(data_type.clone());
    Ok(arrow::array::make_array(data.build()?))
}

/// The largest integer whose decimal is at most `value`, and whether it is `value`; of those up to
/// 2^53, which have all another one.
fn decimal_floor(value: f64, digits: u8) -> (i128, bool) {
    const MOST: f64 = (1_u64 << 53) as f64;
    let near = (value * 10_f64.powi(i32::from(digits))).clamp(-MOST, MOST);
    let mut units = near.round() as i64;
    // The product was rounded, so that it may be on the other side of an integer.
    while decimal(units, digits) > value && units > -(MOST as i64) {
        units -= 1;
    }
    while decimal(units + 1, digits) <= value && units < MOST as i64 {
        units += 1;
    }
    let found = decimal(units, digits);
    match found > value {
        // All are larger.
        true => (i128::MIN / 2, false),
        false => (i128::from(units), found == value),
    }
}

/// The integer that represents a value: an integer itself, a count of the type's time unit, an
/// unscaled decimal.
fn integer(value: &ScalarValue) -> Option<i128> {
    use ScalarValue as Of;
    match value {
        Of::Decimal128(value, ..) => *value,
        Of::UInt64(value) => value.map(i128::from),
        Of::Date32(value) | Of::Time32Second(value) | Of::Time32Millisecond(value) => {
            value.map(i128::from)
        }
        Of::Dictionary(_, value) => integer(value),
        other => {
            let data_type = other.data_type();
            let is_counted = data_type.is_integer()
                || matches!(
                    data_type,
                    DataType::Date64
                        | DataType::Time64(_)
                        | DataType::Timestamp(..)
                        | DataType::Duration(_)
                );
            if !is_counted {
                return None;
            }
            let wide = other.cast_to(&DataType::Int64).ok()?.to_array().ok()?;
            let wide = wide.as_primitive::<Int64Type>();
            wide.iter().next()?.map(i128::from)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::TimeUnit;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bound_is_between_the_values_of_two_integers(
            units in -(1_i64 << 40)..1 << 40,
            nudge in -2_i64..3,
            digits in 0..=MOST_DIGITS,
            step in prop::sample::select(vec![1_i64, 7, 1000, 86_400_000_000]),
        ) {
            let near = decimal(units, digits);
            let value = f64::from_bits((near.to_bits() as i64 + nudge) as u64);
            prop_assume!(value != 0.0 || value.is_sign_positive());
            prop_assume!(!value.is_nan());
            let unit = Unit::Decimal(digits);
            let (floor, is_exact) = unit.floor(&ScalarValue::Float64(Some(value))).unwrap();
            let floor = i64::try_from(floor).unwrap();
            prop_assert!(decimal(floor, digits) <= value && value < decimal(floor + 1, digits));
            prop_assert_eq!(is_exact, decimal(floor, digits) == value);

            let value = (units / step).wrapping_mul(step) + nudge;
            let scalar = ScalarValue::TimestampMicrosecond(Some(value), None);
            let (floor, is_exact) = Unit::Times(step).floor(&scalar).unwrap();
            let (low, value) = (floor * i128::from(step), i128::from(value));
            prop_assert!(low <= value && value < low + i128::from(step));
            prop_assert_eq!(is_exact, low == value);
        }
    }

    #[test]
    fn floats_out_of_reach_and_those_without_one_order_have_no_integer_near() {
        let unit = Unit::Decimal(2);
        let floor = |value: f64| unit.floor(&ScalarValue::Float64(Some(value)));
        assert_eq!(floor(f64::NAN), None);
        assert_eq!(floor(-0.0), None);
        assert_eq!(floor(0.0), Some((0, true)));
        for huge in [f64::INFINITY, f64::MAX, 1e200] {
            assert!(floor(huge).unwrap().0 >= 1 << 53 && !floor(huge).unwrap().1);
            assert!(floor(-huge).unwrap().0 < -(1 << 53));
        }
        assert_eq!(unit.floor(&ScalarValue::Float64(None)), None);
        assert_eq!(Unit::ONE.floor(&ScalarValue::Utf8(Some("1".into()))), None);
    }

    #[test]
    fn a_unit_of_another_type_is_refused() {
        let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
        assert_eq!(Unit::ONE.mismatch(&DataType::Int8), None);
        assert_eq!(Unit::Times(1000).mismatch(&micros), None);
        assert_eq!(Unit::Decimal(2).mismatch(&DataType::Float64), None);
        for (unit, data_type) in [
            (Unit::ONE, DataType::Float64),
            (Unit::Times(0), micros.clone()),
            (Unit::Times(-5), micros.clone()),
            (Unit::Times(10), DataType::Int32),
            (Unit::Decimal(2), micros),
            (Unit::Decimal(2), DataType::Float32),
            (Unit::Decimal(MOST_DIGITS + 1), DataType::Float64),
        ] {
            assert!(
                unit.mismatch(&data_type).is_some(),
                "{unit:?} of {data_type}"
            );
        }
    }
}
