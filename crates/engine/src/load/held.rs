//! The memory that batches hold while they are loaded.

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use std::collections::HashSet;

/// Bytes of a view.
const VIEW_BYTES: u64 = 16;

/// What the batches so far hold.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Where allocations begin that are counted: the columns of a batch that was read from a file
    /// share one.
    counted: HashSet<usize>,
    bytes: u64,
    /// What the rows of each column take, whoever else shares their buffers.
    by_column: Vec<u64>,
}

impl Held {
    /// Counts a batch. The batches before are still there, so that an address stands for one
    /// allocation.
    pub fn add(&mut self, batch: &RecordBatch) {
        self.by_column.resize(batch.num_columns(), 0);
        for (sum, column) in self.by_column.iter_mut().zip(batch.columns()) {
            *sum += rows_bytes(column);
            count_buffers(&column.to_data(), &mut |start, bytes| {
                if self.counted.insert(start) {
                    self.bytes += bytes;
                }
            });
        }
    }

    /// Bytes of all allocations, each counted once. What belongs to somebody else (a placed column)
    /// is not in them.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The column whose rows take most, and their bytes.
    pub fn largest(&self) -> Option<(usize, u64)> {
        let all = self.by_column.iter().copied().enumerate();
        all.max_by_key(|(_, bytes)| *bytes)
    }
}

fn count_buffers(data: &ArrayData, see: &mut impl FnMut(usize, u64)) {
    let nulls = data.nulls().map(|nulls| nulls.buffer());
    for buffer in data.buffers().iter().chain(nulls) {
        see(buffer.data_ptr().addr().get(), buffer.capacity() as u64);
    }
    for child in data.child_data() {
        count_buffers(child, see);
    }
}

/// Bytes of a column's rows alone.
fn rows_bytes(column: &ArrayRef) -> u64 {
    let views = column.len() as u64 * VIEW_BYTES;
    match column.data_type() {
        DataType::Utf8View => views + column.as_string_view().total_buffer_bytes_used() as u64,
        DataType::BinaryView => views + column.as_binary_view().total_buffer_bytes_used() as u64,
        _ => column.to_data().get_slice_memory_size().unwrap_or(0) as u64,
    }
}
