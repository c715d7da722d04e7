//! Dense numbers for rows that no 64-bit key can hold.
//!
//! A row is found by a hash of all its columns and then compared, column by column for a whole
//! batch. Rows with the hash of another one are rare; they are kept as bytes.

use super::kept_views::{KeptViews, view_bytes};
use super::numbers::{Numbers, new_among};
use crate::bigjoin::integers::{array_of, integers, is_integer_like};
use arrow::array::{Array, ArrayRef, AsArray, GenericByteViewArray, MAX_INLINE_VIEW_LEN};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, StringViewType};
use datafusion::common::Result;
use foldhash::quality::RandomState;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

/// Combined into the hash of a row for a NULL.
const NULL_HASH: u64 = 0x9e37_79b9_7f4a_7c15;

/// Rows numbered in about the order of their first appearance.
pub(super) struct HashedRows<H = RandomState> {
    numbers: Numbers,
    columns: Vec<Stored>,
    /// Rows whose hash is that of another row.
    same_hash: HashMap<Box<[u8]>, u32>,
    hasher: H,
    scratch: RowScratch,
}

#[derive(Default)]
struct RowScratch {
    hashes: Vec<u64>,
    numbers: Vec<u32>,
    new: Vec<u32>,
    differs: Vec<bool>,
}

impl<H: BuildHasher + Default> HashedRows<H> {
    /// No rows yet of columns of these types.
    pub fn new(types: &[DataType]) -> Self {
        HashedRows {
            numbers: Numbers::new(),
            columns: types.iter().map(Stored::new).collect(),
            same_hash: HashMap::new(),
            hasher: H::default(),
            scratch: RowScratch::default(),
        }
    }

    /// How many different rows there are.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    pub fn size_bytes(&self) -> usize {
        let columns = self.columns.iter().map(Stored::size_bytes);
        self.numbers.size_bytes() + columns.sum::<usize>()
    }

    /// Writes the number of each row to `numbers`.
    ///
    /// # Errors
    /// If the numbers would exceed 32 bits, or a column has another type.
    pub fn assign(&mut self, columns: &[ArrayRef], numbers: &mut Vec<usize>) -> Result<()> {
        let values = columns
            .iter()
            .map(BatchColumn::of)
            .collect::<Result<Vec<_>>>()?;
        let mut scratch = std::mem::take(&mut self.scratch);
        let rows = columns.first().map_or(0, |column| column.len());
        self.hash(&values, rows, &mut scratch.hashes);
        let kept = self.len();
        self.numbers.assign(&scratch.hashes, &mut scratch.numbers)?;
        let new = new_among(&scratch.numbers, kept);
        scratch.new.clear();
        scratch.new.extend(new.map(|row| row as u32));
        scratch.differs.clear();
        scratch.differs.resize(rows, false);
        for (stored, values) in self.columns.iter_mut().zip(&values) {
            stored.append(values, &scratch.new);
            stored.compare(values, &scratch.numbers, &mut scratch.differs);
        }
        for row in 0..rows {
            if scratch.differs[row] {
                scratch.numbers[row] = self.of_same_hash(&values, row)?;
            }
        }
        numbers.clear();
        numbers.extend(scratch.numbers.iter().map(|number| *number as usize));
        self.scratch = scratch;
        Ok(())
    }

    /// The hashes of all rows.
    fn hash(&self, values: &[BatchColumn], rows: usize, hashes: &mut Vec<u64>) {
        let factor = self.hasher.hash_one(1_u64) | 1;
        hashes.clear();
        hashes.resize(rows, factor >> 1);
        for values in values {
            match values {
                BatchColumn::Integers(values, nulls) => {
                    let codes = values.iter().map(|value| *value as u64);
                    combine(hashes, factor, codes, nulls.as_ref());
                }
                BatchColumn::Texts(texts) => combine_views(hashes, factor, texts, &self.hasher),
                BatchColumn::Bytes(bytes) => combine_views(hashes, factor, bytes, &self.hasher),
            }
        }
    }

    /// The number of a row that differs from the one with its hash.
    fn of_same_hash(&mut self, values: &[BatchColumn], row: usize) -> Result<u32> {
        let mut bytes = Vec::new();
        values.iter().for_each(|v| v.write(row, &mut bytes));
        if let Some(number) = self.same_hash.get(bytes.as_slice()) {
            return Ok(*number);
        }
        let number = self.numbers.skip()?;
        for (stored, values) in self.columns.iter_mut().zip(values) {
            stored.append(values, &[row as u32]);
        }
        self.same_hash.insert(bytes.into(), number);
        Ok(number)
    }

    /// The columns of all rows in the order of their numbers.
    ///
    /// # Errors
    /// Arrow's, from making arrays.
    pub fn into_columns(self) -> Result<Vec<RowColumn>> {
        self.columns.into_iter().map(Stored::finish).collect()
    }
}

/// One column of all rows.
pub(super) enum RowColumn {
    Integers(Vec<i64>, Option<NullBuffer>),
    Views(ArrayRef),
}

impl RowColumn {
    /// The values of some rows as an array of the column's type.
    pub fn values(&self, rows: Range<usize>, data_type: &DataType) -> Result<ArrayRef> {
        match self {
            RowColumn::Integers(values, nulls) => {
                let nulls = nulls.as_ref().map(|n| n.slice(rows.start, rows.len()));
                array_of(data_type, values[rows].to_vec(), nulls)
            }
            RowColumn::Views(views) => {
                let some = views.slice(rows.start, rows.len());
                match some.data_type() == data_type {
                    true => Ok(some),
                    false => Ok(cast(&some, data_type)?),
                }
            }
        }
    }
}

/// A batch of one column.
enum BatchColumn {
    Integers(Vec<i64>, Option<NullBuffer>),
    Texts(GenericByteViewArray<StringViewType>),
    Bytes(GenericByteViewArray<BinaryViewType>),
}

impl BatchColumn {
    fn of(array: &ArrayRef) -> Result<Self> {
        let data_type = array.data_type();
        if is_integer_like(data_type) {
            let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
            return Ok(BatchColumn::Integers(integers(array)?, nulls.cloned()));
        }
        Ok(match data_type.is_string() {
            true => BatchColumn::Texts(cast(array, &DataType::Utf8View)?.as_string_view().clone()),
            false => {
                BatchColumn::Bytes(cast(array, &DataType::BinaryView)?.as_binary_view().clone())
            }
        })
    }

    /// Appends a value so that other values, and those of further columns, give other bytes.
    fn write(&self, row: usize, bytes: &mut Vec<u8>) {
        let text = match self {
            BatchColumn::Integers(values, nulls) => {
                let valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
                bytes.push(u8::from(valid));
                let value = if valid { values[row] } else { 0 };
                return bytes.extend_from_slice(&value.to_le_bytes());
            }
            BatchColumn::Texts(texts) => texts.is_valid(row).then(|| texts.value(row).as_bytes()),
            BatchColumn::Bytes(values) => values.is_valid(row).then(|| values.value(row)),
        };
        bytes.push(u8::from(text.is_some()));
        let text = text.unwrap_or_default();
        bytes.extend_from_slice(&text.len().to_le_bytes());
        bytes.extend_from_slice(text);
    }
}

/// One column of the rows so far.
enum Stored {
    Integers(StoredIntegers),
    Texts(KeptViews<StringViewType>),
    Bytes(KeptViews<BinaryViewType>),
}

#[derive(Default)]
struct StoredIntegers {
    values: Vec<i64>,
    /// Whether a value is not NULL; empty as long as none is.
    valid: Vec<bool>,
}

impl Stored {
    fn new(data_type: &DataType) -> Self {
        if is_integer_like(data_type) {
            Stored::Integers(StoredIntegers::default())
        } else if data_type.is_string() {
            Stored::Texts(KeptViews::new())
        } else {
            Stored::Bytes(KeptViews::new())
        }
    }

    fn append(&mut self, values: &BatchColumn, rows: &[u32]) {
        match (self, values) {
            (Stored::Integers(stored), BatchColumn::Integers(values, nulls)) => {
                stored.append(values, nulls.as_ref(), rows);
            }
            (Stored::Texts(stored), BatchColumn::Texts(texts)) => stored.append(texts, rows),
            (Stored::Bytes(stored), BatchColumn::Bytes(bytes)) => stored.append(bytes, rows),
            _ => unreachable!("the values of a column have one type"),
        }
    }

    /// Marks the rows whose value is not that of their number.
    fn compare(&self, values: &BatchColumn, numbers: &[u32], differs: &mut [bool]) {
        match (self, values) {
            (Stored::Integers(stored), BatchColumn::Integers(values, nulls)) => {
                stored.compare(values, nulls.as_ref(), numbers, differs);
            }
            (Stored::Texts(stored), BatchColumn::Texts(texts)) => {
                stored.compare(texts, numbers, Some, |row| differs[row] = true);
            }
            (Stored::Bytes(stored), BatchColumn::Bytes(bytes)) => {
                stored.compare(bytes, numbers, Some, |row| differs[row] = true);
            }
            _ => unreachable!("the values of a column have one type"),
        }
    }

    fn size_bytes(&self) -> usize {
        match self {
            Stored::Integers(stored) => stored.values.capacity() * 8 + stored.valid.capacity(),
            Stored::Texts(stored) => stored.size_bytes(),
            Stored::Bytes(stored) => stored.size_bytes(),
        }
    }

    fn finish(self) -> Result<RowColumn> {
        Ok(match self {
            Stored::Integers(stored) => {
                let valid = (!stored.valid.is_empty()).then(|| NullBuffer::from(stored.valid));
                RowColumn::Integers(stored.values, valid)
            }
            Stored::Texts(stored) => RowColumn::Views(Arc::new(stored.finish()?)),
            Stored::Bytes(stored) => RowColumn::Views(Arc::new(stored.finish()?)),
        })
    }
}

impl StoredIntegers {
    fn append(&mut self, values: &[i64], nulls: Option<&NullBuffer>, rows: &[u32]) {
        if nulls.is_some() && self.valid.is_empty() {
            self.valid.resize(self.values.len(), true);
        }
        // A NULL is stored as zero, whatever its value is in the batch.
        let value = |row: &u32| match nulls {
            Some(nulls) if nulls.is_null(*row as usize) => 0,
            _ => values[*row as usize],
        };
        self.values.extend(rows.iter().map(value));
        let valid = |row: &u32| nulls.is_none_or(|nulls| nulls.is_valid(*row as usize));
        if nulls.is_some() || !self.valid.is_empty() {
            self.valid.extend(rows.iter().map(valid));
        }
    }

    fn compare(
        &self,
        values: &[i64],
        nulls: Option<&NullBuffer>,
        numbers: &[u32],
        differs: &mut [bool],
    ) {
        let rows = values.iter().zip(numbers).zip(differs.iter_mut());
        let stored = self.values.as_slice();
        let Some(nulls) = nulls else {
            for ((value, number), differs) in rows {
                *differs |= stored[*number as usize] != *value;
            }
            if !self.valid.is_empty() {
                for (number, differs) in numbers.iter().zip(differs) {
                    *differs |= !self.valid[*number as usize];
                }
            }
            return;
        };
        for (((value, number), differs), valid) in rows.zip(nulls.iter()) {
            let number = *number as usize;
            *differs |= valid != self.valid[number] || (valid && stored[number] != *value);
        }
    }
}

/// Combines the values of one more column into the hashes of the rows.
fn combine(
    hashes: &mut [u64],
    factor: u64,
    codes: impl Iterator<Item = u64>,
    nulls: Option<&NullBuffer>,
) {
    let rows = hashes.iter_mut().zip(codes);
    match nulls.filter(|nulls| nulls.null_count() > 0) {
        None => rows.for_each(|(hash, code)| *hash = folded(*hash ^ code, factor)),
        Some(nulls) => {
            for ((hash, code), valid) in rows.zip(nulls.iter()) {
                let code = if valid { code } else { NULL_HASH };
                *hash = folded(*hash ^ code, factor);
            }
        }
    }
}

fn combine_views<T: ByteViewType>(
    hashes: &mut [u64],
    factor: u64,
    array: &GenericByteViewArray<T>,
    hasher: &impl BuildHasher,
) {
    let rows = array.views().iter().enumerate();
    let codes = rows.map(|(row, view)| match view_bytes(*view) {
        ..=MAX_INLINE_VIEW_LEN => folded(*view as u64 ^ factor, (*view >> 64) as u64 ^ NULL_HASH),
        _ if array.is_null(row) => 0,
        _ => {
            let value: &[u8] = array.value(row).as_ref();
            hasher.hash_one(value)
        }
    });
    combine(hashes, factor, codes, array.nulls());
}

/// Both halves of a product, of which every bit depends on many of both factors.
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::super::one_hash::Same;
    use super::*;
    use arrow::array::{BinaryArray, Int64Array, StringArray};

    #[test]
    fn rows_with_the_same_hash_stay_apart() {
        let types = [DataType::Int64, DataType::Utf8, DataType::Binary];
        let mut rows = HashedRows::<Same>::new(&types);
        let value = |row: usize| {
            let long = |name: &str, of: usize| match of {
                0 => None,
                1 => Some(format!("a short {name}")[..9].to_owned()),
                of => Some(format!("a {name} that no view holds {of}")),
            };
            let number = [None, Some(0), Some(1)][row % 3];
            (number, long("text", row % 4), long("value", row / 4 % 5))
        };
        let (mut numbers, mut all) = (Vec::new(), Vec::new());
        for start in (0..400).step_by(9) {
            let batch: Vec<_> = (start..start + 9).map(value).collect();
            let numbers_of = batch.iter().map(|row| row.0);
            let texts = batch.iter().map(|row| row.1.as_deref());
            let bytes = batch.iter().map(|row| row.2.as_deref().map(str::as_bytes));
            let columns: [ArrayRef; 3] = [
                Arc::new(numbers_of.collect::<Int64Array>()),
                Arc::new(texts.collect::<StringArray>()),
                Arc::new(bytes.collect::<BinaryArray>()),
            ];
            rows.assign(&columns, &mut numbers).unwrap();
            all.extend_from_slice(&numbers);
        }
        assert_eq!(rows.len(), 3 * 4 * 5);
        assert!(!rows.same_hash.is_empty());
        let columns = rows.into_columns().unwrap();
        let columns = columns.iter().zip(&types);
        let columns = columns.map(|(column, of)| column.values(0..60, of).unwrap());
        let columns: Vec<ArrayRef> = columns.collect();
        for (row, number) in all.into_iter().enumerate() {
            let integers = columns[0].as_primitive::<arrow::datatypes::Int64Type>();
            let texts = columns[1].as_string::<i32>();
            let bytes = columns[2].as_binary::<i32>();
            let back = (
                integers.is_valid(number).then(|| integers.value(number)),
                texts.is_valid(number).then(|| texts.value(number)),
                bytes.is_valid(number).then(|| bytes.value(number)),
            );
            let (integer, text, value) = value(row);
            let value = value.as_deref().map(str::as_bytes);
            assert_eq!(back, (integer, text.as_deref(), value), "row {row}");
        }
    }
}
