//! Join and group keys as 64-bit integers.
//!
//! Only equality matters, so every supported type maps to the bits of an `i64`. Two columns are
//! packed into one number by their ranges on the build side where those fit.

use super::integers::integers;
use arrow::array::{Array, BooleanBufferBuilder, RecordBatch};
use arrow::buffer::NullBuffer;
use datafusion::common::Result;
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

/// Largest number of key columns.
pub(crate) const MAX_COLUMNS: usize = 2;

/// The key columns of one or several batches, one integer per row.
///
/// Equal values have equal integers.
#[derive(Debug, Default)]
pub(crate) struct KeyColumns {
    columns: Vec<Vec<i64>>,
    /// Validity of the rows: a NULL in any column makes a row invalid.
    nulls: Option<NullBuffer>,
}

impl KeyColumns {
    /// Evaluates the key expressions on `batch`.
    pub fn evaluate(on: &[Arc<dyn PhysicalExpr>], batch: &RecordBatch) -> Result<Self> {
        let mut columns = Vec::with_capacity(on.len());
        let mut nulls = None;
        for expr in on {
            let array = expr.evaluate(batch)?.into_array(batch.num_rows())?;
            nulls = NullBuffer::union(nulls.as_ref(), array.nulls());
            columns.push(integers(&array)?);
        }
        Ok(Self { columns, nulls })
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
    }

    /// Whether row `row` and row `other_row` of `other` have equal keys.
    pub fn same(&self, row: u32, other: &KeyColumns, other_row: u32) -> bool {
        self.columns
            .iter()
            .zip(&other.columns)
            .all(|(a, b)| a[row as usize] == b[other_row as usize])
    }

    /// Bytes allocated for the integers.
    pub fn size_bytes(&self) -> usize {
        self.columns.iter().map(|c| c.capacity() * 8).sum()
    }

    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, Vec::len)
    }
}

/// How the columns of a key are packed to one number.
///
/// It is derived from the build side's ranges; a probe row outside of them has no match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Packing {
    /// One column: its value minus the smallest; `span` values, `None` for 2^64.
    One { min: i64, span: Option<u64> },
    /// Two columns whose ranges together fit into 64 bits.
    Two { min: [i64; 2], span: [u64; 2] },
    /// Two columns that do not fit into 64 bits.
    ///
    /// Different keys may get the same number, so matches must be compared.
    Mixed,
}

impl Packing {
    /// Derives the packing of one or two build key columns.
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
        match keys.columns.as_slice() {
            [one] => {
                let (min, span) = range(one);
                Packing::One { min, span }
            }
            [first, second] => {
                let ((min0, span0), (min1, span1)) = (range(first), range(second));
                match span0.zip(span1) {
                    Some((a, b)) if a.checked_mul(b).is_some() => Packing::Two {
                        min: [min0, min1],
                        span: [a, b],
                    },
                    _ => Packing::Mixed,
                }
            }
            // The build side had no batch, so nothing can match.
            _ => Packing::One {
                min: 0,
                span: Some(0),
            },
        }
    }

    /// Number of packed values, `0..span`; `None` if they need all 64 bits.
    pub fn span(&self) -> Option<u64> {
        match self {
            Packing::One { span, .. } => *span,
            Packing::Two { span, .. } => Some(span[0] * span[1]),
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
            (Packing::Two { min, span }, [first, second]) => {
                // One past the largest packed key, so it is in no table.
                let outside = span[0] * span[1];
                packed.extend(first.iter().zip(second).map(|(a, b)| {
                    let (a, b) = (a.wrapping_sub(min[0]) as u64, b.wrapping_sub(min[1]) as u64);
                    if a < span[0] && b < span[1] {
                        a * span[1] + b
                    } else {
                        outside
                    }
                }));
            }
            (Packing::Mixed, [first, second]) => {
                // 2^64 divided by the golden ratio, as in Fibonacci hashing.
                const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
                packed.extend(
                    first
                        .iter()
                        .zip(second)
                        .map(|(a, b)| (*a as u64).wrapping_mul(ODD).rotate_left(32) ^ (*b as u64)),
                );
            }
            // Keys of an empty build side, or of more columns than the operator accepts.
            _ => packed.resize(keys.rows(), u64::MAX),
        }
    }
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
