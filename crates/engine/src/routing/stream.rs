//! The stream of a wrapped operator.
//!
//! The allocator assigns memory by a thread-local scope, which is entered for each poll because a
//! stream may be polled by another thread each time.

use super::operator::Operator;
use crate::counting::{self, Counting};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use futures::Stream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tierloom_memory::router::{self, Class, ClassScope};
use tokio::task::coop;

/// Polls the operator's stream in the operator's allocation scope.
pub(super) struct RoutedStream {
    operator: Arc<Operator>,
    stream: SendableRecordBatchStream,
    /// The parent's class after this stream has returned.
    ///
    /// A join that reads its probe side no longer builds.
    parent_after: Option<Class>,
    counting: Option<Arc<Counting>>,
}

impl RoutedStream {
    pub(super) fn new(
        operator: Arc<Operator>,
        stream: SendableRecordBatchStream,
        parent_after: Option<Class>,
        counting: Option<Arc<Counting>>,
    ) -> Self {
        RoutedStream {
            operator,
            stream,
            parent_after,
            counting,
        }
    }
}

impl Stream for RoutedStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // Without DataFusion's cooperative budget, an operator that expands few rows to many could
        // hold its thread for seconds, and with it the timer that cancels queries.
        let turn = std::task::ready!(coop::poll_proceed(context));
        let polled = {
            let tallies = self.operator.tallies();
            let counting = self.counting.as_ref();
            let _counted = counting.map(|counting| counting::enter(counting, tallies));
            let _scope = router::enter(self.operator.scope());
            self.stream.as_mut().poll_next(context)
        };
        if polled.is_ready() {
            turn.made_progress();
        }
        // The scope above has ended, so the current scope is the parent's.
        if let Some(class) = self.parent_after
            && let Some(parent) = router::current()
        {
            router::switch(ClassScope { class, ..parent });
            if self.counting.is_some() {
                counting::probe();
            }
        }
        if self.operator.is_over() {
            return Poll::Ready(Some(Err(over(&self.operator))));
        }
        polled
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.size_hint()
    }
}

impl RecordBatchStream for RoutedStream {
    fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }
}

/// The error of an operator whose memory class is full on every place.
fn over(operator: &Operator) -> DataFusionError {
    let used = router::operator_usage(operator.scope().operator);
    DataFusionError::ResourcesExhausted(format!(
        "{}: all places of its memory class ({}) are full; it holds {} MiB; \
         raise the limit of the class, give it another place, or run fewer queries at a time (`tier_memory` shows what is used)",
        operator.name(),
        operator.class(),
        used.current_bytes >> 20,
    ))
}
