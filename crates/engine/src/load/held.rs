//! Memory held by batches during a load.
//!
//! Arrow arrays share buffers: the columns of a batch that was read from a file often point into
//! one allocation. Adding up the sizes of arrays would count it several times, so allocations are
//! identified by address.

use crate::row_bytes::rows_bytes;
use arrow::array::{Array, ArrayData, RecordBatch};
use std::collections::HashSet;

/// Memory held by the batches so far.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Addresses of counted allocations: the columns of a batch read from a file share one.
    counted: HashSet<usize>,
    bytes: u64,
    /// Bytes of the rows of each column, ignoring shared buffers.
    by_column: Vec<u64>,
}

impl Held {
    /// Counts a batch. Earlier batches are still alive, so an address identifies an allocation.
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

    /// Bytes of all allocations, each counted once; placed columns are not included.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The column whose rows take the most bytes.
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
