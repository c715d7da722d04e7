//! Strings or byte strings by number, and the comparison of a batch with them.

use arrow::array::builder::make_view;
use arrow::array::{Array, ByteView, GenericByteViewArray, MAX_INLINE_VIEW_LEN};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::ByteViewType;
use datafusion::common::Result;
use std::marker::PhantomData;
use tierloom_kernels::prefetch_read;

/// In place of the view of a NULL: no value is as long as its length says.
const NULL_VIEW: u128 = u128::MAX;

/// Rows whose values are loaded and then compared together.
const TOGETHER: usize = 64;

/// Bytes of the first block, and of the largest but for longer values.
const BLOCK_BYTES: [usize; 2] = [8 << 10, 2 << 20];

/// Values in the order of their numbers.
pub(super) struct KeptViews<T: ByteViewType> {
    views: Vec<u128>,
    /// Values that their views do not hold.
    blocks: Vec<Vec<u8>>,
    values: PhantomData<T>,
}

/// The length of a view's value.
pub(super) fn view_bytes(view: u128) -> u32 {
    view as u32
}

impl<T: ByteViewType> KeptViews<T> {
    pub fn new() -> Self {
        KeptViews {
            views: Vec::new(),
            blocks: Vec::new(),
            values: PhantomData,
        }
    }

    /// How many values and NULLs there are.
    pub fn len(&self) -> usize {
        self.views.len()
    }

    pub fn append_null(&mut self) {
        self.views.push(NULL_VIEW);
    }

    pub fn append_value(&mut self, value: &[u8]) {
        if value.len() <= MAX_INLINE_VIEW_LEN as usize {
            return self.views.push(make_view(value, 0, 0));
        }
        let has_room = |block: &&mut Vec<u8>| block.capacity() - block.len() >= value.len();
        if self.blocks.last_mut().filter(has_room).is_none() {
            let [first, largest] = BLOCK_BYTES;
            let next = self.blocks.last().map_or(first, |b| b.capacity() * 2);
            let size = next.min(largest).max(value.len());
            self.blocks.push(Vec::with_capacity(size));
        }
        let number = self.blocks.len() as u32 - 1;
        if let Some(block) = self.blocks.last_mut() {
            self.views
                .push(make_view(value, number, block.len() as u32));
            block.extend_from_slice(value);
        }
    }

    /// Appends rows of an array.
    pub fn append(&mut self, array: &GenericByteViewArray<T>, rows: &[u32]) {
        for row in rows.iter().map(|row| *row as usize) {
            match array.is_null(row) {
                true => self.append_null(),
                false => self.append_value(array.value(row).as_ref()),
            }
        }
    }

    /// The bytes of a view that does not hold them.
    fn long(&self, view: u128) -> &[u8] {
        let view = ByteView::from(view);
        let (start, length) = (view.offset as usize, view.length as usize);
        &self.blocks[view.buffer_index as usize][start..start + length]
    }

    /// Calls `differs` with the position of each of `numbers` whose value is not that of the row at
    /// this position; `row_of` gives `None` where it is known to be.
    pub fn compare(
        &self,
        array: &GenericByteViewArray<T>,
        numbers: &[u32],
        row_of: impl Fn(usize) -> Option<usize>,
        mut differs: impl FnMut(usize),
    ) {
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        let views = array.views();
        let mut long = Vec::with_capacity(TOGETHER);
        for (chunk, some) in numbers.chunks(TOGETHER).enumerate() {
            for number in some {
                prefetch_read(&self.views, *number as usize);
            }
            for (at, number) in (chunk * TOGETHER..).zip(some) {
                let Some(row) = row_of(at) else {
                    continue;
                };
                let (stored, view) = (self.views[*number as usize], views[row]);
                if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                    if stored != NULL_VIEW {
                        differs(at);
                    }
                } else if view_bytes(view) <= MAX_INLINE_VIEW_LEN {
                    if stored != view {
                        differs(at);
                    }
                } else if stored as u64 != view as u64 {
                    // Another length, or other first bytes.
                    differs(at);
                } else {
                    let bytes = self.long(stored);
                    prefetch_read(bytes, 0);
                    long.push((at, row, bytes));
                }
            }
            for (at, row, bytes) in long.drain(..) {
                let value: &[u8] = array.value(row).as_ref();
                if value != bytes {
                    differs(at);
                }
            }
        }
    }

    pub fn size_bytes(&self) -> usize {
        let blocks: usize = self.blocks.iter().map(Vec::capacity).sum();
        self.views.capacity() * size_of::<u128>() + blocks
    }

    /// All values.
    ///
    /// # Errors
    /// Arrow's, for bytes that are no strings; they came from arrays of the same type.
    pub fn finish(mut self) -> Result<GenericByteViewArray<T>> {
        let valid: NullBuffer = self.views.iter().map(|view| *view != NULL_VIEW).collect();
        let nulls = (valid.null_count() > 0).then_some(valid);
        if nulls.is_some() {
            let null = self.views.iter_mut().filter(|view| **view == NULL_VIEW);
            null.for_each(|view| *view = 0);
        }
        let blocks = self.blocks.into_iter().map(Buffer::from_vec);
        let views = ScalarBuffer::from(self.views);
        Ok(GenericByteViewArray::try_new(
            views,
            blocks.collect::<Vec<_>>(),
            nulls,
        )?)
    }
}
