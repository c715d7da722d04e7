//! A statement through Ballista's scheduler: for final plans over more rows than a client should
//! hold.

use crate::codec::{Forwarded, PlanCodec};
use crate::error::ClusterError;
use crate::wire::LARGEST_MESSAGE;
use arrow::array::RecordBatch;
use ballista_core::config::{
    BALLISTA_CLIENT_GRPC_CONNECT_TIMEOUT_SECONDS,
    BALLISTA_CLIENT_GRPC_HTTP2_KEEPALIVE_INTERVAL_SECONDS, BALLISTA_CLIENT_IO_RETRIES_TIMES,
    BALLISTA_CLIENT_IO_RETRY_WAIT_TIME_MS, BALLISTA_JOB_NAME,
};
use ballista_core::execution_plans::execute_physical_plan;
use ballista_core::extension::SessionConfigExt;
use datafusion::common::DataFusionError;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use datafusion_proto::protobuf::PhysicalPlanNode;
use futures::TryStreamExt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Settings of Ballista: a result that cannot be read is soon given up, because the executor that
/// had it is gone and others make it again. A connection that was cut counts as broken after its
/// keepalive and 20 seconds more, which Ballista has no setting for.
const SETTINGS: [(&str, u64); 4] = [
    (BALLISTA_CLIENT_GRPC_HTTP2_KEEPALIVE_INTERVAL_SECONDS, 2),
    (BALLISTA_CLIENT_IO_RETRIES_TIMES, 1),
    (BALLISTA_CLIENT_IO_RETRY_WAIT_TIME_MS, 100),
    (BALLISTA_CLIENT_GRPC_CONNECT_TIMEOUT_SECONDS, 3),
];

/// The rows of `plan` from the scheduler at `url`, which knows the statement as the job `name`.
///
/// # Errors
/// [`ClusterError::Failed`] with what went wrong on the scheduler or an executor.
pub(crate) async fn through_scheduler(
    url: &str,
    plan: &Arc<dyn ExecutionPlan>,
    name: &str,
) -> Result<Vec<RecordBatch>, ClusterError> {
    let mut config = SessionConfig::new_with_ballista()
        .with_target_partitions(1)
        .with_ballista_grpc_client_max_message_size(LARGEST_MESSAGE as usize);
    for (setting, value) in SETTINGS {
        config = config.set_u64(setting, value);
    }
    config = config.set_str(BALLISTA_JOB_NAME, name);
    let settings = config.ballista_config();
    let codec = PlanCodec::new(Arc::new(Forwarded));
    let rows = execute_physical_plan::<PhysicalPlanNode>(
        url.into(),
        &settings,
        Arc::clone(plan),
        &codec,
        name.into(),
        config.clone(),
    );
    let rows = async { rows.await?.try_collect::<Vec<_>>().await };
    rows.await.map_err(|e| ClusterError::Failed(cause(&e)))
}

/// A name that no other statement has.
pub(crate) fn job_name() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |time| time.as_nanos());
    format!("tierloom-{}-{now}", std::process::id())
}

/// The text of an error without the layers that Ballista puts around it.
fn cause(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    // An error of an operator arrives as the debug form of the task's error.
    let marks = ["Execution(\"", "ResourcesExhausted(\"", "Internal(\""];
    let found = marks.iter().find_map(|mark| {
        let (_, rest) = text.split_once(mark)?;
        rest.split_once("\")").map(|(inner, _)| inner)
    });
    found.map_or(text.clone(), |inner| {
        inner.replace("\\\"", "\"").replace("\\'", "'")
    })
}
