//! Sums of floats that hardly depend on the order of the rows.
//!
//! While rows are added, a sum is kept in three words ([`ExactSum`]), afterwards in two: the float
//! nearest to it and what that lacks. They are right to some 100 bits.

use tierloom_kernels::sums::{ExactSum, exact_product};
use tierloom_kernels::words::{float, word};

/// The sum in the words of a group; its parts are `stride` words apart.
#[inline(always)]
pub(crate) fn sum_of(words: &[i64], stride: usize) -> ExactSum {
    ExactSum {
        sum: float(words[0]),
        lost: float(words[stride]),
        rest: float(words[2 * stride]),
    }
}

/// Writes a sum to the words of a group.
#[inline(always)]
pub(crate) fn write(sum: ExactSum, words: &mut [i64], stride: usize) {
    words[0] = word(sum.sum);
    words[stride] = word(sum.lost);
    words[2 * stride] = word(sum.rest);
}

/// The sum of all rows of a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FloatSum {
    /// The float nearest to it.
    sum: f64,
    /// What that lacks.
    lost: f64,
}

impl From<ExactSum> for FloatSum {
    fn from(of: ExactSum) -> Self {
        // What is lost of an infinite sum is no number.
        if !of.sum.is_finite() {
            return FloatSum {
                sum: of.sum,
                lost: 0.0,
            };
        }
        let mut all = ExactSum::default();
        for part in [of.sum, of.lost, of.rest] {
            all.add(part);
        }
        let sum = all.sum + all.lost;
        let lost = all.lost - (sum - all.sum) + all.rest;
        FloatSum { sum, lost }
    }
}

impl FloatSum {
    /// The sum in the value of a measure.
    #[must_use]
    pub fn of_value(value: i128) -> Self {
        FloatSum {
            sum: float((value >> 64) as i64),
            lost: float(value as i64),
        }
    }

    /// The sum as the value of a measure.
    pub(crate) fn to_value(self) -> i128 {
        i128::from(word(self.sum)) << 64 | i128::from(self.lost.to_bits())
    }

    /// The sum of `count` pairs' differences from their means, multiplied, if this is that of the
    /// products and `a` and `b` are those of the values: this minus `a * b / count`.
    ///
    /// Differences that are small beside the values lose nothing. 0 where they are so small that
    /// only roundings are left, so that the variance of a constant is 0.
    #[must_use]
    pub fn deviations(self, a: FloatSum, b: FloatSum, count: f64) -> f64 {
        let (sum, lost) = exact_product(count, self.sum);
        // Each row may lose a bit of 106.
        let resolution = sum.abs() * (count + 8.0) * 2_f64.powi(-105);
        let mut all = ExactSum::default();
        all.add(sum);
        all.add(lost + count * self.lost);
        let (sum, lost) = exact_product(a.sum, b.sum);
        all.add(-sum);
        all.add(-(lost + (a.sum * b.lost + a.lost * b.sum)));
        match FloatSum::from(all).value() {
            value if value.abs() < resolution => 0.0,
            value => value / count,
        }
    }

    /// The float nearest to it.
    #[must_use]
    pub fn value(self) -> f64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tierloom_kernels::sums::{SUM_WORDS, sum_floats};

    proptest! {
        #[test]
        fn sums_are_the_floats_nearest_to_the_exact_ones_in_any_order(
            parts in prop::collection::vec(
                prop::collection::vec((-(1_i64 << 52)..1 << 52, 0_i32..60), 0..40), 1..5),
        ) {
            let value = |(mantissa, exponent): &(i64, i32)| *mantissa as f64 * 2_f64.powi(*exponent);
            let exact = |(mantissa, exponent): &(i64, i32)| i128::from(*mantissa) << exponent;
            let mut whole = ExactSum::default();
            for part in &parts {
                let mut sum = ExactSum::default();
                part.iter().for_each(|v| sum.add(value(v)));
                let mut words = [0; 3 * SUM_WORDS];
                write(sum, &mut words, 3);
                whole.join(sum_of(&words, 3));
            }
            let total: i128 = parts.iter().flatten().map(exact).sum();
            let found = FloatSum::of_value(FloatSum::from(whole).to_value());
            prop_assert_eq!(found.value(), total as f64);
        }
    }

    #[test]
    fn deviations_beside_a_large_mean_keep_their_digits() {
        let [mut of_values, mut of_squares] = [ExactSum::default(); 2];
        for value in [1e9 + 0.25, 1e9 + 0.5, 1e9 + 1.0, 1e9 - 0.75] {
            of_values.add(value);
            let (square, lost) = exact_product(value, value);
            of_squares.add(square);
            of_squares.add(lost);
        }
        let (of_values, of_squares) = (FloatSum::from(of_values), FloatSum::from(of_squares));
        // The values are 0.25, 0.5, 1 and -0.75 from it, and their mean 0.25.
        let expected = 0.0625 + 0.5625 + 1.0;
        assert_eq!(of_squares.deviations(of_values, of_values, 4.0), expected);
    }

    #[test]
    fn a_constant_has_no_variance() {
        for (constant, rows) in [(0.1, 7), (1.0 / 3.0, 1_000_003), (-123_456.789, 5_000_000)] {
            let [mut of_values, mut of_squares] = [ExactSum::default(); 2];
            let (square, lost) = exact_product(constant, constant);
            for _ in 0..rows {
                of_values.add(constant);
                of_squares.add(square);
                of_squares.add(lost);
            }
            let (of_values, of_squares) = (FloatSum::from(of_values), FloatSum::from(of_squares));
            let found = of_squares.deviations(of_values, of_values, f64::from(rows));
            assert_eq!(found, 0.0, "{constant}");
        }
    }

    #[test]
    fn what_is_not_finite_stays() {
        for (values, expected) in [
            ([f64::INFINITY, 1.0, -5.0], f64::INFINITY),
            ([f64::MAX, f64::MAX, 1.0], f64::INFINITY),
            ([f64::INFINITY, f64::NEG_INFINITY, 0.0], f64::NAN),
            ([1.0, f64::NAN, 2.0], f64::NAN),
        ] {
            let found = FloatSum::from(sum_floats(&values.map(word).repeat(12))).value();
            assert_eq!(found.is_nan(), expected.is_nan(), "{values:?}");
            assert!(found.is_nan() || found == expected, "{values:?}");
        }
    }
}
