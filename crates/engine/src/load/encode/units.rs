//! The unit of a column: how many digits its floats have, or how coarse its times are.

use crate::coded::Unit;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float64Type, TimeUnit};
use tierloom_corrections::ticks_per_second;
use tierloom_kernels::{MOST_DIGITS, range_of_units};

/// Values that are looked at with one guess.
const BLOCK: usize = 1024;

/// Magnitude up to which units of any number of digits are found.
const MOST_UNITS: i64 = 1 << 52;

const SECOND: i64 = 1;
const MINUTE: i64 = 60;
const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// The unit in which all values of a column of integers or times are integers.
pub(super) fn unit_of(data_type: &DataType, chunks: &[ArrayRef]) -> Unit {
    match data_type {
        DataType::Timestamp(unit, _) | DataType::Time64(unit) | DataType::Duration(unit) => {
            Unit::Times(step(chunks, *unit))
        }
        DataType::Date64 => Unit::Times(step(chunks, TimeUnit::Millisecond)),
        _ => Unit::ONE,
    }
}

/// Floats that are all decimals of few digits.
pub(super) struct Decimals {
    /// The digits after the decimal point that all values have at most.
    pub digits: u8,
    /// The smallest and the largest value in units; `None` if all are NULL.
    pub range: Option<(i64, i64)>,
}

impl Decimals {
    /// Looks at all values; `None` if one is no decimal of few digits.
    pub fn of(chunks: &[ArrayRef]) -> Option<Self> {
        let mut found = Decimals {
            digits: 0,
            range: None,
        };
        let mut valid = Vec::with_capacity(BLOCK);
        for chunk in chunks {
            let floats = chunk.as_primitive_opt::<Float64Type>()?;
            let nulls = floats.nulls().filter(|nulls| nulls.null_count() > 0);
            for (at, block) in floats.values().chunks(BLOCK).enumerate() {
                match nulls {
                    None => found.add(block)?,
                    Some(nulls) => {
                        valid.clear();
                        let rows = block.iter().enumerate();
                        let rows = rows.filter(|(row, _)| nulls.is_valid(at * BLOCK + row));
                        valid.extend(rows.map(|(_, value)| *value));
                        found.add(&valid)?;
                    }
                }
            }
        }
        Some(found)
    }

    fn add(&mut self, values: &[f64]) -> Option<()> {
        let found = |digits| Some((digits, range_of_units(values, digits)?));
        let (digits, (low, high)) = (self.digits..=MOST_DIGITS).find_map(found)?;
        if let Some((least, most)) = &mut self.range {
            let power = 10_i64.pow(u32::from(digits - self.digits));
            *least = least.checked_mul(power)?;
            *most = most.checked_mul(power)?;
        }
        self.digits = digits;
        if low <= high {
            let (least, most) = self.range.unwrap_or((low, high));
            self.range = Some((least.min(low), most.max(high)));
        }
        // What has more units may not be found again with so many digits.
        let fits = |(least, most)| least >= -MOST_UNITS && most <= MOST_UNITS;
        self.range.is_none_or(fits).then_some(())
    }
}

/// The longest of the usual steps of time of which all values are multiples, in the column's unit.
fn step(chunks: &[ArrayRef], unit: TimeUnit) -> i64 {
    let second = ticks_per_second(unit);
    let whole = [DAY, HOUR, MINUTE, SECOND].map(|seconds| seconds * second);
    let parts = [1_000, 1_000_000].map(|parts| second / parts);
    let steps = whole.into_iter().chain(parts).filter(|step| *step > 1);
    let mut steps = steps.map(Divider::new);
    let Some(mut divider) = steps.next() else {
        return 1;
    };
    for chunk in chunks {
        let data = chunk.to_data();
        let integers: &[i64] = data.buffer(0);
        let integers = &integers[..data.len()];
        let nulls = chunk.nulls().filter(|nulls| nulls.null_count() > 0);
        for (at, block) in integers.chunks(BLOCK).enumerate() {
            let fits = |divider: &Divider| match nulls {
                None => block
                    .iter()
                    .fold(true, |all, v| all & divider.divided(*v).is_some()),
                Some(nulls) => block.iter().enumerate().all(|(row, value)| {
                    nulls.is_null(at * BLOCK + row) || divider.divided(*value).is_some()
                }),
            };
            while !fits(&divider) {
                match steps.next() {
                    Some(next) => divider = next,
                    None => return 1,
                }
            }
        }
    }
    divider.step
}

/// Divides by a step where that leaves nothing, without the processor's slow division.
///
/// The quotient of an exact division by an odd number is a product with its inverse modulo 2^64,
/// and a product larger than any quotient says that it was not exact (Granlund and Montgomery,
/// "Division by Invariant Integers using Multiplication", 1994, section 9).
pub(super) struct Divider {
    step: i64,
    /// Factors of two of the step, and the inverse of the rest.
    twos: u32,
    inverse: u64,
    /// A multiple of the step that makes all but the least of negative numbers positive, and how
    /// often the step is in it.
    shift: i64,
    shifted: i64,
}

impl Divider {
    pub fn new(step: i64) -> Self {
        let twos = step.trailing_zeros();
        let odd = (step >> twos) as u64;
        // Each round doubles the number of low bits that are right; five are at first.
        let mut inverse = odd.wrapping_mul(3) ^ 2;
        for _ in 0..4 {
            inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        }
        let shifted = i64::MAX / step;
        Divider {
            step,
            twos,
            inverse,
            shift: shifted * step,
            shifted,
        }
    }

    /// `value / step`, if `value` is a multiple.
    #[inline]
    pub fn divided(&self, value: i64) -> Option<i64> {
        // The sum is below 2^64, as both are below 2^63.
        let positive = (value as u64).wrapping_add(self.shift as u64);
        let quotient = positive.wrapping_mul(self.inverse).rotate_right(self.twos);
        let is_exact = quotient <= u64::MAX / self.step as u64 && value >= -self.shift;
        is_exact.then_some((quotient as i64).wrapping_sub(self.shifted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, TimestampMicrosecondArray};
    use proptest::prelude::*;
    use std::sync::Arc;

    proptest! {
        #[test]
        fn a_quotient_is_exact_or_there_is_none(
            value in any::<i64>(),
            step in prop_oneof![
                prop::sample::select(vec![1_000, 60_000_000, 86_400_000_000_000]),
                2_i64..i64::MAX,
            ],
        ) {
            let divider = Divider::new(step);
            let multiple = value / step * step;
            for value in [value, multiple, multiple.saturating_add(1)] {
                let divided = divider.divided(value);
                if value >= -(i64::MAX / step * step) {
                    prop_assert_eq!(divided, (value % step == 0).then_some(value / step));
                } else {
                    prop_assert_eq!(divided, None);
                }
            }
        }
    }

    #[test]
    fn the_unit_fits_the_finest_value_and_null_is_none() {
        let floats =
            |values: Vec<Option<f64>>| -> ArrayRef { Arc::new(Float64Array::from(values)) };
        let of_floats = |chunks: &[ArrayRef]| {
            let found = Decimals::of(chunks)?;
            Some((found.digits, found.range))
        };
        let coarse = floats(vec![Some(1.0), None, Some(-7.0)]);
        let fine = floats(vec![Some(0.25), Some(12.5)]);
        let huge = floats(vec![Some(1e15)]);
        let odd = floats(vec![Some(0.1 + 0.2)]);
        assert_eq!(of_floats(&[]), Some((0, None)));
        assert_eq!(of_floats(&[floats(vec![None, None])]), Some((0, None)));
        assert_eq!(
            of_floats(std::slice::from_ref(&coarse)),
            Some((0, Some((-7, 1))))
        );
        let both = [coarse.clone(), fine.clone()];
        assert_eq!(of_floats(&both), Some((2, Some((-700, 1250)))));
        let units = 10_i64.pow(15);
        assert_eq!(
            of_floats(std::slice::from_ref(&huge)),
            Some((0, Some((units, units))))
        );
        assert_eq!(of_floats(&[huge, fine.clone()]), None);
        assert_eq!(of_floats(&[coarse, odd, fine]), None);
        assert_eq!(of_floats(&[floats(vec![Some(f64::NAN)])]), None);

        let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
        let of_times = |values: &[i64]| {
            let times = TimestampMicrosecondArray::from(values.to_vec());
            unit_of(&micros, &[Arc::new(times) as ArrayRef])
        };
        let day = 86_400_000_000;
        assert_eq!(of_times(&[0, -day, 7 * day]), Unit::Times(day));
        assert_eq!(of_times(&[3_600_000_000, day]), Unit::Times(3_600_000_000));
        assert_eq!(of_times(&[1_000_000]), Unit::Times(1_000_000));
        assert_eq!(of_times(&[1_000_000, -5_000]), Unit::Times(1_000));
        assert_eq!(of_times(&[1_000_001]), Unit::Times(1));
        let with_null = TimestampMicrosecondArray::from(vec![Some(day), None]);
        assert_eq!(
            unit_of(&micros, &[Arc::new(with_null) as ArrayRef]),
            Unit::Times(day)
        );
        let sliced = TimestampMicrosecondArray::from(vec![1, day, 2 * day, 5]).slice(1, 2);
        assert_eq!(
            unit_of(&micros, &[Arc::new(sliced) as ArrayRef]),
            Unit::Times(day)
        );
    }
}
