//! Sort columns as packed integers.
//!
//! A column becomes codes in its order, with as few bits as the values need. What does not fit into
//! a key is compared where keys are equal.

use crate::bigjoin::TextNumbers;
use crate::ranks::{are_exact, ascending, has_ranks};
use arrow::array::{Array, ArrayRef, UInt32Array, make_comparator};
use arrow::compute::{SortColumn, SortOptions, lexsort_to_indices, sort_to_indices};
use arrow::datatypes::{DataType, StringViewType};
use datafusion::common::Result;
use std::cmp::Ordering;
use std::sync::Arc;
use tierloom_kernels::sort::{PackedKey, sort_packed};

/// Rows that are sorted by comparison.
const FEW_ROWS: usize = 2048;
/// Different strings per hundred rows, up to which strings are numbered: beyond, their first bytes
/// are the key.
const MOST_STRINGS_PERCENT: usize = 40;

/// Whether a column of this type can be (the beginning of) a key.
pub(super) fn can_lead(data_type: &DataType) -> bool {
    has_ranks(data_type)
}

/// The numbers of the rows in the order of `columns`; equal rows stay in order.
///
/// # Errors
/// Arrow's, for types without an order.
pub(super) fn sorted(columns: &[SortColumn]) -> Result<Vec<u32>> {
    let rows = columns.first().map_or(0, |column| column.values.len());
    if rows <= FEW_ROWS {
        return Ok(lexsort_to_indices(columns, None)?.values().to_vec());
    }
    let (fields, open) = fields(columns)?;
    let bits: u32 = fields.iter().map(|codes| codes.bits).sum();
    match bits <= u64::KEY_BITS {
        true => by_keys::<u64>(&fields, bits, rows, columns, open),
        false => by_keys::<u128>(&fields, bits, rows, columns, open),
    }
}

/// The codes that fit into a key, and the first column that they do not order fully.
fn fields(columns: &[SortColumn]) -> Result<(Vec<Codes>, usize)> {
    let mut fields = Vec::new();
    let mut room = u128::KEY_BITS;
    for (index, column) in columns.iter().enumerate() {
        let options = column.options.unwrap_or_default();
        let Some(mut codes) = Codes::of(&column.values, options)? else {
            return Ok((fields, index));
        };
        codes.cut(room);
        room -= codes.bits;
        let exact = codes.exact;
        fields.push(codes);
        if !exact {
            return Ok((fields, index));
        }
    }
    Ok((fields, columns.len()))
}

fn by_keys<K: PackedKey>(
    fields: &[Codes],
    bits: u32,
    rows: usize,
    columns: &[SortColumn],
    open: usize,
) -> Result<Vec<u32>> {
    let mut keys = Vec::with_capacity(rows);
    match fields {
        [only] => {
            let codes = only.values.iter().zip(0..);
            keys.extend(codes.map(|(code, row)| K::pack((*code).into(), row)));
        }
        _ => keys.extend((0..rows).map(|row| {
            let codes = fields.iter();
            let key = codes.fold(0_u128, |key, codes| {
                key << codes.bits | u128::from(codes.values[row])
            });
            K::pack(key, row as u32)
        })),
    }
    sort_packed(&mut keys, bits);
    let mut sorted: Vec<u32> = keys.iter().map(|key| key.row()).collect();
    if open < columns.len() {
        settle_ties(&keys, &mut sorted, &columns[open..])?;
    }
    Ok(sorted)
}

/// Sorts rows with equal keys by the columns that are left.
fn settle_ties<K: PackedKey>(keys: &[K], sorted: &mut [u32], columns: &[SortColumn]) -> Result<()> {
    let comparators = columns.iter().map(|column| {
        let options = column.options.unwrap_or_default();
        make_comparator(&column.values, &column.values, options)
    });
    let comparators = comparators.collect::<std::result::Result<Vec<_>, _>>()?;
    let compare = |a: &u32, b: &u32| {
        let each = comparators.iter();
        let mut each = each.map(|compare| compare(*a as usize, *b as usize));
        each.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    let mut start = 0;
    for run in keys.chunk_by(|a, b| a.key() == b.key()) {
        let end = start + run.len();
        if run.len() > 1 {
            sorted[start..end].sort_by(compare);
        }
        start = end;
    }
    Ok(())
}

/// A number per row, in the order of a column.
struct Codes {
    values: Vec<u64>,
    /// Bits of the largest one.
    bits: u32,
    /// Whether different values have different codes.
    exact: bool,
}

impl Codes {
    /// The codes of a column; `None` if its type has none.
    fn of(array: &ArrayRef, options: SortOptions) -> Result<Option<Codes>> {
        let data_type = array.data_type();
        if !has_ranks(data_type) {
            return Ok(None);
        }
        let (ranks, exact) = match data_type {
            text if text.is_string() => of_strings(array)?,
            _ => (ascending(array)?, are_exact(data_type)),
        };
        Ok(Some(Codes::of_ranks(array, ranks, exact, options)))
    }

    /// Moves ranks to the smallest numbers, in the direction of the sort, and NULL to its place.
    fn of_ranks(array: &ArrayRef, ranks: Vec<u64>, exact: bool, options: SortOptions) -> Codes {
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        let wider = |(low, high): (u64, u64), rank: &u64| (low.min(*rank), high.max(*rank));
        let none = (u64::MAX, 0);
        let (low, high) = match nulls {
            None => ranks.iter().fold(none, wider),
            Some(nulls) => {
                let valid = nulls.valid_indices().map(|row| &ranks[row]);
                valid.fold(none, wider)
            }
        };
        let (low, high) = if low > high { (0, 0) } else { (low, high) };
        // NULL takes a number more, for which there may be no room.
        let halves = nulls.is_some() && high - low == u64::MAX;
        let mut values = ranks;
        for value in &mut values {
            let code = match options.descending {
                true => high.wrapping_sub(*value),
                false => value.wrapping_sub(low),
            };
            *value = code >> u32::from(halves);
        }
        let mut last = (high - low) >> u32::from(halves);
        if let Some(nulls) = nulls {
            last += 1;
            for (value, valid) in values.iter_mut().zip(nulls) {
                *value = match (valid, options.nulls_first) {
                    (true, true) => *value + 1,
                    (true, false) => *value,
                    (false, true) => 0,
                    (false, false) => last,
                };
            }
        }
        Codes {
            values,
            bits: u64::BITS - last.leading_zeros(),
            exact: exact && !halves,
        }
    }

    /// Keeps the upper bits if there is no room for all.
    fn cut(&mut self, room: u32) {
        if self.bits <= room {
            return;
        }
        let lost = self.bits - room;
        match lost < u64::BITS {
            true => self.values.iter_mut().for_each(|value| *value >>= lost),
            false => self.values.fill(0),
        }
        self.bits = room;
        self.exact = false;
    }
}

/// Ranks of strings, and whether they tell all strings apart.
fn of_strings(array: &ArrayRef) -> Result<(Vec<u64>, bool)> {
    let mut table = TextNumbers::<StringViewType>::new();
    let most = array.len() * MOST_STRINGS_PERCENT / 100;
    let (mut numbers, mut some) = (Vec::with_capacity(array.len()), Vec::new());
    // In parts, so that a column of many different strings is not numbered to its end.
    for start in (0..array.len()).step_by(PART_ROWS) {
        let part = array.slice(start, PART_ROWS.min(array.len() - start));
        table.assign_strings(&part, &mut some)?;
        numbers.extend_from_slice(&some);
        let seen = start + part.len();
        if table.len() > most || (seen > TRIAL_ROWS && table.len() > seen * 3 / 4) {
            return Ok((ascending(array)?, false));
        }
    }
    let words: ArrayRef = Arc::new(table.into_values()?);
    let order: UInt32Array = sort_to_indices(&words, None, None)?;
    let mut ranks = vec![0_u64; words.len()];
    for (rank, number) in order.values().iter().enumerate() {
        ranks[*number as usize] = rank as u64;
    }
    let ranks = numbers.into_iter().map(|number| ranks[number as usize]);
    Ok((ranks.collect(), true))
}

/// Strings that are numbered at once.
const PART_ROWS: usize = 16 << 10;
/// Rows after which strings that are mostly different are no longer numbered.
const TRIAL_ROWS: usize = 48 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int64Array, StringArray};
    use proptest::prelude::*;

    fn integers() -> impl Strategy<Value = Option<i64>> {
        prop_oneof![
            1 => Just(None),
            6 => (-3..9_i64).prop_map(Some),
            1 => prop_oneof![Just(i64::MIN), Just(i64::MAX), any::<i64>()].prop_map(Some),
        ]
    }

    fn texts() -> impl Strategy<Value = Option<String>> {
        prop_oneof![
            1 => Just(None),
            3 => "[a-c]{0,2}".prop_map(Some),
            3 => "abcdefgh[ab]{0,3}".prop_map(Some),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn rows_are_in_the_order_that_arrow_gives_them(
            rows in prop::collection::vec((integers(), texts(), integers(), -2..2_i8), 60),
            options in prop::collection::vec((any::<bool>(), any::<bool>()), 4),
            columns in prop::collection::vec(0..4_usize, 1..4),
            wide in any::<bool>(),
            distinct in any::<bool>(),
        ) {
            // Enough rows that keys are packed; strings that are all different are not numbered.
            let row = |i: usize| &rows[i.wrapping_mul(7919) % rows.len()];
            let count = 3000;
            let text = |i: usize| {
                let text = row(i).1.clone();
                if distinct { text.map(|t| format!("{t}{}", i % 2900)) } else { text }
            };
            let narrow = |v: Option<i64>| if wide { v } else { v.map(|v| v % 100) };
            let arrays: [ArrayRef; 4] = [
                Arc::new((0..count).map(|i| narrow(row(i).0)).collect::<Int64Array>()),
                Arc::new((0..count).map(text).collect::<StringArray>()),
                Arc::new((0..count).map(|i| narrow(row(i).2)).collect::<Int64Array>()),
                Arc::new((0..count).map(|i| Some(f64::from(row(i).3) * 0.0)).collect::<Float64Array>()),
            ];
            let columns: Vec<SortColumn> = columns
                .iter()
                .zip(options)
                .map(|(index, (descending, nulls_first))| SortColumn {
                    values: Arc::clone(&arrays[*index]),
                    options: Some(SortOptions { descending, nulls_first }),
                })
                .collect();
            let found = sorted(&columns).unwrap();
            let mut expected: Vec<u32> = (0..count as u32).collect();
            let comparators: Vec<_> = columns
                .iter()
                .map(|c| make_comparator(&c.values, &c.values, c.options.unwrap()).unwrap())
                .collect();
            expected.sort_by(|a, b| {
                let orders = comparators.iter().map(|c| c(*a as usize, *b as usize));
                orders.fold(Ordering::Equal, Ordering::then)
            });
            prop_assert_eq!(found, expected);
        }
    }
}
