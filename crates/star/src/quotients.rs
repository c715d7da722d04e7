//! Sums of quotients as sums of integers.

use crate::groups::{Words, add_wide};
use crate::plan::PlanError;

/// Bits of the lower part of a sum. One less than a word, so that both parts are signed integers:
/// processors convert floats to these at once.
pub(crate) const LOW_BITS: u32 = 63;

/// 2 to the power of [`LOW_BITS`].
const LOW: f64 = (1_u64 << LOW_BITS) as f64;

/// Adds the quotients of rows to their groups, and counts them where a group keeps the number of
/// those that count.
///
/// `rows` has the offset of each row's group, the dividend and the divisor, for the rows that
/// count.
///
/// # Errors
/// [`PlanError::DividedByZero`].
pub(crate) fn add_quotients(
    words: &mut [i64],
    place: Words,
    shift: u32,
    rows: impl Iterator<Item = (u32, i64, i64)>,
) -> Result<(), PlanError> {
    let scale = 2_f64.powi(shift as i32 - LOW_BITS as i32);
    for (offset, dividend, divisor) in rows {
        if divisor == 0 {
            return Err(PlanError::DividedByZero);
        }
        let offset = offset as usize;
        if let Some(at) = place.valid_at {
            words[offset + at] += 1;
        }
        let value = fixed(dividend as f64 / divisor as f64 * scale);
        add_wide(words, offset + place.at, value);
    }
    Ok(())
}

/// `value` times 2^63, rounded towards 0; its magnitude is below 2^63.
#[inline(always)]
fn fixed(value: f64) -> i128 {
    let high = value as i64;
    // What is behind the point of a float is a float too, and so is a product with a power of two.
    let low = ((value - high as f64) * LOW) as i64;
    (i128::from(high) << LOW_BITS) + i128::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_float_becomes_its_integer_part(bits in any::<u64>(), exponent in -70_i32..62) {
            // A mantissa of any bits, and a magnitude from far below a unit to the largest.
            let mantissa = 1.0 + (bits >> 12) as f64 / (1_u64 << 52) as f64;
            let value = mantissa * 2_f64.powi(exponent) * if bits & 1 == 0 { 1.0 } else { -1.0 };
            // Exact in 128 bits: 53 of the mantissa, shifted.
            let whole = (mantissa * (1_u64 << 52) as f64) as i128;
            let shift = exponent + LOW_BITS as i32 - 52;
            let exact = match shift {
                0.. => whole << shift,
                _ => whole >> -shift,
            };
            let expected = if value < 0.0 { -exact } else { exact };
            prop_assert_eq!(fixed(value), expected, "{}", value);
        }
    }
}
