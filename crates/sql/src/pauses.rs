//! Joins that compare every row with every row, in pieces between which they can be stopped.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use futures::{Stream, StreamExt};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tierloom_corrections::PassThrough;

/// Operators that may work for long on one batch of their right input.
const MULTIPLYING: [&str; 2] = ["CrossJoinExec", "NestedLoopJoinExec"];

/// Rows of a piece: few enough that a comparison with millions of rows takes a second.
const PIECE_ROWS: usize = 1024;

/// Returns the batches of its input in pieces, and is not ready once before each.
static PIECES: PassThrough = PassThrough {
    name: "PiecesExec",
    hides_values: false,
    stream: |input| {
        Box::pin(Pieces {
            input,
            rest: None,
            paused: false,
        })
    },
};

/// Lets joins without keys yield to other tasks and to cancellation, after every batch that they
/// return and after every piece of their right input.
///
/// # Errors
/// DataFusion's, if an operator does not take its new input.
pub(super) fn with_pauses(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let pause = |node: Arc<dyn ExecutionPlan>| {
        if !MULTIPLYING.contains(&node.name()) {
            return Ok(Transformed::no(node));
        }
        let inputs: Vec<Arc<dyn ExecutionPlan>> = node.children().into_iter().cloned().collect();
        let [left, right] = inputs.as_slice() else {
            return Ok(Transformed::no(node));
        };
        let pieces = PIECES.over(Arc::clone(right));
        let same = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        let join = Arc::clone(&node).replace_children(vec![Arc::clone(left), pieces], same)?;
        let paused: Arc<dyn ExecutionPlan> = Arc::new(CooperativeExec::new(join));
        Ok(Transformed::yes(paused))
    };
    plan.transform_up(pause).data()
}

/// Batches in pieces, none of which is ready when it is first asked for.
struct Pieces {
    input: SendableRecordBatchStream,
    /// What is left of the last batch.
    rest: Option<RecordBatch>,
    /// Whether it was not ready before this piece.
    paused: bool,
}

impl Stream for Pieces {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !std::mem::replace(&mut self.paused, true) {
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
        if batch.num_rows() <= PIECE_ROWS {
            return Poll::Ready(Some(Ok(batch)));
        }
        let left = batch.num_rows() - PIECE_ROWS;
        self.rest = Some(batch.slice(PIECE_ROWS, left));
        Poll::Ready(Some(Ok(batch.slice(0, PIECE_ROWS))))
    }
}

impl RecordBatchStream for Pieces {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
