//! Decoding of codes that count units: multiples of a step, and decimals kept as floats.

use crate::codes::Codes;
use std::ops::Range;

/// Powers of ten that a 64-bit float holds exactly, up to the digits that decimals may have here.
const POWERS: [f64; MOST_DIGITS as usize + 1] = {
    let (mut powers, mut at) = ([1.0; MOST_DIGITS as usize + 1], 1);
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10.0;
        at += 1;
    }
    powers
};

/// Most digits after the decimal point of a float that is kept as an integer.
pub const MOST_DIGITS: u8 = 9;

/// The float nearest to `units / 10^digits`.
///
/// The quotient of two integers that are exact as floats is rounded once, so this is the float that
/// a correct parser reads from the decimal's text.
///
/// # Panics
/// If there are more than [`MOST_DIGITS`] digits.
#[inline]
pub fn decimal(units: i64, digits: u8) -> f64 {
    units as f64 / POWERS[usize::from(digits)]
}

/// The integer that [`decimal`] turns into exactly `value`, bit by bit, if there is one up to 2^52.
///
/// # Panics
/// If there are more than [`MOST_DIGITS`] digits.
#[inline(always)]
pub fn units_of(value: f64, digits: u8) -> Option<i64> {
    let (units, has) = rounded_units(value, digits);
    has.then_some(units as i64)
}

/// The integer that may stand for a value, and whether it does.
#[inline(always)]
fn rounded_units(value: f64, digits: u8) -> (f64, bool) {
    const MOST: f64 = (1_u64 << 52) as f64;
    let power = POWERS[usize::from(digits)];
    // Adding 0 makes 0 of -0, which no integer stands for; comparing bits tells the two apart. It
    // is also false for NaN.
    let units = (value * power).round_ties_even() + 0.0;
    let same = (units / power).to_bits() == value.to_bits();
    (units, same & (units.abs() <= MOST))
}

/// The smallest and the largest of [`units_of`] all values; `None` if one has none. Without any
/// value the first is larger.
///
/// # Panics
/// If there are more than [`MOST_DIGITS`] digits.
pub fn range_of_units(values: &[f64], digits: u8) -> Option<(i64, i64)> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, which was just checked.
        return unsafe { range_of_units_avx2(values, digits) };
    }
    range_of_units_plain(values, digits)
}

/// Appends [`units_of`] each value to `out`, which must have some; any integer for a value that has
/// none.
///
/// # Panics
/// If there are more than [`MOST_DIGITS`] digits.
pub fn count_units(values: &[f64], digits: u8, out: &mut Vec<i64>) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, which was just checked.
        return unsafe { count_units_avx2(values, digits, out) };
    }
    count_units_plain(values, digits, out);
}

/// Rounding is an instruction here and not a call of a library.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn range_of_units_avx2(values: &[f64], digits: u8) -> Option<(i64, i64)> {
    range_of_units_plain(values, digits)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn count_units_avx2(values: &[f64], digits: u8, out: &mut Vec<i64>) {
    count_units_plain(values, digits, out);
}

#[inline(always)]
fn range_of_units_plain(values: &[f64], digits: u8) -> Option<(i64, i64)> {
    // Units up to 2^52 are exact as floats, which vectors compare.
    let (mut all, mut low, mut high) = (true, f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        let (units, has) = rounded_units(*value, digits);
        all &= has;
        low = if units < low { units } else { low };
        high = if units > high { units } else { high };
    }
    match low > high {
        true => all.then_some((1, 0)),
        false => all.then_some((low as i64, high as i64)),
    }
}

#[inline(always)]
fn count_units_plain(values: &[f64], digits: u8, out: &mut Vec<i64>) {
    let power = POWERS[usize::from(digits)];
    out.extend(
        values
            .iter()
            .map(|value| (value * power).round_ties_even() as i64),
    );
}

impl Codes<'_> {
    /// Decodes `rows` as `(base + code) × step`, wrapping around at 64 bits.
    ///
    /// # Panics
    /// If the rows are outside the column.
    pub fn multiples(&self, rows: Range<usize>, base: i64, step: i64) -> Vec<i64> {
        self.map(rows, multiple(base, step))
    }

    /// Decodes the rows `start + position` as [`Self::multiples`] does.
    ///
    /// # Panics
    /// If a row is outside the column.
    pub fn multiples_at(&self, start: usize, positions: &[u32], base: i64, step: i64) -> Vec<i64> {
        self.map_at(start, positions, multiple(base, step))
    }

    /// Decodes `rows` as [`decimal`] of `base + code`, whose magnitude is at most 2^53.
    ///
    /// # Panics
    /// If the rows are outside the column, or there are more than [`MOST_DIGITS`] digits.
    pub fn decimals(&self, rows: Range<usize>, base: i64, digits: u8) -> Vec<f64> {
        self.map(rows, float(base, digits))
    }

    /// Decodes the rows `start + position` as [`Self::decimals`] does.
    ///
    /// # Panics
    /// If a row is outside the column, or there are more than [`MOST_DIGITS`] digits.
    pub fn decimals_at(&self, start: usize, positions: &[u32], base: i64, digits: u8) -> Vec<f64> {
        self.map_at(start, positions, float(base, digits))
    }
}

fn multiple(base: i64, step: i64) -> impl Fn(u32) -> i64 + Copy {
    move |code| base.wrapping_add(i64::from(code)).wrapping_mul(step)
}

fn float(base: i64, digits: u8) -> impl Fn(u32) -> f64 + Copy {
    let power = POWERS[usize::from(digits)];
    // Integers up to 2^53 are exact as floats, and so is their sum; few processors convert 64-bit
    // integers in vectors, but all convert 32-bit ones.
    let base = base as f64;
    move |code| (base + f64::from(code)) / power
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::{CodeWidth, pack};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn rows_are_decoded_as_single_values_are(
            seeds in prop::collection::vec(any::<u32>(), 1..300),
            base in -(1_i64 << 51)..1 << 51,
            step in 1_i64..1 << 40,
            digits in 0..=MOST_DIGITS,
            from in 0_usize..300,
            max in prop::sample::select(vec![0_u32, 0xff, 0xffff, 0xff_ffff, u32::MAX]),
        ) {
            let codes: Vec<u32> = seeds.iter().map(|s| s & max).collect();
            let width = CodeWidth::for_max(max);
            let mut bytes = vec![0xee; width.size_bytes(codes.len())];
            pack(&mut bytes, width, 0, &codes);
            let column = Codes::new(&bytes, width, codes.len()).unwrap();
            let from = from.min(codes.len());
            let rows = from..codes.len();
            let units: Vec<i64> = codes[from..].iter().map(|c| base + i64::from(*c)).collect();
            let multiples: Vec<i64> = units.iter().map(|u| u.wrapping_mul(step)).collect();
            prop_assert_eq!(column.multiples(rows.clone(), base, step), multiples.clone());
            let bits = |floats: Vec<f64>| floats.into_iter().map(f64::to_bits).collect::<Vec<_>>();
            let floats: Vec<f64> = units.iter().map(|u| decimal(*u, digits)).collect();
            let decoded = column.decimals(rows.clone(), base, digits);
            prop_assert_eq!(bits(decoded), bits(floats.clone()));
            let positions: Vec<u32> = (0..rows.len() as u32).collect();
            prop_assert_eq!(column.multiples_at(from, &positions, base, step), multiples);
            prop_assert_eq!(
                bits(column.decimals_at(from, &positions, base, digits)),
                bits(floats)
            );
        }

        #[test]
        fn a_decimal_is_the_float_that_its_text_is_read_as(
            units in -(1_i64 << 52)..=1 << 52,
            digits in 0..=MOST_DIGITS,
        ) {
            let power = 10_i64.pow(u32::from(digits));
            let sign = if units < 0 { "-" } else { "" };
            let (whole, rest) = (units.abs() / power, units.abs() % power);
            let text = format!("{sign}{whole}.{rest:0width$}", width = usize::from(digits));
            let read: f64 = text.trim_end_matches('.').parse().unwrap();
            prop_assert_eq!(decimal(units, digits).to_bits(), read.to_bits(), "{}", text);
        }

        #[test]
        fn units_are_found_again_for_small_numbers_and_never_wrong(
            units in -(1_i64 << 48)..1 << 48,
            digits in 0..=MOST_DIGITS,
            any in any::<f64>(),
        ) {
            prop_assert_eq!(units_of(decimal(units, digits), digits), Some(units));
            let one = 10_i64.pow(u32::from(digits));
            let (mut found, values) = (Vec::new(), [decimal(units, digits), 1.0]);
            count_units(&values, digits, &mut found);
            prop_assert_eq!(found, [units, one]);
            let range = range_of_units(&values, digits);
            prop_assert_eq!(range, Some((units.min(one), units.max(one))));
            let range = range_of_units(&[1.0, any], digits);
            prop_assert_eq!(range.is_some(), units_of(any, digits).is_some());
            prop_assert_eq!(range_of_units(&[], digits), Some((1, 0)));
            if let Some(found) = units_of(any, digits) {
                prop_assert_eq!(decimal(found, digits).to_bits(), any.to_bits());
            }
        }
    }

    #[test]
    fn what_is_no_decimal_has_no_units() {
        let odd = [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            -0.0,
            0.1 + 0.2,
            1e300,
            f64::MIN_POSITIVE,
            (1_u64 << 60) as f64,
        ];
        for value in odd {
            for digits in 0..=MOST_DIGITS {
                assert_eq!(
                    units_of(value, digits),
                    None,
                    "{value} with {digits} digits"
                );
            }
        }
        assert_eq!(units_of(0.0, 2), Some(0));
        assert_eq!(units_of(-12.35, 2), Some(-1235));
    }
}
