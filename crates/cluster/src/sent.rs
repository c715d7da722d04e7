//! Rows as nodes send them.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{DataFusionError, Result};
use std::sync::Arc;
use tierloom_engine::rows_at_once;

/// Rows per batch and morsel on a node.
pub(crate) const BATCH_ROWS: usize = 16 * 1024;

/// Most bytes of a piece, by the average of its rows: far below the largest message.
const PIECE_BYTES: u64 = 4 << 20;

/// The rows of `batch` under the names of `schema`, in pieces that are encoded without what they
/// do not have.
///
/// Rows of a text column refer to the text of a whole table, or of all groups, and each message
/// has all that its columns refer to. An operator may give millions of rows at once.
pub(crate) fn pieces(
    batch: RecordBatch,
    schema: SchemaRef,
) -> impl Iterator<Item = Result<RecordBatch>> {
    let most = rows_at_once(&batch, PIECE_BYTES).min(BATCH_ROWS);
    let count = batch.num_rows().div_ceil(most).max(1);
    (0..count).map(move |piece| {
        let first = piece * most;
        let rows = most.min(batch.num_rows() - first);
        let columns = batch.columns().iter();
        let columns = columns.map(|column| compact(&column.slice(first, rows)));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&schema);
        RecordBatch::try_new_with_options(schema, columns.collect(), &options)
            .map_err(DataFusionError::from)
    })
}

/// The column without text that its rows do not have.
fn compact(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => Arc::clone(column),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{StringArray, StringViewArray};
    use arrow::compute::concat_batches;

    /// Rows with one text column, and what the messages for some of them refer to.
    fn rows(count: usize) -> RecordBatch {
        let long = |row: usize| format!("the comment of row number {row}");
        let text: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..count).map(long)));
        RecordBatch::try_from_iter([("text", text)]).unwrap()
    }

    fn bytes(batch: &RecordBatch) -> usize {
        let buffers = batch.column(0).as_string_view().data_buffers().iter();
        buffers.map(|buffer| buffer.len()).sum()
    }

    fn sent(batch: &RecordBatch) -> Vec<RecordBatch> {
        let pieces = pieces(batch.clone(), batch.schema());
        pieces.collect::<Result<_>>().unwrap()
    }

    #[test]
    fn a_few_rows_of_a_text_column_are_sent_without_the_text_of_the_others() {
        let some = rows(1000).slice(500, 2);
        assert!(bytes(&some) > 20_000, "{}", bytes(&some));
        let sent = sent(&some);
        assert_eq!(sent, [some]);
        assert!(bytes(&sent[0]) < 100, "{}", bytes(&sent[0]));
    }

    #[test]
    fn many_rows_at_once_send_their_text_once() {
        let all = rows(5 * BATCH_ROWS + 1);
        let sent = sent(&all);
        assert_eq!(sent.len(), 6);
        assert_eq!(concat_batches(&all.schema(), &sent).unwrap(), all);
        let each: Vec<usize> = sent.iter().map(bytes).collect();
        assert_eq!(each.iter().sum::<usize>(), bytes(&all), "{each:?}");
        assert!(sent.iter().all(|piece| piece.num_rows() <= BATCH_ROWS));
    }

    #[test]
    fn pieces_of_long_rows_are_far_smaller_than_the_largest_message() {
        let long = "x".repeat(100_000);
        let text: ArrayRef = Arc::new(StringViewArray::from_iter_values(vec![&long; 100]));
        let strings: ArrayRef = Arc::new(StringArray::from_iter_values(vec![&long; 100]));
        for column in [text, strings] {
            let all = RecordBatch::try_from_iter([("text", column)]).unwrap();
            let sent = sent(&all);
            assert_eq!(concat_batches(&all.schema(), &sent).unwrap(), all);
            let most = sent.iter().map(RecordBatch::num_rows).max().unwrap();
            assert!(
                (most * long.len()) as u64 <= PIECE_BYTES && sent.len() < 5,
                "{most}"
            );
        }
    }

    #[test]
    fn no_rows_and_rows_without_columns_are_sent_too() {
        let none = rows(3).slice(1, 0);
        assert_eq!(sent(&none), [none]);
        let options = RecordBatchOptions::new().with_row_count(Some(BATCH_ROWS + 7));
        let counted = RecordBatch::try_new_with_options(
            arrow::datatypes::Schema::empty().into(),
            Vec::new(),
            &options,
        );
        let counts = sent(&counted.unwrap());
        let counts: Vec<usize> = counts.iter().map(RecordBatch::num_rows).collect();
        assert_eq!(counts, [BATCH_ROWS, 7]);
    }
}
