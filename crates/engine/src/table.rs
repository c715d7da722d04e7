//! Placed tables and their face towards DataFusion.

use crate::EngineError;
use crate::column::PlacedColumn;
use crate::scan::PlacedScanExec;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, ScalarValue, Statistics};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a scan hands out a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Staging {
    /// Slices of the region itself.
    InPlace,
    /// A copy in DRAM, one batch at a time.
    WorkingBuffer,
}

/// A table whose columns lie in regions, each with its own placement.
#[derive(Debug)]
pub struct PlacedTable {
    name: String,
    schema: SchemaRef,
    columns: Vec<PlacedColumn>,
    /// Per column: copied through a working buffer. Switched between queries when the placement changes.
    staged: Vec<AtomicBool>,
    rows: usize,
    statistics: Statistics,
}

impl PlacedTable {
    /// A table of `columns`.
    ///
    /// # Errors
    /// If there is no column or their lengths differ.
    pub fn new(name: &str, columns: Vec<PlacedColumn>) -> Result<Self, EngineError> {
        let rows = columns
            .first()
            .map(PlacedColumn::rows)
            .ok_or_else(|| EngineError::Table {
                table: name.into(),
                problem: "has no columns".into(),
            })?;
        if let Some(odd) = columns.iter().find(|c| c.rows() != rows) {
            return Err(EngineError::Table {
                table: name.into(),
                problem: format!(
                    "column {} has {} rows where {} has {rows}",
                    odd.name(),
                    odd.rows(),
                    columns[0].name()
                ),
            });
        }
        let fields: Vec<Field> = columns
            .iter()
            .map(|c| Field::new(c.name(), c.data_type().clone(), false))
            .collect();
        let statistics = statistics(rows, &columns);
        let staged = columns.iter().map(|_| AtomicBool::new(false)).collect();
        Ok(PlacedTable {
            name: name.into(),
            schema: Arc::new(Schema::new(fields)),
            columns,
            staged,
            rows,
            statistics,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its Arrow schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Its columns in schema order.
    pub fn columns(&self) -> &[PlacedColumn] {
        &self.columns
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of all columns' values.
    pub fn size_bytes(&self) -> u64 {
        self.columns.iter().map(PlacedColumn::size_bytes).sum()
    }

    /// What the planner is told.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Sets how scans that start from now on hand out column `index`.
    pub fn set_staging(&self, index: usize, staging: Staging) {
        self.staged[index].store(staging == Staging::WorkingBuffer, Ordering::Relaxed);
    }

    /// Whether scans copy column `index` through a working buffer.
    pub fn is_staged(&self, index: usize) -> bool {
        self.staged[index].load(Ordering::Relaxed)
    }

    /// Rows `start..start + len` of all columns without a copy.
    ///
    /// # Errors
    /// Those of Arrow, if the range lies outside the table.
    pub fn batch(&self, start: usize, len: usize) -> Result<RecordBatch, EngineError> {
        let columns: Vec<ArrayRef> = self.columns.iter().map(|c| c.slice(start, len)).collect();
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    /// Up to `rows` rows of the named columns, spread evenly over the table in runs of 64: what the planner looks at to judge a filter.
    ///
    /// # Errors
    /// A column that the table does not have, or those of Arrow.
    pub fn sample(&self, rows: usize, columns: &[&str]) -> Result<RecordBatch, EngineError> {
        const RUN: usize = 64;
        let indices = columns
            .iter()
            .map(|name| self.schema.index_of(name))
            .collect::<Result<Vec<_>, _>>()?;
        let schema = Arc::new(self.schema.project(&indices)?);
        let part = |start: usize, len: usize| {
            let values = indices.iter().map(|&i| self.columns[i].slice(start, len));
            RecordBatch::try_new(Arc::clone(&schema), values.collect())
        };
        if self.rows <= rows.max(RUN) {
            return Ok(part(0, self.rows)?);
        }
        let runs = rows.div_ceil(RUN);
        let parts = (0..runs)
            .map(|i| part(i * (self.rows - RUN) / runs, RUN))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(arrow::compute::concat_batches(&schema, &parts)?)
    }
}

fn statistics(rows: usize, columns: &[PlacedColumn]) -> Statistics {
    let of = |column: &PlacedColumn| {
        let facts = column.facts();
        let bound = |value: Option<i32>| {
            value.map_or(Precision::Absent, |v| {
                Precision::Exact(ScalarValue::Int32(Some(v)))
            })
        };
        let mut statistics = ColumnStatistics::new_unknown();
        statistics.null_count = Precision::Exact(0);
        statistics.min_value = bound(facts.range.map(|r| r.0));
        statistics.max_value = bound(facts.range.map(|r| r.1));
        statistics.distinct_count = facts.distinct.map_or(Precision::Absent, |d| {
            Precision::Inexact((d as usize).min(rows))
        });
        statistics.byte_size = Precision::Exact(column.size_bytes() as usize);
        statistics
    };
    Statistics {
        num_rows: Precision::Exact(rows),
        total_byte_size: Precision::Exact(columns.iter().map(|c| c.size_bytes() as usize).sum()),
        column_statistics: columns.iter().map(of).collect(),
    }
}

/// DataFusion's view of a [`PlacedTable`].
#[derive(Debug)]
pub struct PlacedTableProvider {
    table: Arc<PlacedTable>,
}

impl PlacedTableProvider {
    /// Serves `table`.
    pub fn new(table: Arc<PlacedTable>) -> Self {
        PlacedTableProvider { table }
    }

    /// The table served.
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
        Some(self.table.statistics().clone())
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
