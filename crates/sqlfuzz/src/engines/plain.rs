//! Plain DataFusion on the same arrays: the main oracle.

use super::{Answer, Rows};
use crate::FuzzError;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use std::sync::Arc;
use std::time::Duration;
use tierloom_corrections::{corrected, with_one_nan};
use tokio::runtime::Runtime;

/// A DataFusion session without any of Tierloom's rules but its corrections ([`corrected`]).
pub struct PlainEngine {
    context: SessionContext,
    runtime: Arc<Runtime>,
}

impl PlainEngine {
    /// A session without tables, whose tasks run in `runtime`.
    pub fn new(runtime: &Arc<Runtime>, partitions: usize) -> PlainEngine {
        let config = SessionConfig::new().with_target_partitions(partitions);
        // Faults of DataFusion that are corrected in the engine are corrected here too: they would
        // hide all others. DuckDB knows none of these rules.
        let builder = SessionStateBuilder::new()
            .with_config(config)
            .with_default_features();
        let state = corrected(builder).build();
        PlainEngine {
            context: SessionContext::new_with_state(state),
            runtime: Arc::clone(runtime),
        }
    }

    /// The threads that sessions run in.
    ///
    /// # Errors
    /// If the threads cannot be started.
    pub fn runtime() -> Result<Arc<Runtime>, FuzzError> {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_stack_size(8 << 20)
            .thread_name("plain-datafusion")
            .enable_time()
            .build()
            .map(Arc::new)
            .map_err(FuzzError::io("threads of DataFusion"))
    }

    /// Registers `partitions` as the table `name`, replacing an older one; all columns are
    /// nullable.
    ///
    /// # Errors
    /// If a batch does not fit the schema.
    pub fn register(
        &self,
        name: &str,
        schema: &SchemaRef,
        partitions: Vec<Vec<RecordBatch>>,
    ) -> Result<(), FuzzError> {
        let fields = schema
            .fields()
            .iter()
            .map(|f| Field::clone(f).with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<Field>>()));
        let mut same = Vec::new();
        for partition in partitions {
            let batches = partition.into_iter().map(|b| {
                let rows =
                    arrow::array::RecordBatchOptions::new().with_row_count(Some(b.num_rows()));
                let columns = b.columns().iter().map(without_null_words);
                let columns = columns.map(|c| c.map(with_one_nan));
                let columns = columns.collect::<Result<Vec<_>, _>>()?;
                RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &rows)
            });
            same.push(batches.collect::<Result<Vec<_>, _>>()?);
        }
        let setup = |e: DataFusionError| FuzzError::Setup(e.to_string());
        let table = MemTable::try_new(schema, same).map_err(setup)?;
        let _ = self.context.deregister_table(name);
        self.context
            .register_table(name, Arc::new(table))
            .map(drop)
            .map_err(setup)
    }

    /// Removes the view or table `name`.
    pub fn forget(&self, name: &str) {
        let _ = self.context.deregister_table(name);
    }

    /// Whether there is a table or view `name`.
    pub fn knows(&self, name: &str) -> bool {
        self.context.table_exist(name).unwrap_or(false)
    }

    /// Runs a query, for at most `limit`.
    pub fn query(&self, sql: &str, limit: Duration) -> Answer {
        let context = self.context.clone();
        let text = sql.to_owned();
        let rows = async move {
            let frame = context.sql(&text).await?;
            let plan = frame.create_physical_plan().await?;
            let schema = plan.schema();
            let batches = datafusion::physical_plan::collect(plan, context.task_ctx()).await?;
            Ok(Rows { schema, batches })
        };
        self.run(rows, limit).map(Some)
    }

    /// Runs a statement without rows, for at most `limit`.
    pub fn define(&self, sql: &str, limit: Duration) -> Answer {
        let context = self.context.clone();
        let text = sql.to_owned();
        let done = async move { context.sql(&text).await?.collect().await.map(drop) };
        self.run(done, limit).map(|()| None)
    }

    /// Runs `statement` in a task, so that a panic in an operator ends the task and not the fuzzer.
    fn run<T: Send + 'static>(
        &self,
        statement: impl Future<Output = Result<T, DataFusionError>> + Send + 'static,
        limit: Duration,
    ) -> Result<T, String> {
        let mut task = self.runtime.spawn(statement);
        let done = self
            .runtime
            .block_on(async { tokio::time::timeout(limit, &mut task).await });
        match done {
            Err(_) => {
                // A task whose handle is dropped goes on, and keeps its memory. One that is
                // aborted ends where it next waits, which is left time.
                task.abort();
                let _ = self
                    .runtime
                    .block_on(async { tokio::time::timeout(limit, task).await });
                Err(TOO_LONG.into())
            }
            Ok(Err(panic)) => Err(format!("panicked: {panic}")),
            Ok(Ok(Err(error))) => Err(error.strip_backtrace()),
            Ok(Ok(Ok(result))) => Ok(result),
        }
    }
}

/// The message of a statement that exceeded its time limit.
pub const TOO_LONG: &str = "took too long";

/// The column with NULLs as NULL keys.
///
/// DataFusion 55 treats a NULL among the values of a dictionary as a value in `NOT IN` and keeps
/// such rows.
fn without_null_words(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match (column.data_type(), column.as_any_dictionary_opt()) {
        (DataType::Dictionary(_, words), Some(dictionary))
            if dictionary.values().logical_null_count() > 0 =>
        {
            cast(&cast(column, words)?, column.data_type())
        }
        _ => Ok(Arc::clone(column)),
    }
}
