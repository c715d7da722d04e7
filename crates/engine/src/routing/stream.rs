//! The rows of a wrapped operator.

use super::exec::Operator;
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

/// Polls the operator's stream in the operator's scope.
pub(super) struct RoutedStream {
    operator: Arc<Operator>,
    stream: SendableRecordBatchStream,
    /// The class that the parent is in once this stream has returned: a join that has seen its probe side builds no more.
    parent_after: Option<Class>,
}

impl RoutedStream {
    pub(super) fn new(
        operator: Arc<Operator>,
        stream: SendableRecordBatchStream,
        parent_after: Option<Class>,
    ) -> Self {
        RoutedStream {
            operator,
            stream,
            parent_after,
        }
    }
}

impl Stream for RoutedStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // An operator that makes many rows of few would else keep its thread, and with it the clock that cancels queries, for seconds.
        let turn = std::task::ready!(coop::poll_proceed(context));
        let polled = {
            let _scope = router::enter(self.operator.scope());
            self.stream.as_mut().poll_next(context)
        };
        if polled.is_ready() {
            turn.made_progress();
        }
        if let Some(class) = self.parent_after
            && let Some(parent) = router::current()
        {
            router::switch(ClassScope { class, ..parent });
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

/// The one error of a query whose operator finds no memory anywhere.
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
