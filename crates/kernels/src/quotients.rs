//! Quotients of integers as integers of a small power of two.

/// Bits of the lower part of a quotient, [`quotients`]. One less than a word, so that both parts
/// are signed integers: processors convert floats to these at once.
pub const LOW_BITS: u32 = 63;

/// 2 to the power of [`LOW_BITS`].
const LOW: f64 = (1_u64 << LOW_BITS) as f64;

/// Writes `dividend / divisor * scale` for each row, where the quotient is the nearest 64-bit
/// float, as `high + low / 2^63`, both rounded towards 0.
///
/// The product has to fit 63 bits and a sign, and `scale` to be a power of two. A row whose divisor
/// is 0 gets any numbers. Returns whether there is one.
///
/// # Panics
/// If the slices differ in length.
pub fn quotients(
    dividends: &[i64],
    divisors: &[i64],
    scale: f64,
    high: &mut [i64],
    low: &mut [i64],
) -> bool {
    assert!(dividends.len() == divisors.len() && divisors.len() == high.len());
    assert!(high.len() == low.len());
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
        // SAFETY: the processor has both features, which were just checked.
        return unsafe { quotients_avx512(dividends, divisors, scale, high, low) };
    }
    quotients_plain(dividends, divisors, scale, high, low)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq")]
fn quotients_avx512(
    dividends: &[i64],
    divisors: &[i64],
    scale: f64,
    high: &mut [i64],
    low: &mut [i64],
) -> bool {
    quotients_plain(dividends, divisors, scale, high, low)
}

#[inline(always)]
fn quotients_plain(
    dividends: &[i64],
    divisors: &[i64],
    scale: f64,
    high: &mut [i64],
    low: &mut [i64],
) -> bool {
    let mut any_zero = false;
    let rows = dividends.iter().zip(divisors);
    for ((dividend, divisor), (high, low)) in rows.zip(high.iter_mut().zip(low)) {
        any_zero |= *divisor == 0;
        let value = *dividend as f64 / *divisor as f64 * scale;
        *high = value as i64;
        // What is behind the point of a float is a float too, and so is a product with a power of
        // two.
        *low = ((value - *high as f64) * LOW) as i64;
    }
    any_zero
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_quotient_is_the_nearest_float_without_what_is_below_its_last_bit(
            rows in prop::collection::vec((-(1_i64 << 53)..1 << 53, any::<i64>()), 1..40),
            exponent in -70_i32..9,
        ) {
            let (dividends, divisors): (Vec<i64>, Vec<i64>) = rows.iter().copied().unzip();
            let mut divisors = divisors;
            for (at, divisor) in divisors.iter_mut().enumerate() {
                // Small ones too, and 0.
                *divisor >>= (at * 7) % 64;
            }
            let scale = 2_f64.powi(exponent);
            let (mut high, mut low) = (vec![0; rows.len()], vec![0; rows.len()]);
            let any_zero = quotients(&dividends, &divisors, scale, &mut high, &mut low);
            prop_assert_eq!(any_zero, divisors.contains(&0));
            let (mut other_high, mut other_low) = (high.clone(), low.clone());
            quotients_plain(&dividends, &divisors, scale, &mut other_high, &mut other_low);
            for row in (0..rows.len()).filter(|row| divisors[*row] != 0) {
                prop_assert_eq!((high[row], low[row]), (other_high[row], other_low[row]));
                let value = dividends[row] as f64 / divisors[row] as f64 * scale;
                let (bits, negative) = (value.to_bits(), value < 0.0);
                let exponent = (bits >> 52 & 0x7ff) as i32 - 1023;
                let mantissa = i128::from(bits & ((1 << 52) - 1) | 1 << 52);
                // Exact in 128 bits, as it is below 2^63.
                let magnitude = match exponent - 52 + LOW_BITS as i32 {
                    _ if value == 0.0 => 0,
                    shift @ 0.. => mantissa << shift,
                    shift if shift < -100 => 0,
                    shift => mantissa >> -shift,
                };
                let expected = if negative { -magnitude } else { magnitude };
                let found = (i128::from(high[row]) << LOW_BITS) + i128::from(low[row]);
                prop_assert_eq!(found, expected, "{}", value);
            }
        }
    }
}
