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

/// Words of a sum where it is kept in memory.
pub const SUM_WORDS: usize = 3;

/// Values for `N` sums of each row, by sum.
#[derive(Debug, Clone, Copy)]
pub struct SumColumns<'a, const N: usize> {
    /// The bits of floats.
    pub values: [&'a [i64]; N],
    /// What the roundings of products lost, which is added too; `None` without products.
    pub lost: Option<[&'a [i64]; N]>,
}

/// Adds the values of each row to the `N` sums that start `at` words behind its offset in `words`.
///
/// First are the `N` rounded sums, then what each has lost, then the rests: so they are added
/// together, where sums one after the other take twice as long.
///
/// # Panics
/// If a column is shorter than `offsets`, or `words` than the sums of a row.
pub fn add_together<const N: usize>(
    words: &mut [i64],
    offsets: &[u32],
    at: usize,
    columns: SumColumns<'_, N>,
) {
    #[cfg(target_arch = "x86_64")]
    if let (Ok(values), true) = (
        <[&[i64]; 4]>::try_from(&columns.values[..]),
        is_x86_feature_detected!("avx"),
    ) {
        let lost = columns.lost.and_then(|lost| lost[..].try_into().ok());
        // SAFETY: the processor has the feature, which was just checked.
        return unsafe { fours::add(words, offsets, at, values, lost) };
    }
    for (row, offset) in offsets.iter().enumerate() {
        let words = &mut words[*offset as usize + at..][..SUM_WORDS * N];
        for lane in 0..N {
            let mut sum = ExactSum {
                sum: float(words[lane]),
                lost: float(words[N + lane]),
                rest: float(words[2 * N + lane]),
            };
            sum.add(float(columns.values[lane][row]));
            if let Some(lost) = columns.lost {
                sum.add(float(lost[lane][row]));
            }
            words[lane] = word(sum.sum);
            words[N + lane] = word(sum.lost);
            words[2 * N + lane] = word(sum.rest);
        }
    }
}

/// Four sums at a time, by hand: compilers put parts of different sums into one register, and store
/// in pieces what is loaded as a whole by the next row.
#[cfg(target_arch = "x86_64")]
mod fours {
    use super::{SUM_WORDS, float};
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx")]
    pub fn add(
        words: &mut [i64],
        offsets: &[u32],
        at: usize,
        values: [&[i64]; 4],
        lost: Option<[&[i64]; 4]>,
    ) {
        let (fours, last) = offsets.as_chunks::<4>();
        let (of_fours, of_last) = parts(values, offsets.len());
        match lost.map(|lost| parts(lost, offsets.len())) {
            None => {
                for (number, offsets) in fours.iter().enumerate() {
                    let rows = four_rows(of_fours, number);
                    for (offset, value) in offsets.iter().zip(rows) {
                        row(&mut words[*offset as usize + at..], value, None);
                    }
                }
                for (number, offset) in last.iter().enumerate() {
                    let value = one_row(of_last, number);
                    row(&mut words[*offset as usize + at..], value, None);
                }
            }
            Some((lost_of_fours, lost_of_last)) => {
                for (number, offsets) in fours.iter().enumerate() {
                    let rows = four_rows(of_fours, number);
                    let lost = four_rows(lost_of_fours, number);
                    for ((offset, value), lost) in offsets.iter().zip(rows).zip(lost) {
                        row(&mut words[*offset as usize + at..], value, Some(lost));
                    }
                }
                for (number, offset) in last.iter().enumerate() {
                    let (value, lost) = (one_row(of_last, number), one_row(lost_of_last, number));
                    row(&mut words[*offset as usize + at..], value, Some(lost));
                }
            }
        }
    }

    type Fours<'a> = [&'a [[i64; 4]]; 4];

    /// The values of `rows` rows by fours, and the last ones.
    fn parts(columns: [&[i64]; 4], rows: usize) -> (Fours<'_>, [&[i64]; 4]) {
        let parts = columns.map(|column| column[..rows].as_chunks::<4>());
        (parts.map(|(fours, _)| fours), parts.map(|(_, last)| last))
    }

    #[target_feature(enable = "avx")]
    fn one_row([a, b, c, d]: [&[i64]; 4], row: usize) -> __m256d {
        _mm256_setr_pd(float(a[row]), float(b[row]), float(c[row]), float(d[row]))
    }

    /// The values of each of the four rows `number` by fours.
    #[target_feature(enable = "avx")]
    fn four_rows([a, b, c, d]: Fours<'_>, number: usize) -> [__m256d; 4] {
        let (a, b) = (of_column(&a[number]), of_column(&b[number]));
        let (c, d) = (of_column(&c[number]), of_column(&d[number]));
        let (even_ab, odd_ab) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
        let (even_cd, odd_cd) = (_mm256_unpacklo_pd(c, d), _mm256_unpackhi_pd(c, d));
        [
            _mm256_permute2f128_pd::<0x20>(even_ab, even_cd),
            _mm256_permute2f128_pd::<0x20>(odd_ab, odd_cd),
            _mm256_permute2f128_pd::<0x31>(even_ab, even_cd),
            _mm256_permute2f128_pd::<0x31>(odd_ab, odd_cd),
        ]
    }

    #[target_feature(enable = "avx")]
    fn of_column(values: &[i64; 4]) -> __m256d {
        // SAFETY: the array has four words. The intrinsic needs no alignment.
        unsafe { _mm256_loadu_pd(values.as_ptr().cast()) }
    }

    /// Adds values, and what their roundings lost, to the sums at the start of `words`.
    #[inline]
    #[target_feature(enable = "avx")]
    fn row(words: &mut [i64], value: __m256d, rounded: Option<__m256d>) {
        let words = &mut words[..SUM_WORDS * 4];
        let sums = words.as_mut_ptr().cast::<f64>();
        // SAFETY: these are the twelve words of the slice. The intrinsics need no alignment.
        unsafe {
            let (mut sum, carried) = exact_sums(_mm256_loadu_pd(sums), value);
            let (mut lost, carried) = exact_sums(_mm256_loadu_pd(sums.add(4)), carried);
            let mut rest = _mm256_add_pd(_mm256_loadu_pd(sums.add(8)), carried);
            if let Some(rounded) = rounded {
                let (next, carried) = exact_sums(sum, rounded);
                let (next_lost, carried) = exact_sums(lost, carried);
                (sum, lost) = (next, next_lost);
                rest = _mm256_add_pd(rest, carried);
            }
            _mm256_storeu_pd(sums, sum);
            _mm256_storeu_pd(sums.add(4), lost);
            _mm256_storeu_pd(sums.add(8), rest);
        }
    }

    /// The same as [`super::exact_sum`].
    #[target_feature(enable = "avx")]
    fn exact_sums(a: __m256d, b: __m256d) -> (__m256d, __m256d) {
        let sum = _mm256_add_pd(a, b);
        let added = _mm256_sub_pd(sum, a);
        let of_a = _mm256_sub_pd(a, _mm256_sub_pd(sum, added));
        (sum, _mm256_add_pd(of_a, _mm256_sub_pd(b, added)))
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
        fn sums_that_are_added_together_are_those_of_each(
            rows in prop::collection::vec((0_u32..3, prop::array::uniform8(any::<f32>())), 0..40),
        ) {
            /// Parts of the sums of each slot: of `N` sums, at an offset of 5.
            fn of<const N: usize>(rows: &[(u32, [f32; 8])], with_lost: bool) -> Result<(), TestCaseError> {
                let column = |at: usize| -> Vec<i64> {
                    rows.iter().map(|(_, values)| word(values[at].into())).collect()
                };
                let columns: Vec<Vec<i64>> = (0..8).map(column).collect();
                let slot = 5 + SUM_WORDS * N;
                let offsets: Vec<u32> = rows.iter().map(|(group, _)| group * slot as u32).collect();
                let mut words = vec![0; 3 * slot];
                let mut expected = vec![ExactSum::default(); 3 * N];
                for (group, values) in rows {
                    for lane in 0..N {
                        let sum = &mut expected[*group as usize * N + lane];
                        sum.add(values[lane].into());
                        if with_lost {
                            sum.add(values[4 + lane].into());
                        }
                    }
                }
                let values = std::array::from_fn(|lane| &columns[lane][..]);
                let lost = with_lost.then(|| std::array::from_fn(|lane| &columns[4 + lane][..]));
                add_together::<N>(&mut words, &offsets, 5, SumColumns { values, lost });
                for (at, sum) in expected.iter().enumerate() {
                    let words = &words[at / N * slot + 5 + at % N..];
                    let found = [words[0], words[N], words[2 * N]];
                    let parts = [sum.sum, sum.lost, sum.rest].map(word);
                    let is_nan = |w: i64| float(w).is_nan();
                    for (found, expected) in found.into_iter().zip(parts) {
                        prop_assert!(found == expected || is_nan(found) && is_nan(expected));
                    }
                }
                Ok(())
            }
            for with_lost in [false, true] {
                of::<2>(&rows, with_lost)?;
                of::<4>(&rows, with_lost)?;
            }
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
