//! Tables whose rows are what something is at the moment.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{MemTable, Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use std::any::type_name;
use std::fmt;
use std::sync::Arc;

/// Something that can be told in rows.
pub trait Rows: Send + Sync {
    /// The columns.
    fn schema(&self) -> SchemaRef;

    /// The rows as they are now.
    ///
    /// # Errors
    /// Whatever keeps it from being told.
    fn rows(&self) -> Result<RecordBatch>;
}

/// The table of its rows. They are read when a statement is planned: a plan that is kept would show what was.
pub struct AsNow<T>(pub T);

impl<T> fmt::Debug for AsNow<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(type_name::<T>())
    }
}

#[async_trait]
impl<T: Rows + 'static> TableProvider for AsNow<T> {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let now = MemTable::try_new(self.schema(), vec![vec![self.0.rows()?]])?;
        now.scan(state, projection, filters, limit).await
    }
}
