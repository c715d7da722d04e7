//! The values of aggregates over frames of rows.

use super::kinds::{Wide, WindowKind};
use super::sliding::Frames;
use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use std::sync::Arc;
use tierloom_kernels::words::{float, rank, word};

/// Sums, averages and extremes of floats over frames.
pub(super) fn floats_of(frames: &Frames, kind: WindowKind) -> ArrayRef {
    let array = frames.values.as_primitive::<Float64Type>();
    let mut counts = frames.counts().into_iter();
    let mut values = PrimitiveArray::<Float64Type>::builder(array.len());
    let mut add = |total: Option<f64>| match (total, counts.next()) {
        (Some(total), Some(count)) if count > 0 => values.append_value(match kind {
            WindowKind::Average => total / count as f64,
            _ => total,
        }),
        _ => values.append_null(),
    };
    // The order of floats has NaN after all others.
    let ranks = |identity: i64| -> Vec<i64> {
        let one_nan = |v: f64| if v.is_nan() { f64::NAN } else { v };
        let ranks = array.iter().map(|v| v.map(|v| rank(word(one_nan(v)))));
        ranks.map(|rank| rank.unwrap_or(identity)).collect()
    };
    let float_of = |rank_of: i64| float(rank(rank_of));
    match kind {
        WindowKind::Min => {
            frames.totals(&ranks(i64::MAX), i64::min, |r| add(r.map(float_of)));
        }
        WindowKind::Max => {
            frames.totals(&ranks(i64::MIN), i64::max, |r| add(r.map(float_of)));
        }
        _ => {
            let all: Vec<f64> = array.iter().map(|v| v.unwrap_or(0.0)).collect();
            frames.totals(&all, |a, b| a + b, add);
        }
    }
    Arc::new(values.finish())
}

/// Sums and extremes of integers, decimals and days over frames.
pub(super) fn whole_of<T: ArrowPrimitiveType>(
    frames: &Frames,
    kind: WindowKind,
    data_type: &DataType,
) -> Result<ArrayRef>
where
    T::Native: TryFrom<i128> + Into<Wide>,
{
    // No sum of 64 bits comes near it, and no decimal is as small.
    const LEFT: i128 = i128::MIN;
    let array = frames.values.as_primitive::<T>();
    let counts = frames.counts();
    let (identity, combine): (i128, fn(i128, i128) -> i128) = match kind {
        WindowKind::Min => (i128::MAX, |a, b| a.min(b)),
        WindowKind::Max => (i128::MIN, |a, b| a.max(b)),
        _ => (0, |a, b| match a == LEFT || b == LEFT {
            true => LEFT,
            false => a.checked_add(b).unwrap_or(LEFT),
        }),
    };
    let wide = |value: T::Native| {
        let Wide(value) = value.into();
        value
    };
    let all = array.iter().map(|value| value.map_or(identity, wide));
    let mut totals = Vec::with_capacity(counts.len());
    frames.totals(&all.collect::<Vec<_>>(), combine, |total| {
        totals.push(total)
    });
    let of_frame = |(total, count): (Option<i128>, usize)| match total.filter(|_| count > 0) {
        None => Ok(None),
        Some(LEFT) => Err(leaves_range(data_type)),
        Some(total) => T::Native::try_from(total)
            .map(Some)
            .map_err(|_| leaves_range(data_type)),
    };
    let values = totals.into_iter().zip(counts).map(of_frame);
    let values = values.collect::<Result<PrimitiveArray<T>>>()?;
    Ok(Arc::new(values.with_data_type(data_type.clone())))
}

/// The error of a sum that its type cannot hold.
pub(super) fn leaves_range(data_type: &DataType) -> DataFusionError {
    exec_datafusion_err!("a sum leaves the range of its type {data_type}")
}
