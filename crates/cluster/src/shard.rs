//! Which shard a row belongs to, and the rows of some shards.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::compute::{cast, take_record_batch};
use arrow::datatypes::{DataType, Int64Type};
use arrow::error::ArrowError;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The shard, of `shards`, of each value of a column.
///
/// It depends on the value alone and not on the width of its type, so that a key finds its rows in
/// both tables of a join. NULL has a shard too. `DefaultHasher::new` has fixed keys; all processes
/// of a cluster have the same version of this program, so they agree.
///
/// # Errors
/// Arrow's, for a type that has no text.
fn shards_of(column: &ArrayRef, shards: u32) -> Result<Vec<u32>, ArrowError> {
    let shard = |hash: u64| (hash % u64::from(shards.max(1))) as u32;
    let hashed = |value: &dyn Fn(&mut DefaultHasher)| {
        let mut hasher = DefaultHasher::new();
        value(&mut hasher);
        shard(hasher.finish())
    };
    let rows = 0..column.len();
    if column.data_type().is_integer() {
        let values = cast(column, &DataType::Int64)?;
        let values = values.as_primitive::<Int64Type>();
        let of = |row: usize| (!values.is_null(row)).then(|| values.value(row));
        return Ok(rows.map(|row| hashed(&|h| of(row).hash(h))).collect());
    }
    let values = cast(column, &DataType::Utf8)?;
    let values = values.as_string::<i32>();
    let of = |row: usize| (!values.is_null(row)).then(|| values.value(row));
    Ok(rows.map(|row| hashed(&|h| of(row).hash(h))).collect())
}

/// Keeps the rows of some shards, and counts those of each.
pub(crate) struct Sharding {
    /// The column.
    pub by: String,
    /// Number of all shards.
    pub shards: u32,
    /// Rows so far, for the shards whose rows are kept.
    pub rows: BTreeMap<u32, u64>,
}

impl Sharding {
    /// Of the table's shards by column `by` those in `kept`.
    pub fn new(by: &str, shards: u32, kept: &BTreeSet<u32>) -> Self {
        Sharding {
            by: by.into(),
            shards,
            rows: kept.iter().map(|shard| (*shard, 0)).collect(),
        }
    }

    /// The rows of a batch that are kept.
    ///
    /// # Errors
    /// A batch without the column, or with a type that has no text.
    pub fn keep(&mut self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let Some(column) = batch.column_by_name(&self.by) else {
            let missing = format!("there is no column {}", self.by);
            return Err(ArrowError::SchemaError(missing));
        };
        let shards = shards_of(column, self.shards)?;
        let mut rows = Vec::new();
        for (row, shard) in shards.iter().enumerate() {
            if let Some(count) = self.rows.get_mut(shard) {
                *count += 1;
                rows.push(row as u32);
            }
        }
        take_record_batch(batch, &UInt32Array::from(rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, Int64Array, StringArray};
    use std::sync::Arc;

    #[test]
    fn every_row_is_in_one_shard_and_equal_keys_of_all_widths_in_the_same() {
        let narrow: ArrayRef = Arc::new(Int32Array::from_iter((0..1000).map(Some).chain([None])));
        let wide: ArrayRef = Arc::new(Int64Array::from_iter((0..1000).map(Some).chain([None])));
        let shards = shards_of(&narrow, 7).unwrap();
        assert_eq!(shards, shards_of(&wide, 7).unwrap());
        let batch = RecordBatch::try_from_iter([("k", narrow)]).unwrap();
        let mut all = 0;
        for shard in 0..7 {
            let mut sharding = Sharding::new("k", 7, &BTreeSet::from([shard]));
            let kept = sharding.keep(&batch).unwrap();
            assert_eq!(sharding.rows[&shard], kept.num_rows() as u64);
            assert!(
                kept.num_rows() > 50,
                "shard {shard} has {}",
                kept.num_rows()
            );
            all += kept.num_rows();
        }
        assert_eq!(all, 1001);
    }

    #[test]
    fn texts_have_shards_and_an_unknown_column_is_an_error() {
        let words: ArrayRef = Arc::new(StringArray::from_iter_values(
            (0..100).map(|i| i.to_string()),
        ));
        let batch = RecordBatch::try_from_iter([("w", words)]).unwrap();
        let mut sharding = Sharding::new("w", 2, &BTreeSet::from([0, 1]));
        assert_eq!(sharding.keep(&batch).unwrap().num_rows(), 100);
        let mut sharding = Sharding::new("v", 2, &BTreeSet::from([0]));
        let error = sharding.keep(&batch).unwrap_err();
        assert!(error.to_string().contains("no column v"));
    }
}
