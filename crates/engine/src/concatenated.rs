//! Columns of many batches as one.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::concat;
use datafusion::common::Result;
use std::sync::Arc;

/// Most bytes of lists of buffers: an array of views has a list of the buffers that it views, and
/// so has each batch that is taken from it.
const MOST_LIST_BYTES: usize = 64 << 20;

/// Size of a buffer in such a list, in bytes.
const LISTED_BYTES: usize = 24;

/// Concatenates `parts`, of which as many batches will be taken as there are parts.
///
/// Their strings are copied together if the lists of their buffers would take more than they.
///
/// # Errors
/// Arrow's.
pub(crate) fn concatenated(parts: &[&dyn Array]) -> Result<ArrayRef> {
    let whole = concat(parts)?;
    let are_many =
        |buffers: usize| buffers.saturating_mul(parts.len()) > MOST_LIST_BYTES / LISTED_BYTES;
    if let Some(views) = whole
        .as_string_view_opt()
        .filter(|v| are_many(v.data_buffers().len()))
    {
        return Ok(Arc::new(views.gc()));
    }
    if let Some(views) = whole
        .as_binary_view_opt()
        .filter(|v| are_many(v.data_buffers().len()))
    {
        return Ok(Arc::new(views.gc()));
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BinaryViewArray, StringViewArray};

    #[test]
    fn strings_of_very_many_batches_are_in_few_buffers() {
        let text = |at: usize| format!("a string of more than twelve bytes, {at}");
        for (parts, buffers) in [(3, 3), (3_000, 1)] {
            let strings = (0..parts).map(|at| StringViewArray::from_iter_values([text(at)]));
            let strings: Vec<StringViewArray> = strings.collect();
            let arrays: Vec<&dyn Array> = strings.iter().map(|s| s as &dyn Array).collect();
            let whole = concatenated(&arrays).unwrap();
            let whole = whole.as_string_view();
            assert_eq!(whole.data_buffers().len(), buffers);
            assert!((0..parts).all(|at| whole.value(at) == text(at)));
            let bytes = (0..parts).map(|at| BinaryViewArray::from_iter_values([text(at)]));
            let bytes: Vec<BinaryViewArray> = bytes.collect();
            let arrays: Vec<&dyn Array> = bytes.iter().map(|s| s as &dyn Array).collect();
            let whole = concatenated(&arrays).unwrap();
            let whole = whole.as_binary_view();
            assert_eq!(whole.data_buffers().len(), buffers);
            assert!((0..parts).all(|at| whole.value(at) == text(at).as_bytes()));
        }
    }
}
