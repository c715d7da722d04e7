//! A statement that was planned before begins with the tables and nodes that were known then. That
//! the scheduler knows no others is looked up meanwhile, and not first.

use crate::error::ClusterError;
use crate::link::Link;
use crate::session::{ClusterSession, lost};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::pin::pin;
use std::sync::Arc;

/// The rows of a query, with their columns, whose plan was kept and whose end is done here. `None`
/// if it was not, if there are other tables or nodes than before, or if it did not work: it is done
/// in the ordinary way then, which finds out why.
///
/// # Errors
/// [`ClusterError::Interrupted`] when `stop` says so.
pub(crate) fn answer_as_known(
    link: &Link,
    sql: &str,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<(SchemaRef, Vec<RecordBatch>)>, ClusterError> {
    let Some((map, planner)) = link.known() else {
        return Ok(None);
    };
    let Some(kept) = planner.kept(sql) else {
        return Ok(None);
    };
    let session = ClusterSession { link, map, planner };
    if !session.is_asked(&kept.plan) {
        return Ok(None);
    }
    let work = async {
        let mut rows = pin!(session.asked(&kept.plan, &session.map));
        let mut is_same = pin!(link.registry.is_still(&session.map, &link.scheduler));
        tokio::select! {
            // The nodes have more to do than the scheduler.
            biased;
            rows = &mut rows => match is_same.await {
                true => rows,
                false => Ok(None),
            },
            same = &mut is_same => match same {
                true => rows.await,
                false => Ok(None),
            },
        }
    };
    match session.unless(|now| lost(&kept.plan, now), stop, work) {
        Ok(rows) => Ok(rows.map(|rows| (Arc::clone(&kept.schema), rows))),
        Err(ClusterError::Interrupted) => Err(ClusterError::Interrupted),
        Err(_) => Ok(None),
    }
}
