//! DataFusion's view of placed tables.

use crate::scan::PlacedScanExec;
use crate::scan_at_once;
use crate::table::PlacedTable;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics};
use datafusion::logical_expr::TableType;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::UnionExec;
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

    /// The table that scans of this provider read; it may have several groups of rows.
    pub fn table(&self) -> &Arc<PlacedTable> {
        &self.table
    }

    fn plan_scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let execution = &state.config_options().execution;
        let mut scans: Vec<Arc<dyn ExecutionPlan>> = Vec::new();
        for group in std::iter::once(&self.table).chain(self.table.later()) {
            scans.push(Arc::new(PlacedScanExec::new(
                Arc::clone(group),
                projection,
                limit,
                execution.target_partitions,
                execution.batch_size.into(),
            )?));
        }
        match scans.as_slice() {
            [one] => Ok(Arc::clone(one)),
            // Operators that need contiguous columns leave this to those of DataFusion.
            _ => UnionExec::try_new(scans),
        }
    }
}

impl TableProvider for PlacedTableProvider {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.table.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn statistics(&self) -> Option<Statistics> {
        let first = self.table.statistics();
        if self.table.later().is_empty() {
            return Some(first.as_ref().clone());
        }
        let mut all = Statistics::new_unknown(self.table.schema());
        all.num_rows = Precision::Exact(self.table.all_rows());
        for (index, column) in all.column_statistics.iter_mut().enumerate() {
            let groups = self.table.groups();
            let nulls = groups.map(|g| g.statistics().column_statistics[index].null_count);
            column.null_count = nulls.fold(Precision::Exact(0), |sum, nulls| sum.add(&nulls));
        }
        Some(all)
    }

    scan_at_once!();
}
