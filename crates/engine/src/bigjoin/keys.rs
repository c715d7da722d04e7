//! Join keys as 64-bit integers.
//!
//! Only equality matters, so every supported type maps to the bits of an `i64`: strings of up to
//! seven bytes to these bytes, longer ones to a hash. Several columns are packed into one number by
//! their ranges on the build side where those fit.

use super::aggregate::{IS_HASH, text_code};
use super::integers::{integers, is_key_type, of_strings};
use arrow::array::{Array, ArrayRef, AsArray, BooleanBufferBuilder, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::compute::concat;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::physical_plan::PhysicalExpr;
use foldhash::quality::FixedState;
use std::sync::Arc;

/// Largest number of key columns.
pub(crate) const MAX_COLUMNS: usize = 4;

/// Both sides of a join hash with it.
const HASHER: FixedState = FixedState::with_seed(0x7469_6572_6c6f_6f6d);

/// Whether columns of this type can be keys of a join.
pub(crate) fn can_join(data_type: &DataType) -> bool {
    is_key_type(data_type) || data_type.is_string()
}

/// The key columns of one or several batches, one integer per row.
///
/// Equal values have equal integers. Different strings may have equal ones as well.
#[derive(Debug, Default)]
pub(crate) struct KeyColumns {
    columns: Vec<Vec<i64>>,
    /// The strings of each column, batch by batch; none for other types.
    texts: Vec<Vec<ArrayRef>>,
    /// Validity of the rows: a NULL in any column makes a row invalid.
    nulls: Option<NullBuffer>,
}

impl KeyColumns {
    /// Evaluates the key expressions on `batch`.
    pub fn evaluate(on: &[Arc<dyn PhysicalExpr>], batch: &RecordBatch) -> Result<Self> {
        let (mut columns, mut texts) = (Vec::new(), Vec::new());
        let mut nulls = None;
        for expr in on {
            let array = expr.evaluate(batch)?.into_array(batch.num_rows())?;
            nulls = NullBuffer::union(nulls.as_ref(), array.nulls());
            let is_text = array.data_type().is_string();
            columns.push(match is_text {
                true => codes(&array),
                false => integers(&array)?,
            });
            texts.push(if is_text { vec![array] } else { Vec::new() });
        }
        Ok(Self {
            columns,
            texts,
            nulls,
        })
    }

    /// Validity of the rows; `None` if no key is NULL.
    pub fn nulls(&self) -> Option<&NullBuffer> {
        self.nulls.as_ref().filter(|n| n.null_count() > 0)
    }

    /// Appends the rows of `later`.
    pub fn append(&mut self, later: KeyColumns) {
        if self.columns.is_empty() {
            *self = later;
            return;
        }
        if self.nulls.is_some() || later.nulls.is_some() {
            let mut valid = BooleanBufferBuilder::new(self.rows() + later.rows());
            for (nulls, rows) in [(&self.nulls, self.rows()), (&later.nulls, later.rows())] {
                match nulls {
                    Some(nulls) => valid.append_buffer(nulls.inner()),
                    None => valid.append_n(rows, true),
                }
            }
            self.nulls = Some(NullBuffer::new(valid.finish()));
        }
        for (column, more) in self.columns.iter_mut().zip(later.columns) {
            column.extend(more);
        }
        for (texts, more) in self.texts.iter_mut().zip(later.texts) {
            texts.extend(more);
        }
    }

    /// Puts the strings of all batches together, for [`Self::same`].
    ///
    /// # Errors
    /// Arrow's, if they are too long for their type.
    pub fn joined(mut self) -> Result<Self> {
        for texts in self.texts.iter_mut().filter(|texts| texts.len() > 1) {
            let parts: Vec<&dyn Array> = texts.iter().map(AsRef::as_ref).collect();
            *texts = vec![concat(&parts)?];
        }
        Ok(self)
    }

    /// Whether row `row` and row `other_row` of `other` have equal keys; both must be
    /// [`Self::joined`] or one batch.
    pub fn same(&self, row: u32, other: &KeyColumns, other_row: u32) -> bool {
        let (row, other_row) = (row as usize, other_row as usize);
        let mut columns = self.columns.iter().zip(&other.columns);
        let mut texts = self.texts.iter().zip(&other.texts);
        columns.all(|(a, b)| {
            let texts = texts.next();
            if a[row] != b[other_row] {
                return false;
            }
            match texts.map(|(a, b)| (&a[..], &b[..])) {
                Some(([a_text], [b_text])) if a[row] as u64 & IS_HASH != 0 => {
                    bytes(a_text, row) == bytes(b_text, other_row)
                }
                _ => true,
            }
        })
    }

    /// Whether a column has strings, whose integers may be equal where they are not.
    fn has_texts(&self) -> bool {
        self.texts.iter().any(|texts| !texts.is_empty())
    }

    /// Bytes allocated for the integers.
    pub fn size_bytes(&self) -> usize {
        self.columns.iter().map(|c| c.capacity() * 8).sum()
    }

    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, Vec::len)
    }
}

/// The integers of strings; any integer for NULL.
fn codes(array: &ArrayRef) -> Vec<i64> {
    let code = |value: Option<&str>| text_code(value.unwrap_or("").as_bytes(), &HASHER) as i64;
    of_strings(array, code).unwrap_or_default()
}

fn bytes(array: &ArrayRef, row: usize) -> &[u8] {
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(row).as_bytes(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).as_bytes(),
        _ => array.as_string_view().value(row).as_bytes(),
    }
}

/// How the columns of a key are packed to one number.
///
/// It is derived from the build side's ranges; a probe row outside of them has no match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Packing {
    /// One column: its value minus the smallest; `span` values, `None` for 2^64.
    One { min: i64, span: Option<u64> },
    /// Several columns whose ranges together fit into 64 bits: the smallest value of each, and the
    /// number of values.
    Ranges(Vec<(i64, u64)>),
    /// Columns that do not fit into 64 bits, or strings.
    ///
    /// Different keys may get the same number, so matches must be compared.
    Mixed,
}

impl Packing {
    /// Derives the packing of the build key columns.
    ///
    /// Rows with NULLs are included; their values can only widen the ranges.
    pub fn of(keys: &KeyColumns) -> Self {
        let range = |column: &[i64]| {
            let (min, max) = column
                .iter()
                .fold((i64::MAX, i64::MIN), |(lo, hi), v| (lo.min(*v), hi.max(*v)));
            if min > max {
                (0, Some(0))
            } else {
                (min, (max.wrapping_sub(min) as u64).checked_add(1))
            }
        };
        if keys.has_texts() {
            return Packing::Mixed;
        }
        match keys.columns.as_slice() {
            // The build side had no batch, so nothing can match.
            [] => Packing::One {
                min: 0,
                span: Some(0),
            },
            [one] => {
                let (min, span) = range(one);
                Packing::One { min, span }
            }
            several => {
                let ranges = several.iter().map(|column| {
                    let (min, span) = range(column);
                    Some((min, span?))
                });
                match ranges.collect::<Option<Vec<_>>>() {
                    Some(ranges) if product(&ranges).is_some() => Packing::Ranges(ranges),
                    _ => Packing::Mixed,
                }
            }
        }
    }

    /// Number of packed values, `0..span`; `None` if they need all 64 bits.
    pub fn span(&self) -> Option<u64> {
        match self {
            Packing::One { span, .. } => *span,
            Packing::Ranges(ranges) => product(ranges),
            Packing::Mixed => None,
        }
    }

    /// Packs one number per row.
    ///
    /// A row outside the build side's ranges gets a number of at least [`Packing::span`]. Rows with
    /// NULLs are not marked.
    pub fn pack(&self, keys: &KeyColumns, packed: &mut Vec<u64>) {
        packed.clear();
        packed.reserve(keys.rows());
        match (self, keys.columns.as_slice()) {
            (Packing::One { min, .. }, [one]) => {
                packed.extend(one.iter().map(|v| v.wrapping_sub(*min) as u64));
            }
            (Packing::Ranges(ranges), [first, rest @ ..]) if rest.len() + 1 == ranges.len() => {
                // One past the largest packed key, so it is in no table.
                let outside = product(ranges).unwrap_or(u64::MAX);
                let place = |value: i64, (min, span): (i64, u64)| {
                    let place = value.wrapping_sub(min) as u64;
                    (place < span).then_some(place)
                };
                let first = first
                    .iter()
                    .map(|v| place(*v, ranges[0]).unwrap_or(outside));
                packed.extend(first);
                for (column, range) in rest.iter().zip(&ranges[1..]) {
                    for (key, value) in packed.iter_mut().zip(column) {
                        *key = match place(*value, *range) {
                            Some(place) if *key != outside => *key * range.1 + place,
                            _ => outside,
                        };
                    }
                }
            }
            (Packing::Mixed, [first, rest @ ..]) => {
                // 2^64 divided by the golden ratio, as in Fibonacci hashing.
                const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
                packed.extend(first.iter().map(|v| *v as u64));
                for column in rest {
                    for (key, value) in packed.iter_mut().zip(column) {
                        *key = key.wrapping_mul(ODD).rotate_left(32) ^ *value as u64;
                    }
                }
            }
            // Keys of an empty build side, or of more columns than the operator accepts.
            _ => packed.resize(keys.rows(), u64::MAX),
        }
    }
}

/// The number of different keys with these ranges, if it fits.
fn product(ranges: &[(i64, u64)]) -> Option<u64> {
    let mut spans = ranges.iter().map(|(_, span)| *span);
    spans.try_fold(1_u64, u64::checked_mul)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(columns: &[&[i64]]) -> KeyColumns {
        KeyColumns {
            columns: columns.iter().map(|c| c.to_vec()).collect(),
            ..KeyColumns::default()
        }
    }

    #[test]
    fn two_columns_pack_without_collisions_and_outsiders_match_nothing() {
        let build = keys(&[&[-3, 5, 0], &[100, 90, 95]]);
        let packing = Packing::of(&build);
        let mut packed = Vec::new();
        packing.pack(
            &keys(&[&[-3, 5, -3, 6, 0], &[100, 90, 90, 95, 101]]),
            &mut packed,
        );
        let span = packing.span().unwrap();
        assert_eq!(span, 9 * 11);
        assert_eq!(packed, [10, 88, 0, span, span]);
    }

    #[test]
    fn ranges_beyond_64_bits_are_not_packed_and_extreme_single_keys_stay_apart() {
        let wide: &[i64] = &[i64::MIN, i64::MAX];
        assert_eq!(Packing::of(&keys(&[wide, &[1, 2]])), Packing::Mixed);
        let packing = Packing::of(&keys(&[wide]));
        assert_eq!(packing.span(), None);
        let mut packed = Vec::new();
        packing.pack(&keys(&[&[i64::MIN, -1, 0, i64::MAX]]), &mut packed);
        packed.dedup();
        assert_eq!(packed.len(), 4);
    }

    #[test]
    fn an_empty_build_side_matches_nothing() {
        let packing = Packing::of(&keys(&[&[]]));
        assert_eq!(packing.span(), Some(0));
    }
}
