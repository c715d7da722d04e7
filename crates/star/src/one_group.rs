//! Aggregates of rows that are all in one group.
//!
//! The values of a vector are combined in registers and added to the group once. Rows of several
//! groups go through memory one by one, where each addition waits for the last one.

use crate::floats::{sum_of, write};
use crate::layout::{Words, add_wide};
use crate::plan::MeasureKind;
use tierloom_kernels::sums::sum_floats;
use tierloom_kernels::words::keep_or;

/// Number of accumulators in registers, which do not wait for one another.
const LANES: usize = 8;

/// Adds `values` to the group whose words these are.
pub(crate) fn add(words: &mut [i64], place: Words, kind: MeasureKind, values: &[i64]) {
    let word = &mut words[place.at];
    match kind {
        // Rows are counted before.
        MeasureKind::Count => {}
        MeasureKind::Min => *word = (*word).min(fold(values, i64::MAX, i64::min)),
        MeasureKind::Max => *word = (*word).max(fold(values, i64::MIN, i64::max)),
        MeasureKind::FloatSum => {
            let mut sum = sum_of(&words[place.at..], place.stride);
            sum.join(sum_floats(values));
            write(sum, &mut words[place.at..], place.stride);
        }
        MeasureKind::Sum if place.wide => add_wide(words, place.at, wide_sum(values)),
        MeasureKind::Sum => *word = word.wrapping_add(fold(values, 0, i64::wrapping_add)),
    }
}

/// Overwrites the values that do not count, so that they change nothing.
pub(crate) fn leave_out(kind: MeasureKind, values: &mut [i64], counts: &[bool]) {
    let none = match kind {
        MeasureKind::Sum | MeasureKind::FloatSum | MeasureKind::Count => 0,
        MeasureKind::Min => i64::MAX,
        MeasureKind::Max => i64::MIN,
    };
    keep_or(values, counts, none);
}

/// Combines values in any order.
fn fold(values: &[i64], none: i64, combine: impl Fn(i64, i64) -> i64) -> i64 {
    let (lines, rest) = values.as_chunks::<LANES>();
    let mut lanes = [none; LANES];
    for line in lines {
        for (lane, value) in lanes.iter_mut().zip(line) {
            *lane = combine(*lane, *value);
        }
    }
    let all = lanes.iter().chain(rest);
    all.fold(none, |all, value| combine(all, *value))
}

/// The sum of fewer than 2^31 values.
fn wide_sum(values: &[i64]) -> i128 {
    // The halves of so few values add up without overflow.
    let (mut high, mut low) = (0_i64, 0_i64);
    for value in values {
        high += value >> 32;
        low += value & 0xffff_ffff;
    }
    (i128::from(high) << 32) + i128::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extreme() -> impl Strategy<Value = i64> {
        prop_oneof![
            any::<i64>(),
            -5_i64..5,
            Just(i64::MIN),
            Just(i64::MAX),
            Just(-1_i64 << 32),
        ]
    }

    proptest! {
        /// The same as adding the values one by one in 128 bits.
        #[test]
        fn vectors_are_added_as_their_values_one_by_one(
            vectors in prop::collection::vec(
                prop::collection::vec((extreme(), any::<bool>()), 0..60), 1..5),
        ) {
            let place = |wide| Words {
                at: 0,
                wide,
                stride: 1,
                set: None,
                valid_at: None,
                is_first: false,
            };
            let (mut sum, mut kept_sum) = ([0; 2], [0; 2]);
            let (mut least, mut most) = ([i64::MAX], [i64::MIN]);
            for vector in &vectors {
                let (values, counts): (Vec<i64>, Vec<bool>) = vector.iter().copied().unzip();
                add(&mut sum, place(true), MeasureKind::Sum, &values);
                let kept = |words: &mut [i64], place, kind| {
                    let mut values = values.clone();
                    leave_out(kind, &mut values, &counts);
                    add(words, place, kind, &values);
                };
                kept(&mut kept_sum, place(true), MeasureKind::Sum);
                kept(&mut least, place(false), MeasureKind::Min);
                kept(&mut most, place(false), MeasureKind::Max);
            }
            let all = || vectors.iter().flatten();
            let kept = || all().filter(|(_, counts)| *counts).map(|(value, _)| *value);
            let joined = |words: &[i64]| {
                (i128::from(words[1]) << 64) | i128::from(words[0] as u64)
            };
            prop_assert_eq!(joined(&sum), all().map(|(value, _)| i128::from(*value)).sum::<i128>());
            prop_assert_eq!(joined(&kept_sum), kept().map(i128::from).sum::<i128>());
            prop_assert_eq!(least, [kept().min().unwrap_or(i64::MAX)]);
            prop_assert_eq!(most, [kept().max().unwrap_or(i64::MIN)]);
        }
    }
}
