//! A plain DataFusion session that fills tables, and is asked for comparison if an answer differs.

use crate::kind::StmtKind;
use crate::render::{column_kinds, text_rows};
use crate::{ColumnKind, SuiteError};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::TableReference;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::{collect, collect_partitioned};
use datafusion::prelude::{SessionConfig, SessionContext};
use std::path::Path;
use tokio::runtime::Runtime;

/// Partitions of every plan, the same number as in DataFusion's own test runner.
pub(crate) const PARTITIONS: usize = 4;

/// The columns and rows of a result.
#[derive(Debug, Clone)]
pub(crate) struct QueryResult {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
}

impl QueryResult {
    pub(crate) fn kinds(&self) -> Vec<ColumnKind> {
        column_kinds(&self.schema)
    }

    /// The rows as text.
    ///
    /// # Errors
    /// If a batch does not fit the announced schema, or a value cannot be formatted.
    pub(crate) fn rows(&self) -> std::result::Result<Vec<Vec<String>>, String> {
        for batch in &self.batches {
            if !self.schema.contains(&batch.schema()) {
                return Err(format!(
                    "rows of {:?} do not fit the columns announced, {:?}",
                    batch.schema(),
                    self.schema
                ));
            }
        }
        text_rows(&self.batches).map_err(|e| e.to_string())
    }
}

pub(crate) struct PlainSession {
    runtime: Runtime,
    context: SessionContext,
}

impl PlainSession {
    pub(crate) fn new() -> std::result::Result<Self, SuiteError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .thread_name("plain-worker")
            .build()
            .map_err(SuiteError::file("threads"))?;
        let config = SessionConfig::new().with_target_partitions(PARTITIONS);
        let plain = PlainSession {
            runtime,
            context: SessionContext::new_with_config(config.with_information_schema(true)),
        };
        // The session under test writes files too, so cached folder listings would be wrong.
        let fresh = plain.run("SET datafusion.runtime.list_files_cache_limit = '0K'");
        fresh.map_err(|e| SuiteError::Suite(e.strip_backtrace()))?;
        Ok(plain)
    }

    /// The kind of a statement, and the tables that it reads.
    pub(crate) fn read(&self, sql: &str) -> (StmtKind, Vec<String>) {
        let state = self.context.state();
        let dialect = state.config_options().sql_parser.dialect;
        let Ok(statement) = state.sql_to_statement(sql, &dialect) else {
            return (StmtKind::Unreadable, Vec::new());
        };
        let tables = state.resolve_table_references(&statement);
        let tables = tables.unwrap_or_default().into_iter();
        let names = tables.map(|table| table.table().to_owned()).collect();
        (StmtKind::of(&statement), names)
    }

    /// Runs a statement and collects its result.
    pub(crate) fn run(&self, sql: &str) -> Result<QueryResult> {
        let (context, sql) = (self.context.clone(), sql.to_owned());
        self.finish(async move {
            let frame = context.sql(&sql).await?;
            let task = frame.task_ctx();
            let plan = frame.create_physical_plan().await?;
            let schema = plan.schema();
            let batches = collect(plan, task.into()).await?;
            Ok(QueryResult { schema, batches })
        })
    }

    /// Writes the rows of a table, in the order of its partitions, as an Arrow stream.
    pub(crate) fn write_table(&self, name: &str, file: &Path) -> Result<()> {
        let (context, name) = (self.context.clone(), TableReference::bare(name));
        let answer = self.finish(async move {
            let frame = context.table(name).await?;
            let task = frame.task_ctx();
            let plan = frame.create_physical_plan().await?;
            let schema = plan.schema();
            let batches = collect_partitioned(plan, task.into()).await?.concat();
            Ok(QueryResult { schema, batches })
        })?;
        let file = std::fs::File::create(file)?;
        let mut writer = arrow::ipc::writer::StreamWriter::try_new(file, &answer.schema)?;
        for batch in &answer.batches {
            writer.write(batch)?;
        }
        Ok(writer.finish()?)
    }

    /// Runs a task to its end. Its panic becomes an error of the statement.
    fn finish<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let done = self.runtime.block_on(self.runtime.spawn(work));
        done.unwrap_or_else(|e| Err(DataFusionError::External(Box::new(e))))
    }
}
