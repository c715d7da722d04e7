//! DataFusion's view of placed tables.

use crate::scan::PlacedScanExec;
use crate::table::PlacedTable;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, Statistics};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// DataFusion table provider of a [`PlacedTable`].
#[derive(Debug)]
pub struct PlacedTableProvider {
    table: Arc<PlacedTable>,
}

impl PlacedTableProvider {
    /// Wraps `table` for registration.
    pub fn new(table: Arc<PlacedTable>) -> Self {
        PlacedTableProvider { table }
    }

    /// The table that scans of this provider read.
    pub fn table(&self) -> &Arc<PlacedTable> {
        &self.table
    }
}

#[async_trait]
impl TableProvider for PlacedTableProvider {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.table.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.table.statistics().as_ref().clone())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let execution = &state.config_options().execution;
        Ok(Arc::new(PlacedScanExec::new(
            Arc::clone(&self.table),
            projection,
            limit,
            execution.target_partitions,
            execution.batch_size.into(),
        )?))
    }
}
