//! Joins that compare every row with every row, in pieces between which they can be stopped.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use futures::{Stream, StreamExt};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tierloom_corrections::{PassThrough, Walk};

/// Operators that may work for long on one batch of their right input.
const MULTIPLYING: [&str; 2] = ["CrossJoinExec", "NestedLoopJoinExec"];

/// Rows of the first piece, and of a piece at most.
const FIRST_ROWS: usize = 16;
const MOST_ROWS: usize = 1024;

/// How long a join should take for a piece: how many rows that is depends on its other side, which
/// may have a few or millions. Pieces are half as large after one that took longer, and twice as
/// large after one that was quicker than a fifth of it.
const PIECE_TIME: Duration = Duration::from_millis(100);

/// Returns the batches of its input in pieces, and is not ready once before each.
static PIECES: PassThrough = PassThrough {
    name: "PiecesExec",
    hides_values: false,
    stream: |input| {
        Box::pin(Pieces {
            input,
            rest: None,
            rows: FIRST_ROWS,
            given: None,
            paused: false,
        })
    },
};

/// Lets joins without keys yield to other tasks and to cancellation, after every batch that they
/// return and after every piece of their right input.
///
/// # Errors
/// DataFusion's, if an operator does not take its new input.
pub fn with_pauses(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let mut pause = |node: Arc<dyn ExecutionPlan>| {
        if !MULTIPLYING.contains(&node.name()) {
            return Ok(Transformed::no(node));
        }
        let inputs: Vec<Arc<dyn ExecutionPlan>> = node.children().into_iter().cloned().collect();
        let [left, right] = inputs.as_slice() else {
            return Ok(Transformed::no(node));
        };
        let pieces = in_pieces(Arc::clone(right));
        let same = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        let join = Arc::clone(&node).replace_children(vec![Arc::clone(left), pieces], same)?;
        let paused: Arc<dyn ExecutionPlan> = Arc::new(CooperativeExec::new(join));
        Ok(Transformed::yes(paused))
    };
    plan.up(&mut pause).data()
}

/// An operator that gives the batches of `input` in pieces, between which the one above it can be
/// stopped.
pub fn in_pieces(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    PIECES.over(input)
}

/// Whether an operator is one that [`in_pieces`] makes.
pub fn is_in_pieces(node: &dyn ExecutionPlan) -> bool {
    node.name() == PIECES.name
}

/// Batches in pieces, none of which is ready when it is first asked for.
struct Pieces {
    input: SendableRecordBatchStream,
    /// What is left of the last batch.
    rest: Option<RecordBatch>,
    /// Rows of the next piece.
    rows: usize,
    /// When the last piece was given.
    given: Option<Instant>,
    /// Whether it was not ready before this piece.
    paused: bool,
}

impl Stream for Pieces {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !std::mem::replace(&mut self.paused, true) {
            if let Some(given) = self.given.take() {
                self.rows = next_rows(self.rows, given.elapsed());
            }
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.rest.is_none() {
            match std::task::ready!(self.input.poll_next_unpin(context)) {
                Some(Ok(batch)) => self.rest = Some(batch),
                other => return Poll::Ready(other),
            }
        }
        self.paused = false;
        let Some(batch) = self.rest.take() else {
            return Poll::Ready(None);
        };
        self.given = Some(Instant::now());
        let rows = self.rows;
        if batch.num_rows() <= rows {
            return Poll::Ready(Some(Ok(batch)));
        }
        self.rest = Some(batch.slice(rows, batch.num_rows() - rows));
        Poll::Ready(Some(Ok(batch.slice(0, rows))))
    }
}

/// Rows of the piece after one of `rows` rows, for which the join took `time`.
fn next_rows(rows: usize, time: Duration) -> usize {
    match time {
        long if long > PIECE_TIME => (rows / 2).max(1),
        short if short < PIECE_TIME / 5 => (rows * 2).min(MOST_ROWS),
        _ => rows,
    }
}

impl RecordBatchStream for Pieces {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_grow_until_they_take_their_time_and_shrink_to_one_row() {
        let after = |rows, millis| next_rows(rows, Duration::from_millis(millis));
        assert_eq!(
            (after(16, 1), after(1024, 1), after(600, 1)),
            (32, 1024, 1024)
        );
        assert_eq!((after(16, 50), after(16, 5000), after(1, 5000)), (16, 8, 1));
    }
}
