//! Joins that compare every row with every row, in pieces between which they can be stopped.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, StatisticsArgs,
};
use futures::{Stream, StreamExt};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Operators that may work for long on one batch of their right input.
const MULTIPLYING: [&str; 2] = ["CrossJoinExec", "NestedLoopJoinExec"];

/// Rows of a piece: few enough that a comparison with millions of rows takes a second.
const PIECE_ROWS: usize = 1024;

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
        let pieces = Arc::new(PiecesExec {
            input: Arc::clone(right),
        });
        let same = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        let join = Arc::clone(&node).replace_children(vec![Arc::clone(left), pieces], same)?;
        let paused: Arc<dyn ExecutionPlan> = Arc::new(CooperativeExec::new(join));
        Ok(Transformed::yes(paused))
    };
    plan.transform_up(pause).data()
}

/// Returns the batches of its input in pieces, and is not ready once before each.
#[derive(Debug)]
struct PiecesExec {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for PiecesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for PiecesExec {
    fn name(&self) -> &str {
        "PiecesExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(PiecesExec { input })),
            _ => internal_err!("PiecesExec has one input"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, recompute)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        Ok(Box::pin(Pieces {
            input: self.input.execute(partition, context)?,
            rest: None,
            paused: false,
        }))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::clone(input)),
            _ => internal_err!("PiecesExec has one input"),
        }
    }
}

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
