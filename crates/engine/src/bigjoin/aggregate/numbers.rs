//! Dense numbers for 64-bit keys, strings and integers of any width.
//!
//! All of them look up whole batches in `kernels::hash::GroupTable`.

use super::kept_views::KeptViews;
use crate::bigjoin::storage::Storage;
use arrow::array::{Array, ArrayRef, AsArray, GenericByteViewArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{ByteViewType, DataType, StringViewType};
use datafusion::common::{Result, exec_err, internal_err};
use foldhash::quality::RandomState;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::ops::{Deref, DerefMut};
use tierloom_kernels::hash::{Bucket, GroupTable, Layout, NONE};

/// Initial capacity: a table of 256 KiB.
const FIRST_KEYS: usize = 12 << 10;

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
    GroupTable::in_zeroed(layout, Buckets { storage, len })
}

/// Numbers distinct 64-bit keys in the order of their first appearance.
pub(super) struct Numbers {
    table: GroupTable<Buckets>,
    /// Key by number; arbitrary for numbers without a key.
    keys: Vec<u64>,
    /// Numbers without a key, ascending.
    skipped: Vec<u32>,
}

impl Numbers {
    pub fn new() -> Self {
        Self::for_keys(0)
    }

    /// A table with room for about `keys` keys.
    pub fn for_keys(keys: usize) -> Self {
        Self {
            table: empty(Layout::for_keys(keys.max(FIRST_KEYS))),
            keys: Vec::new(),
            skipped: Vec::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// The key of each number.
    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    pub fn size_bytes(&self) -> usize {
        self.table.size_bytes() + self.keys.capacity() * 8
    }

    /// Writes the number of each key to `numbers`.
    ///
    /// # Errors
    /// If the numbers would exceed 32 bits.
    pub fn assign(&mut self, keys: &[u64], numbers: &mut Vec<u32>) -> Result<()> {
        self.expect_room(keys.len())?;
        numbers.clear();
        numbers.resize(keys.len(), 0);
        let mut done = 0;
        while done < keys.len() {
            done += self
                .table
                .assign(&keys[done..], &mut numbers[done..], &mut self.keys);
            if done < keys.len() {
                self.grow();
            }
        }
        let (given, kept) = (self.table.groups(), self.keys.len());
        assert_eq!(given, kept, "numbers given and keys kept");
        Ok(())
    }

    /// A new number without a key.
    ///
    /// # Errors
    /// If the numbers would exceed 32 bits.
    pub fn skip(&mut self) -> Result<u32> {
        self.expect_room(1)?;
        let number = self.table.skip_number();
        // Keeps `keys` indexed by number.
        self.keys.push(0);
        self.skipped.push(number);
        Ok(number)
    }

    /// Every row may be new, and the highest number is reserved for "none".
    fn expect_room(&self, rows: usize) -> Result<()> {
        if self.len() + rows >= NONE as usize {
            return exec_err!("a group-by has more than {} groups", self.len());
        }
        Ok(())
    }

    /// Grows the table fourfold, or more if a segment overflows because keys hash unevenly.
    fn grow(&mut self) {
        // A factor of four bounds all reinsertions together by a third of the final number of keys.
        let mut keys = self.table.capacity() * 4;
        loop {
            // The seed changes with the size, so that keys that collide in one attempt are spread
            // in the next.
            let layout = Layout::for_keys(keys).with_seed(keys as u64);
            let mut larger = empty(layout);
            if larger.refill(&self.keys, &self.skipped) {
                self.table = larger;
                return;
            }
            keys *= 2;
        }
    }
}

/// Numbers integers, and NULL, in about the order of their first appearance.
pub(super) struct IntegerNumbers {
    numbers: Numbers,
    null: Option<u32>,
    scratch: Scratch,
}

/// Buffers of the current batch.
#[derive(Default)]
struct Scratch {
    keys: Vec<u64>,
    rows: Vec<u32>,
    numbers: Vec<u32>,
}

impl IntegerNumbers {
    pub fn new() -> Self {
        Self {
            numbers: Numbers::new(),
            null: None,
            scratch: Scratch::default(),
        }
    }

    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    pub fn size_bytes(&self) -> usize {
        self.numbers.size_bytes()
    }

    /// The integer of a number; `None` for NULL.
    pub fn value(&self, number: u32) -> Option<i64> {
        (self.null != Some(number)).then(|| self.numbers.keys()[number as usize] as i64)
    }

    /// Writes the number of each row to `numbers`.
    ///
    /// # Errors
    /// If the numbers would exceed 32 bits.
    pub fn assign(
        &mut self,
        values: &[i64],
        nulls: Option<&NullBuffer>,
        numbers: &mut Vec<u32>,
    ) -> Result<()> {
        let Self {
            numbers: table,
            null,
            scratch,
        } = self;
        scratch.keys.clear();
        let Some(nulls) = nulls.filter(|n| n.null_count() > 0) else {
            scratch.keys.extend(values.iter().map(|v| *v as u64));
            return table.assign(&scratch.keys, numbers);
        };
        let valid = nulls.valid_indices();
        scratch.keys.extend(valid.map(|row| values[row] as u64));
        table.assign(&scratch.keys, &mut scratch.numbers)?;
        spread(
            nulls,
            &scratch.numbers,
            number_of_null(table, null)?,
            numbers,
        );
        Ok(())
    }
}

impl IntegerNumbers {
    /// The numbers of `values`; those of new ones are in the order of the values, NULL included.
    ///
    /// # Errors
    /// If the numbers would exceed 32 bits.
    pub fn assign_in_order(&mut self, values: &[Option<i64>]) -> Result<Vec<u32>> {
        let (mut all, mut some) = (Vec::with_capacity(values.len()), Vec::new());
        for (index, part) in values.split(Option::is_none).enumerate() {
            if index > 0 {
                all.push(number_of_null(&mut self.numbers, &mut self.null)?);
            }
            let part: Vec<i64> = part.iter().copied().flatten().collect();
            self.assign(&part, None, &mut some)?;
            all.extend_from_slice(&some);
        }
        Ok(all)
    }
}

/// The positions in `numbers` of those that were new, where `kept` were given before.
pub(super) fn new_among(numbers: &[u32], kept: usize) -> impl Iterator<Item = usize> {
    // Numbers are given in the order of rows, so the next one is the smallest new one.
    let mut next = kept;
    numbers.iter().enumerate().filter_map(move |(at, number)| {
        let is_new = *number as usize == next;
        next += usize::from(is_new);
        is_new.then_some(at)
    })
}

fn number_of_null(table: &mut Numbers, null: &mut Option<u32>) -> Result<u32> {
    Ok(match *null {
        Some(number) => number,
        None => *null.insert(table.skip()?),
    })
}

/// The numbers of all rows, from those of the valid ones and the one of NULL.
fn spread(nulls: &NullBuffer, of_valid: &[u32], of_null: u32, numbers: &mut Vec<u32>) {
    numbers.clear();
    numbers.resize(nulls.len(), of_null);
    for (row, number) in nulls.valid_indices().zip(of_valid) {
        numbers[row] = *number;
    }
}

/// Numbers strings or byte strings, and NULL, in about the order of their first appearance.
///
/// A key of up to seven bytes is its own 64-bit key. Longer ones are found by their hash and then
/// compared.
pub(crate) struct TextNumbers<T: ByteViewType, H = RandomState> {
    numbers: Numbers,
    /// Value by number.
    values: KeptViews<T>,
    null: Option<u32>,
    /// Values whose hash is that of another value.
    same_hash: HashMap<Box<[u8]>, u32>,
    hasher: H,
    scratch: Scratch,
}

/// Set in the keys of values that are longer than seven bytes: the others have their length there.
pub(crate) const IS_HASH: u64 = 1 << 63;

impl<T: ByteViewType, H: BuildHasher + Default> TextNumbers<T, H> {
    pub fn new() -> Self {
        Self {
            numbers: Numbers::new(),
            values: KeptViews::new(),
            null: None,
            same_hash: HashMap::new(),
            hasher: H::default(),
            scratch: Scratch::default(),
        }
    }

    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    pub fn size_bytes(&self) -> usize {
        self.numbers.size_bytes() + self.values.size_bytes()
    }

    /// The values by number; NULL where a number is that of NULL.
    ///
    /// # Errors
    /// Arrow's, from making an array.
    pub fn into_values(self) -> Result<GenericByteViewArray<T>> {
        self.values.finish()
    }

    /// Writes the number of each row to `numbers`.
    ///
    /// # Errors
    /// If the numbers would exceed 32 bits.
    pub fn assign(
        &mut self,
        array: &GenericByteViewArray<T>,
        numbers: &mut Vec<u32>,
    ) -> Result<()> {
        let nulls = array.nulls().filter(|n| n.null_count() > 0).cloned();
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.keys.clear();
        scratch.rows.clear();
        match &nulls {
            None => scratch.rows.extend(0..array.len() as u32),
            Some(nulls) => scratch
                .rows
                .extend(nulls.valid_indices().map(|row| row as u32)),
        }
        let keys = scratch.rows.iter().map(|row| {
            let value: &[u8] = array.value(*row as usize).as_ref();
            text_code(value, &self.hasher)
        });
        scratch.keys.extend(keys);
        self.numbers.assign(&scratch.keys, &mut scratch.numbers)?;
        self.settle(array, &mut scratch)?;
        match &nulls {
            None => std::mem::swap(numbers, &mut scratch.numbers),
            Some(nulls) => {
                if self.null.is_none() {
                    self.values.append_null();
                }
                let null = number_of_null(&mut self.numbers, &mut self.null)?;
                spread(nulls, &scratch.numbers, null, numbers);
            }
        }
        self.scratch = scratch;
        Ok(())
    }

    /// Keeps the values of new numbers, and gives values with the hash of another one their number.
    fn settle(&mut self, array: &GenericByteViewArray<T>, scratch: &mut Scratch) -> Result<()> {
        for at in new_among(&scratch.numbers, self.values.len()) {
            let row = scratch.rows[at] as usize;
            self.values.append_value(array.value(row).as_ref());
        }
        let Scratch {
            keys,
            rows,
            numbers,
        } = &*scratch;
        let mut strangers = Vec::new();
        // Short values are their own keys.
        let row_of = |index: usize| (keys[index] & IS_HASH != 0).then(|| rows[index] as usize);
        let differs = |index| strangers.push(index);
        self.values.compare(array, numbers, row_of, differs);
        for index in strangers {
            let value = array.value(scratch.rows[index] as usize);
            let bytes: &[u8] = value.as_ref();
            scratch.numbers[index] = match self.same_hash.get(bytes) {
                Some(number) => *number,
                None => {
                    let number = self.numbers.skip()?;
                    self.values.append_value(bytes);
                    self.same_hash.insert(bytes.into(), number);
                    number
                }
            };
        }
        Ok(())
    }
}

impl TextNumbers<StringViewType> {
    /// [`Self::assign`] for strings of any type.
    ///
    /// # Errors
    /// If the numbers would exceed 32 bits, or the array has no strings.
    pub fn assign_strings(&mut self, array: &ArrayRef, numbers: &mut Vec<u32>) -> Result<()> {
        if !array.data_type().is_string() {
            return internal_err!("a string column became {}", array.data_type());
        }
        let views = cast(array, &DataType::Utf8View)?;
        self.assign(views.as_string_view(), numbers)
    }
}

/// A number for a string: of up to seven bytes its own, and else a hash with [`IS_HASH`].
pub(crate) fn text_code(value: &[u8], hasher: &impl BuildHasher) -> u64 {
    short_key(value).unwrap_or_else(|| hasher.hash_one(value) | IS_HASH)
}

/// The bytes and length of a value of at most seven bytes.
fn short_key(value: &[u8]) -> Option<u64> {
    if value.len() > 7 {
        return None;
    }
    let mut bytes = [0; 8];
    bytes[..value.len()].copy_from_slice(value);
    bytes[7] = value.len() as u8;
    Some(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::super::one_hash::Same;
    use super::*;
    use arrow::array::StringViewArray;

    #[test]
    fn long_strings_with_the_same_hash_stay_apart() {
        let mut table = TextNumbers::<StringViewType, Same>::new();
        let mut numbers = Vec::new();
        let mut all = Vec::new();
        let long = |row: usize| match row % 5 {
            0 => None,
            1 => Some("short".to_owned()),
            n => Some(format!("a long string {n} {}", row % 3)),
        };
        for start in (0..300).step_by(7) {
            let rows: Vec<_> = (start..start + 7).map(long).collect();
            table
                .assign(&StringViewArray::from_iter(rows), &mut numbers)
                .unwrap();
            all.extend_from_slice(&numbers);
        }
        // NULL, the short string, and three times three long ones.
        assert_eq!(table.len(), 11);
        let values = table.into_values().unwrap();
        for (row, number) in all.iter().enumerate() {
            let value = values.iter().nth(*number as usize).flatten();
            assert_eq!(value, long(row).as_deref(), "row {row}");
        }
    }
}
