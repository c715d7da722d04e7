//! Values as 64-bit ranks in the order that a sort gives them.

use crate::bigjoin::{MAX_DIGITS, integers, is_key_type, of_strings};
use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type, UInt64Type};
use datafusion::common::{Result, internal_err};
use tierloom_kernels::words;

/// Whether [`ranks`] knows the order of this type.
pub(crate) fn has_ranks(data_type: &DataType) -> bool {
    use DataType::{Decimal128, Float32, Float64};
    is_key_type(data_type)
        || data_type.is_string()
        || matches!(data_type, Float32 | Float64 | Decimal128(_, _))
}

/// A number per row, never greater than that of a row that comes later in the order.
///
/// Different values may have the same number.
pub(crate) fn ranks(array: &ArrayRef, options: SortOptions) -> Result<Vec<u64>> {
    let mut ranks = ascending(array)?;
    if options.descending {
        ranks.iter_mut().for_each(|rank| *rank = !*rank);
    }
    if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
        let of_null = if options.nulls_first { 0 } else { u64::MAX };
        for (rank, valid) in ranks.iter_mut().zip(nulls) {
            if !valid {
                *rank = of_null;
            }
        }
    }
    Ok(ranks)
}

/// Whether different values have different ranks, apart from NULL.
pub(crate) fn are_exact(data_type: &DataType) -> bool {
    match data_type {
        // More digits may not fit into 64 bits.
        DataType::Decimal128(digits, _) => *digits <= MAX_DIGITS,
        other => has_ranks(other) && !other.is_string(),
    }
}

/// The ranks of an ascending order; any rank for NULL.
pub(crate) fn ascending(array: &ArrayRef) -> Result<Vec<u64>> {
    fn of<T: ArrowPrimitiveType>(array: &ArrayRef, rank: impl Fn(T::Native) -> u64) -> Vec<u64> {
        let values = array.as_primitive::<T>().values();
        values.iter().map(|v| rank(*v)).collect()
    }
    Ok(match array.data_type() {
        DataType::UInt64 => of::<UInt64Type>(array, |v| v),
        DataType::Float32 => of::<Float32Type>(array, |v| float(v.into())),
        DataType::Float64 => of::<Float64Type>(array, float),
        whole if is_key_type(whole) => integers(array)?.into_iter().map(signed).collect(),
        DataType::Decimal128(_, _) => of::<Decimal128Type>(array, |v| {
            signed(v.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
        }),
        other => {
            let ranks = of_strings(array, |value| value.map_or(0, first_bytes));
            let Some(ranks) = ranks else {
                return internal_err!("values of type {other} have no ranks");
            };
            ranks
        }
    })
}

fn signed(value: i64) -> u64 {
    value as u64 ^ (1 << 63)
}

/// The order of `f64::total_cmp`, which sorts have.
fn float(value: f64) -> u64 {
    signed(words::rank(words::word(value)))
}

/// The number of this rank, see [`float`].
pub(crate) fn float_of(rank: u64) -> f64 {
    words::float(words::rank((rank ^ (1 << 63)) as i64))
}

fn first_bytes(value: &str) -> u64 {
    let bytes = &value.as_bytes()[..value.len().min(8)];
    let mut padded = [0; 8];
    padded[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(padded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Decimal128Array, Float64Array, Int16Array, StringViewArray};
    use arrow::compute::sort_to_indices;
    use std::sync::Arc;

    #[test]
    fn a_rank_of_a_number_is_that_of_no_other() {
        for number in [
            -0.0,
            0.0,
            f64::NAN,
            -f64::NAN,
            f64::NEG_INFINITY,
            1.5,
            -1e-310,
        ] {
            assert_eq!(float_of(float(number)).to_bits(), number.to_bits());
        }
    }

    #[test]
    fn ranks_never_fall_in_the_order_of_a_sort() {
        let floats = [-0.0, 0.0, f64::NAN, -f64::NAN, f64::INFINITY, -1.5, 1e-310];
        let floats = floats.map(Some).into_iter().chain([None, Some(f64::MIN)]);
        let strings = ["", "a", "abcdefgh", "abcdefghi", "abcdefgg", "ä", "\0"];
        let strings = strings.map(Some).into_iter().chain([None]);
        let wide = [i128::MAX, i128::MIN, 0, -1, i64::MAX.into(), 1 << 70];
        let arrays: [ArrayRef; 4] = [
            Arc::new(floats.collect::<Float64Array>()),
            Arc::new(strings.collect::<StringViewArray>()),
            Arc::new(wide.map(Some).into_iter().collect::<Decimal128Array>()),
            Arc::new(
                [None, Some(-5), Some(7), Some(i16::MIN)]
                    .into_iter()
                    .collect::<Int16Array>(),
            ),
        ];
        for array in arrays {
            assert!(has_ranks(array.data_type()));
            for (descending, nulls_first) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let options = SortOptions {
                    descending,
                    nulls_first,
                };
                let ranks = ranks(&array, options).unwrap();
                let order = sort_to_indices(&array, Some(options), None).unwrap();
                let sorted: Vec<u64> = order.values().iter().map(|i| ranks[*i as usize]).collect();
                assert!(sorted.is_sorted(), "{array:?} {options:?}: {sorted:?}");
            }
        }
    }
}
