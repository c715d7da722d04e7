//! The rows of a table with their positions, by which DELETE and UPDATE find them again.

use super::super::error::SqlError;
use super::extra::ExtraTables;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::TableType;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use std::sync::Arc;
use tierloom_engine::{PlacedTable, scan_at_once};

/// Name of the column of positions, which no other column has.
pub(super) const POSITION: &str = "tierloom position";

/// Name of the rows with their positions, in a query.
pub(super) const NUMBERED: &str = "numbered";

/// The rows of a version with their positions, as [`NUMBERED`].
pub(super) fn numbered_rows(
    table: &Arc<PlacedTable>,
) -> std::result::Result<ExtraTables, SqlError> {
    ExtraTables::of(NUMBERED, Arc::new(NumberedTable::new(table)))
}

/// A table with one more column: the position of each row.
#[derive(Debug)]
struct NumberedTable {
    table: Arc<PlacedTable>,
    schema: SchemaRef,
}

impl NumberedTable {
    fn new(table: &Arc<PlacedTable>) -> Self {
        let mut fields: Vec<Arc<Field>> = table.schema().fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(POSITION, DataType::UInt64, false)));
        NumberedTable {
            table: Arc::clone(table),
            schema: Arc::new(Schema::new(fields)),
        }
    }
}

impl NumberedTable {
    fn plan_scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let execution = &state.config_options().execution;
        let batch_rows: usize = execution.batch_size.into();
        let columns = match projection {
            Some(columns) => columns.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let schema = Arc::new(self.schema.project(&columns)?);
        let batches = Arc::new(batches(&self.table, batch_rows));
        let count = batches.len().clamp(1, execution.target_partitions.max(1));
        let parts = (0..count).map(|first| -> Arc<dyn PartitionStream> {
            Arc::new(Part {
                table: Arc::clone(&self.table),
                schema: Arc::clone(&schema),
                columns: columns.clone(),
                batches: Arc::clone(&batches),
                first,
                every: count,
            })
        });
        let parts = parts.collect();
        let scan = StreamingTableExec::try_new(schema, parts, None, [], false, None)?;
        Ok(Arc::new(scan))
    }
}

impl TableProvider for NumberedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    scan_at_once!();
}

/// Rows of one group that are read together.
#[derive(Debug)]
struct Batch {
    group: usize,
    /// The position of its first row in the group.
    start: usize,
    /// The same in the table.
    position: u64,
    rows: usize,
}

/// All rows of a table in batches.
fn batches(table: &PlacedTable, batch_rows: usize) -> Vec<Batch> {
    let mut batches = Vec::new();
    let mut before = 0;
    for (group, rows) in table.groups().map(PlacedTable::rows).enumerate() {
        for start in (0..rows).step_by(batch_rows) {
            batches.push(Batch {
                group,
                start,
                position: (before + start) as u64,
                rows: batch_rows.min(rows - start),
            });
        }
        before += rows;
    }
    batches
}

/// Every n-th batch of the rows.
#[derive(Debug)]
struct Part {
    table: Arc<PlacedTable>,
    schema: SchemaRef,
    columns: Vec<usize>,
    batches: Arc<Vec<Batch>>,
    first: usize,
    every: usize,
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (table, schema) = (Arc::clone(&self.table), Arc::clone(&self.schema));
        let (columns, batches) = (self.columns.clone(), Arc::clone(&self.batches));
        let indices = (self.first..batches.len()).step_by(self.every);
        let rows = indices.map(move |index| rows_of(&table, &schema, &columns, &batches[index]));
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            futures::stream::iter(rows),
        ))
    }
}

fn rows_of(
    table: &PlacedTable,
    schema: &SchemaRef,
    columns: &[usize],
    batch: &Batch,
) -> Result<RecordBatch> {
    let group = table.groups().nth(batch.group);
    let group = group.ok_or_else(|| internal_datafusion_err!("a table lost rows"))?;
    let values = columns
        .iter()
        .map(|&index| match group.columns().get(index) {
            Some(column) => column
                .slice(batch.start, batch.rows)
                .map_err(|e| DataFusionError::External(Box::new(e))),
            None => {
                let positions = batch.position..batch.position + batch.rows as u64;
                Ok(Arc::new(UInt64Array::from_iter_values(positions)) as ArrayRef)
            }
        });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.rows));
    let values = values.collect::<Result<_>>()?;
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        values,
        &options,
    )?)
}
