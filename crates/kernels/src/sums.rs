//! Sums of floats that keep what their roundings lose.

use crate::words::{float, for_processor, word};

/// A sum of floats in three parts: the rounded sum, what its roundings lost, and what the roundings
/// of that lost (Ogita, Rump and Oishi, Accurate sum and dot product, 2005, with K = 3).
///
/// Each part waits only for itself, so that additions follow each other quickly.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ExactSum {
    /// The rounded sum.
    pub sum: f64,
    /// What its roundings lost, rounded.
    pub lost: f64,
    /// What the roundings of `lost` lost.
    pub rest: f64,
}

/// The sum of two floats and what its rounding lost, which is a float (Knuth, The Art of Computer
/// Programming, volume 2, 1969).
#[inline(always)]
fn exact_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let added = sum - a;
    (sum, (a - (sum - added)) + (b - added))
}

impl ExactSum {
    /// Adds a float.
    #[inline(always)]
    pub fn add(&mut self, value: f64) {
        let (sum, lost) = exact_sum(self.sum, value);
        let (lost, rest) = exact_sum(self.lost, lost);
        (self.sum, self.lost) = (sum, lost);
        self.rest += rest;
    }

    /// Adds another sum.
    #[inline(always)]
    pub fn join(&mut self, other: ExactSum) {
        self.add(other.sum);
        let (lost, rest) = exact_sum(self.lost, other.lost);
        self.lost = lost;
        self.rest += rest + other.rest;
    }
}

/// Number of sums in registers, which do not wait for one another.
const LANES: usize = 16;

/// Values in each of these sums before they are joined: too few for what their roundings lost to
/// lose much itself.
const IN_LANE: usize = 64;

for_processor! {
    /// The sum of floats.
    sum_floats(values: &[i64]) -> ExactSum {
        let mut total = ExactSum::default();
        for values in values.chunks(LANES * IN_LANE) {
            let (lines, rest) = values.as_chunks::<LANES>();
            let mut last = [0; LANES];
            last[..rest.len()].copy_from_slice(rest);
            let (mut sums, mut losses) = ([0.0; LANES], [0.0; LANES]);
            for line in lines.iter().chain([&last]) {
                for lane in 0..LANES {
                    let (sum, lost) = exact_sum(sums[lane], float(line[lane]));
                    sums[lane] = sum;
                    losses[lane] += lost;
                }
            }
            for (sum, lost) in sums.into_iter().zip(losses) {
                total.join(ExactSum { sum, lost, rest: 0.0 });
            }
        }
        total
    }
}

/// The product of two floats, and what its rounding lost (Dekker, A floating-point technique for
/// extending the available precision, 1971).
#[inline(always)]
#[must_use]
pub fn exact_product(x: f64, y: f64) -> (f64, f64) {
    /// Splits a float into halves whose products are exact.
    #[inline(always)]
    fn halves(value: f64) -> (f64, f64) {
        let large = value * ((1 << 27) + 1) as f64;
        let high = large - (large - value);
        (high, value - high)
    }
    let product = x * y;
    let ((x, x_low), (y, y_low)) = (halves(x), halves(y));
    let lost = ((x * y - product) + x * y_low + x_low * y) + x_low * y_low;
    // Halves of the largest floats are not finite.
    (product, if lost.is_finite() { lost } else { 0.0 })
}

for_processor! {
    /// Writes the products of the floats of `a` and `b` to `a`, and what their roundings lost to
    /// `b`.
    products(a: &mut [i64], b: &mut [i64]) {
        for (a, b) in a.iter_mut().zip(b) {
            let (product, lost) = exact_product(float(*a), float(*b));
            (*a, *b) = (word(product), word(lost));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sums_and_what_they_lost_are_exact_together(
            parts in prop::collection::vec(
                prop::collection::vec((-(1_i64 << 52)..1 << 52, 0_i32..60), 0..70), 1..4),
        ) {
            let mut total = ExactSum::default();
            for part in &parts {
                let value = |(m, e): &(i64, i32)| *m as f64 * 2_f64.powi(*e);
                let words: Vec<i64> = part.iter().map(|v| word(value(v))).collect();
                let mut one_by_one = ExactSum::default();
                part.iter().for_each(|v| one_by_one.add(value(v)));
                total.join(sum_floats(&words));
                total.join(one_by_one);
            }
            // All are integers below 2^119.
            let integer = |v: f64| {
                let (bits, exponent) = (v.to_bits(), (v.to_bits() >> 52 & 0x7ff) as i32 - 1075);
                let mantissa = i128::from(bits & ((1 << 52) - 1) | 1 << 52);
                let value = match exponent {
                    _ if v == 0.0 => 0,
                    0.. => mantissa << exponent,
                    _ => mantissa >> -exponent,
                };
                if v < 0.0 { -value } else { value }
            };
            let found: i128 = [total.sum, total.lost, total.rest].map(integer).iter().sum();
            let each = parts.iter().flatten();
            let expected: i128 = each.map(|(m, e)| 2 * (i128::from(*m) << e)).sum();
            // What is lost in a lane is rounded to 53 of its bits.
            let most = parts.iter().flatten().map(|(m, e)| i128::from(*m).abs() << e).max();
            prop_assert!((found - expected).abs() <= most.unwrap_or(0) >> 96, "{} {}", found, expected);
        }

        #[test]
        fn products_lose_nothing(x in any::<f64>(), y in any::<f64>()) {
            let (mut a, mut b) = ([word(x)], [word(y)]);
            products(&mut a, &mut b);
            prop_assert_eq!(float(a[0]).to_bits(), (x * y).to_bits());
            let halves_fit = x.abs().max(y.abs()) < 1e290 && float(a[0]).is_finite();
            if halves_fit && float(a[0]).abs() > 1e-250 {
                prop_assert_eq!(float(b[0]), x.mul_add(y, -(x * y)));
            }
        }
    }
}
