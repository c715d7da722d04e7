//! Aggregates of rows of several groups, which go through memory one by one.

use crate::floats::{sum_of, write};
use crate::layout::{Words, add_wide};
use crate::plan::MeasureKind;
use tierloom_kernels::sums::SUM_WORDS;
use tierloom_kernels::words::float;

/// Adds each value to the group at its offset.
pub(crate) fn add_rows(
    words: &mut [i64],
    place: Words,
    kind: MeasureKind,
    offsets: &[u32],
    values: &[i64],
) {
    let rows = offsets.iter().zip(values);
    let rows = rows.map(|(offset, value)| (*offset as usize + place.at, *value));
    match kind {
        // Rows are counted before.
        MeasureKind::Count => {}
        MeasureKind::FloatSum => rows.for_each(|(at, v)| add_float(words, at, v)),
        MeasureKind::Sum if place.wide => rows.for_each(|(at, v)| add_wide(words, at, v.into())),
        MeasureKind::Sum => rows.for_each(|(at, v)| words[at] = words[at].wrapping_add(v)),
        MeasureKind::Min => rows.for_each(|(at, v)| words[at] = words[at].min(v)),
        MeasureKind::Max => rows.for_each(|(at, v)| words[at] = words[at].max(v)),
    }
}

/// Adds a value to the group at `offset`.
pub(crate) fn add_row(
    words: &mut [i64],
    place: Words,
    kind: MeasureKind,
    offset: usize,
    value: i64,
) {
    let at = offset + place.at;
    match kind {
        // Rows are counted before.
        MeasureKind::Count => {}
        MeasureKind::FloatSum => add_float(words, at, value),
        MeasureKind::Sum if place.wide => add_wide(words, at, value.into()),
        MeasureKind::Sum => words[at] = words[at].wrapping_add(value),
        MeasureKind::Min => words[at] = words[at].min(value),
        MeasureKind::Max => words[at] = words[at].max(value),
    }
}

/// Adds a float to the sum whose words start at `at`.
#[inline(always)]
fn add_float(words: &mut [i64], at: usize, value: i64) {
    let words = &mut words[at..at + SUM_WORDS];
    let mut sum = sum_of(words, 1);
    sum.add(float(value));
    write(sum, words, 1);
}
