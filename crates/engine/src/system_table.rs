//! System tables whose rows are computed at planning time.
//!
//! The rows become a plan of batches in memory in `scan`, so one statement sees one consistent
//! state. The plan cache refuses such tables.

use crate::scan_at_once;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::logical_expr::TableType;
use datafusion::physical_plan::ExecutionPlan;
use std::any::type_name;
use std::fmt;
use std::sync::Arc;

/// A source of rows that change over time.
pub trait SystemRows: Send + Sync {
    /// Names and types of the columns; never changes.
    fn schema(&self) -> SchemaRef;

    /// The rows as of now.
    ///
    /// # Errors
    /// If the state cannot be read or converted to a batch.
    fn rows(&self) -> Result<RecordBatch>;
}

/// Table provider over [`SystemRows`].
///
/// The rows are read when a statement is planned, so its plan must not be cached.
pub struct SystemTable<T>(pub T);

impl<T> fmt::Debug for SystemTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(type_name::<T>())
    }
}

impl<T: SystemRows> SystemTable<T> {
    fn plan_scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = [vec![self.0.rows()?]];
        let plan = MemorySourceConfig::try_new_exec(&rows, self.0.schema(), projection.cloned())?;
        Ok(plan)
    }
}

impl<T: SystemRows + 'static> TableProvider for SystemTable<T> {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    scan_at_once!();
}
