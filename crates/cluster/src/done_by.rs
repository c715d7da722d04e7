//! Work of a statement on the threads of an engine.

use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// What `work` gives, done by `threads`; dropping it ends the work.
///
/// # Errors
/// A text if it panics.
pub(crate) async fn done_by<T: Send + 'static>(
    threads: &Handle,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, String> {
    let mut works = JoinSet::new();
    works.spawn_on(work, threads);
    match works.join_next().await {
        Some(Ok(done)) => Ok(done),
        Some(Err(e)) => Err(format!("the final plan failed: {e}")),
        None => Err("the final plan ended twice".into()),
    }
}
