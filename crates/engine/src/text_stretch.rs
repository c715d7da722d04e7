//! The strings of a batch that follow each other in memory.

use arrow::array::{ByteView, MAX_INLINE_VIEW_LEN, StringViewArray};

/// Bytes from the first row of a batch to the last, to those of its rows, up to which one pass
/// through all of them is quicker than one per row, each of which begins at other cache lines.
const MOST_SPREAD: u64 = 16;

/// The part of a buffer that ends with the last row, and where the first row starts, of those rows
/// that are not in their views.
///
/// `None` unless the rows follow each other in one buffer, and most of the stretch is theirs.
pub(crate) fn stretch(array: &StringViewArray) -> Option<(&[u8], usize)> {
    let views = array.views().iter().map(|view| ByteView::from(*view));
    let mut long = views.filter(|view| view.length > MAX_INLINE_VIEW_LEN);
    let after = |view: &ByteView| u64::from(view.offset) + u64::from(view.length);
    let Some(first) = long.next() else {
        return Some((&[], 0));
    };
    let (mut end, mut bytes) = (after(&first), u64::from(first.length));
    for view in long {
        if view.buffer_index != first.buffer_index || u64::from(view.offset) < end {
            return None;
        }
        end = after(&view);
        bytes += u64::from(view.length);
    }
    if end - u64::from(first.offset) > MOST_SPREAD * bytes {
        return None;
    }
    let buffer = array.data_buffers().get(first.buffer_index as usize)?;
    Some((buffer.get(..end as usize)?, first.offset as usize))
}
