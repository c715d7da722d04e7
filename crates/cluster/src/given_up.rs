//! Tasks of Ballista that nobody waits for any more.
//!
//! Of a task that was cancelled, Ballista drops what waits for it; the work itself goes on in tasks
//! of the runtime that nobody can reach. So the streams of rows that it reads end by themselves.

use arrow::array::RecordBatch;
use datafusion::common::{Result, exec_err};
use datafusion::execution::TaskContext;
use futures::{Stream, StreamExt};
use std::sync::Arc;
use tierloom_engine::with_settings;
use tokio::sync::watch;

/// What waits for a task has this; the task is given up when it is dropped.
#[derive(Debug)]
pub(crate) struct Waiter(
    #[expect(dead_code, reason = "its end is what matters")] watch::Sender<()>,
);

/// What the operators of a task have of its [`Waiter`].
#[derive(Debug)]
struct Waited(watch::Receiver<()>);

/// `context` for a task, and what waits for it.
pub(crate) fn waited_for(context: &TaskContext) -> (Waiter, Arc<TaskContext>) {
    let (waiter, waited) = watch::channel(());
    let config = context.session_config().clone();
    let config = config.with_extension(Arc::new(Waited(waited)));
    (Waiter(waiter), Arc::new(with_settings(context, config)))
}

/// `rows`, which end with an error when the task of `context` is given up.
pub(crate) fn unless_given_up(
    rows: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
    context: &TaskContext,
) -> impl Stream<Item = Result<RecordBatch>> + Send + 'static {
    let waited = context.session_config().get_extension::<Waited>();
    let given_up = async move {
        match waited.map(|waited| waited.0.clone()) {
            Some(mut waited) => while waited.changed().await.is_ok() {},
            None => std::future::pending().await,
        }
    };
    let state = Some((Box::pin(rows), Box::pin(given_up)));
    futures::stream::unfold(state, async |state| {
        let (mut rows, mut given_up) = state?;
        tokio::select! {
            biased;
            () = &mut given_up => Some((exec_err!("the task was cancelled"), None)),
            row = rows.next() => Some((row?, Some((rows, given_up)))),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Schema;
    use futures::stream;
    use std::time::Duration;

    #[tokio::test]
    async fn rows_end_with_an_error_when_nobody_waits_and_else_where_they_end() {
        let batch = RecordBatch::new_empty(Arc::new(Schema::empty()));
        let some = {
            let batch = batch.clone();
            move || stream::iter(vec![Ok(batch.clone()), Ok(batch.clone())])
        };
        let plain = TaskContext::default();
        let (waiter, context) = waited_for(&plain);
        for context in [&plain, &*context] {
            let rows: Vec<_> = unless_given_up(some(), context).collect().await;
            assert_eq!((rows.len(), rows.iter().all(Result::is_ok)), (2, true));
        }
        // Rows that never come, as of an operator that works for long.
        let rows = some().chain(stream::pending());
        let mut rows = Box::pin(unless_given_up(rows, &context));
        assert!(rows.next().await.is_some_and(|row| row.is_ok()));
        assert!(rows.next().await.is_some_and(|row| row.is_ok()));
        let patience = Duration::from_millis(50);
        assert!(tokio::time::timeout(patience, rows.next()).await.is_err());
        drop(waiter);
        let end = rows.next().await.expect("an error");
        assert!(end.unwrap_err().to_string().contains("cancelled"));
        assert!(rows.next().await.is_none());
    }
}
