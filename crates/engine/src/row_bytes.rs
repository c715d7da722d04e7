//! Bytes of the rows of batches, whose buffers may be those of whole tables.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;

/// Bytes of a string view.
const VIEW_BYTES: u64 = 16;

/// Bytes of a column's rows alone; 0 for types whose slices have no size of their own.
pub(crate) fn rows_bytes(column: &ArrayRef) -> u64 {
    let views = column.len() as u64 * VIEW_BYTES;
    match column.data_type() {
        DataType::Utf8View => views + column.as_string_view().total_buffer_bytes_used() as u64,
        DataType::BinaryView => views + column.as_binary_view().total_buffer_bytes_used() as u64,
        _ => column.to_data().get_slice_memory_size().unwrap_or(0) as u64,
    }
}

/// How many rows of a batch, at least one, make a message of about `most_bytes`, by the average of
/// its rows.
pub fn rows_at_once(batch: &RecordBatch, most_bytes: u64) -> usize {
    let bytes: u64 = batch.columns().iter().map(rows_bytes).sum();
    let messages = bytes.div_ceil(most_bytes).max(1);
    batch.num_rows().div_ceil(messages as usize).max(1)
}
