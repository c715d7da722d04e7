//! Maps group keys to dense group numbers and back.
//!
//! Keys are packed into 64 bits and looked up in batches in `kernels::hash::GroupTable`. Keys that
//! do not fit (NULLs, two columns of more than 32 bits) go to an ordinary hash map; they are
//! expected to be rare.

use crate::bigjoin::keys::KeyColumns;
use crate::bigjoin::storage::Storage;
use arrow::array::{ArrayRef, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, exec_err, internal_err};
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use tierloom_kernels::hash::{Bucket, GroupTable, Layout, NONE};

/// Initial capacity: a table of 256 KiB.
const FIRST_GROUPS: usize = 12 << 10;

/// A storage viewed as hash buckets.
struct Buckets {
    storage: Storage,
    len: usize,
}

impl Deref for Buckets {
    type Target = [Bucket];
    fn deref(&self) -> &[Bucket] {
        &Bucket::slice(self.storage.bytes())[..self.len]
    }
}

impl DerefMut for Buckets {
    fn deref_mut(&mut self) -> &mut [Bucket] {
        &mut Bucket::slice_mut(self.storage.bytes_mut())[..self.len]
    }
}

fn empty(layout: Layout) -> GroupTable<Buckets> {
    let storage = Storage::zeroed(layout.size_bytes());
    let len = layout.buckets();
    GroupTable::new(layout, Buckets { storage, len })
}

/// A key that does not fit the table: it has a NULL, or a column of two that exceeds 32 bits.
type OddKey = [Option<i64>; 2];

/// The groups seen so far, numbered in order of appearance.
pub(super) struct Groups {
    table: GroupTable<Buckets>,
    columns: usize,
    /// Packed key by group number; arbitrary for odd groups.
    packed_keys: Vec<u64>,
    odd: HashMap<OddKey, u32>,
    /// Numbers and keys of the odd groups, ascending.
    odd_groups: Vec<(u32, OddKey)>,
    packed: Vec<u64>,
    rows: Vec<u32>,
    numbers: Vec<u32>,
}

impl Groups {
    /// Creates an empty table for keys of one or two columns.
    pub fn new(columns: usize) -> Self {
        Self {
            table: empty(Layout::for_keys(FIRST_GROUPS)),
            columns,
            packed_keys: Vec::new(),
            odd: HashMap::new(),
            odd_groups: Vec::new(),
            packed: Vec::new(),
            rows: Vec::new(),
            numbers: Vec::new(),
        }
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.packed_keys.len()
    }

    /// Bytes of table and keys, for the memory pool.
    pub fn size_bytes(&self) -> usize {
        self.table.size_bytes() + self.packed_keys.capacity() * 8 + self.odd_groups.capacity() * 64
    }

    /// Writes the group number of each row to `groups`.
    pub fn assign(&mut self, keys: &KeyColumns, groups: &mut Vec<usize>) -> Result<()> {
        let rows = keys.rows();
        // Every row may be a new group, and the highest number is reserved for "none".
        if self.len() + rows >= NONE as usize {
            return exec_err!(
                "a group-by has more than {} groups: run it without BigAggregateRule",
                self.len()
            );
        }
        groups.clear();
        let all = self.pack(keys);
        if all {
            self.assign_packed();
            groups.extend(self.numbers.iter().map(|n| *n as usize));
            self.check();
            return Ok(());
        }
        groups.resize(rows, usize::MAX);
        self.assign_packed();
        for (row, number) in self.rows.iter().zip(&self.numbers) {
            groups[*row as usize] = *number as usize;
        }
        for (row, group) in groups.iter_mut().enumerate() {
            if *group == usize::MAX {
                *group = self.odd(keys.key(row)) as usize;
            }
        }
        self.check();
        Ok(())
    }

    /// Checks that every group has exactly one key, in the table or in the list of odd keys.
    fn check(&self) {
        assert_eq!(
            self.table.groups(),
            self.packed_keys.len(),
            "numbers given and keys of groups"
        );
        assert_eq!(self.odd.len(), self.odd_groups.len(), "odd groups");
    }

    /// Packs the keys that fit; returns whether all did.
    ///
    /// If not, `rows` has the rows of the packed ones.
    fn pack(&mut self, keys: &KeyColumns) -> bool {
        self.packed.clear();
        self.rows.clear();
        if self.columns == 1 {
            let column = keys.column(0);
            let Some(nulls) = keys.nulls() else {
                self.packed.extend(column.iter().map(|v| *v as u64));
                return true;
            };
            for row in nulls.valid_indices() {
                self.packed.push(column[row] as u64);
                self.rows.push(row as u32);
            }
            return false;
        }
        let (first, second) = (keys.column(0), keys.column(1));
        let fits = |v: i64| i32::try_from(v).is_ok();
        let pack = |a: i64, b: i64| ((a as u32 as u64) << 32) | b as u32 as u64;
        let narrow = first.iter().zip(second).all(|(a, b)| fits(*a) & fits(*b));
        if narrow && keys.nulls().is_none() {
            let pairs = first.iter().zip(second);
            self.packed.extend(pairs.map(|(a, b)| pack(*a, *b)));
            return true;
        }
        for (row, (a, b)) in first.iter().zip(second).enumerate() {
            if keys.is_valid(row) && fits(*a) && fits(*b) {
                self.packed.push(pack(*a, *b));
                self.rows.push(row as u32);
            }
        }
        false
    }

    fn assign_packed(&mut self) {
        self.numbers.resize(self.packed.len(), 0);
        let mut done = 0;
        while done < self.packed.len() {
            done += self.table.assign(
                &self.packed[done..],
                &mut self.numbers[done..],
                &mut self.packed_keys,
            );
            if done < self.packed.len() {
                self.grow();
            }
        }
    }

    /// Grows the table fourfold, or more if a segment overflows because keys hash unevenly.
    fn grow(&mut self) {
        // Odd groups have numbers but no entry in the table.
        let skipped: Vec<u32> = self.odd_groups.iter().map(|(number, _)| *number).collect();
        // A factor of four bounds all reinsertions together by a third of the final number of keys.
        let mut keys = self.table.capacity() * 4;
        loop {
            // The seed changes with the size, so that keys that collide in one attempt are spread
            // in the next.
            let layout = Layout::for_keys(keys).with_seed(keys as u64);
            let mut larger = empty(layout);
            if larger.refill(&self.packed_keys, &skipped) {
                self.table = larger;
                return;
            }
            keys *= 2;
        }
    }

    fn odd(&mut self, key: OddKey) -> u32 {
        if let Some(number) = self.odd.get(&key) {
            return *number;
        }
        // Odd groups take numbers of the table, so that accumulators see one dense range.
        let number = self.table.skip_number();
        // Keeps `packed_keys` indexed by group number.
        self.packed_keys.push(0);
        self.odd.insert(key, number);
        self.odd_groups.push((number, key));
        number
    }

    /// The key columns of all groups in the order of their numbers.
    pub fn emit(self, types: &[DataType]) -> Result<Vec<ArrayRef>> {
        let keys = &self.packed_keys;
        let mut columns: Vec<Vec<i64>> = if self.columns == 1 {
            vec![keys.iter().map(|k| *k as i64).collect()]
        } else {
            vec![
                keys.iter().map(|k| i64::from((k >> 32) as i32)).collect(),
                keys.iter().map(|k| i64::from(*k as i32)).collect(),
            ]
        };
        let mut nulls: Vec<Option<Vec<bool>>> = vec![None; self.columns];
        for (number, key) in &self.odd_groups {
            for ((column, nulls), value) in columns.iter_mut().zip(&mut nulls).zip(key) {
                match value {
                    Some(value) => column[*number as usize] = *value,
                    None => {
                        nulls.get_or_insert_with(|| vec![true; keys.len()])[*number as usize] =
                            false;
                    }
                }
            }
        }
        columns
            .into_iter()
            .zip(nulls)
            .zip(types)
            .map(|((values, nulls), data_type)| {
                array(data_type, values, nulls.map(NullBuffer::from))
            })
            .collect()
    }
}

/// Converts integers back to an array of the key's type; the inverse of [`KeyColumns::evaluate`].
fn array(data_type: &DataType, values: Vec<i64>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    fn of<T: ArrowPrimitiveType>(
        data_type: &DataType,
        values: Vec<i64>,
        nulls: Option<NullBuffer>,
        narrow: impl Fn(i64) -> T::Native,
    ) -> ArrayRef {
        let values = values.into_iter().map(narrow).collect();
        let array = PrimitiveArray::<T>::new(values, nulls);
        Arc::new(array.with_data_type(data_type.clone()))
    }
    let t = data_type;
    // The values came from columns of this type, so narrowing loses nothing.
    Ok(match data_type {
        DataType::Int8 => of::<Int8Type>(t, values, nulls, |v| v as i8),
        DataType::Int16 => of::<Int16Type>(t, values, nulls, |v| v as i16),
        DataType::Int32 => of::<Int32Type>(t, values, nulls, |v| v as i32),
        DataType::Int64 => of::<Int64Type>(t, values, nulls, |v| v),
        DataType::UInt8 => of::<UInt8Type>(t, values, nulls, |v| v as u8),
        DataType::UInt16 => of::<UInt16Type>(t, values, nulls, |v| v as u16),
        DataType::UInt32 => of::<UInt32Type>(t, values, nulls, |v| v as u32),
        DataType::UInt64 => of::<UInt64Type>(t, values, nulls, |v| v as u64),
        DataType::Date32 => of::<Date32Type>(t, values, nulls, |v| v as i32),
        DataType::Date64 => of::<Date64Type>(t, values, nulls, |v| v),
        DataType::Timestamp(TimeUnit::Second, _) => {
            of::<TimestampSecondType>(t, values, nulls, |v| v)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            of::<TimestampMillisecondType>(t, values, nulls, |v| v)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            of::<TimestampMicrosecondType>(t, values, nulls, |v| v)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            of::<TimestampNanosecondType>(t, values, nulls, |v| v)
        }
        other => return internal_err!("{other} is no type of an integer key"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, Int64Array, RecordBatch};
    use arrow::datatypes::{Field, Schema};
    use datafusion::physical_expr::expressions::Column;

    /// Group numbers of the rows and key columns of the groups.
    fn grouped(columns: &[Vec<Option<i64>>]) -> (Vec<usize>, Vec<ArrayRef>) {
        let fields: Vec<Field> = (0..columns.len())
            .map(|i| Field::new(format!("c{i}"), DataType::Int64, true))
            .collect();
        let arrays = columns
            .iter()
            .map(|c| Arc::new(Int64Array::from(c.clone())) as ArrayRef);
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays.collect()).unwrap();
        let on: Vec<_> = (0..columns.len())
            .map(|i| Arc::new(Column::new(&format!("c{i}"), i)) as _)
            .collect();
        let mut groups = Groups::new(columns.len());
        let (mut all, mut some) = (Vec::new(), Vec::new());
        for start in (0..batch.num_rows()).step_by(1000) {
            let part = batch.slice(start, 1000.min(batch.num_rows() - start));
            let keys = KeyColumns::evaluate(&on, &part).unwrap();
            groups.assign(&keys, &mut some).unwrap();
            all.extend_from_slice(&some);
        }
        let types = vec![DataType::Int64; columns.len()];
        (all, groups.emit(&types).unwrap())
    }

    #[test]
    fn null_wide_and_many_keys_keep_their_groups_apart() {
        let some = |row: i64| (row % 7 != 0).then_some(row % 40_000);
        let wide = |row: i64| (row % 11 != 0).then_some((row % 50) << 40);
        let rows = 0..90_000_i64;
        let one = vec![rows.clone().map(some).collect::<Vec<_>>()];
        let two = vec![one[0].clone(), rows.map(wide).collect()];
        for columns in [one, two] {
            let (groups, keys) = grouped(&columns);
            let mut seen: HashMap<Vec<Option<i64>>, usize> = HashMap::new();
            for (row, group) in groups.iter().enumerate() {
                let key: Vec<Option<i64>> = columns.iter().map(|c| c[row]).collect();
                for (value, column) in key.iter().zip(&keys) {
                    let column = column.as_any().downcast_ref::<Int64Array>().unwrap();
                    let there = column.is_valid(*group).then(|| column.value(*group));
                    assert_eq!(there, *value, "row {row}");
                }
                assert_eq!(*seen.entry(key).or_insert(*group), *group, "row {row}");
            }
            assert_eq!(seen.len(), keys[0].len());
        }
    }
}
