//! Tables that other processes hold and work on, as those of a cluster: a session reads statements
//! and plans its own questions, and what it asks of such tables is done there.

use super::error::SqlError;
use arrow::array::RecordBatch;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// How large a table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableSize {
    /// Number of rows.
    pub rows: u64,
    /// Bytes of its columns as stored.
    pub bytes: u64,
}

/// Has the tables of a session that has none of its own.
pub trait Elsewhere: Send + Sync {
    /// Gives `context` the tables that there are now; returns whether they are others than before.
    ///
    /// # Errors
    /// Who has the tables does not answer.
    fn follow(&self, context: &SessionContext) -> Result<bool, SqlError>;

    /// The size of one of the tables.
    fn size_of(&self, table: &str) -> Option<TableSize>;

    /// Why nobody can read a table that there should be.
    fn missing(&self, table: &str) -> Option<String>;

    /// An operator that gives the rows of `query`, which is not yet optimised; `None` for a query
    /// that reads none of the tables.
    ///
    /// # Errors
    /// A query that cannot be done there.
    fn plan(&self, query: &LogicalPlan) -> Result<Option<Arc<dyn ExecutionPlan>>, SqlError>;

    /// What a query reads, and in which memory that lies; `None` for one that reads none of the
    /// tables.
    ///
    /// # Errors
    /// As [`Elsewhere::plan`], and [`SqlError::Interrupted`] when `stop` says so.
    fn placement(
        &self,
        query: &LogicalPlan,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<RecordBatch>, SqlError>;
}
