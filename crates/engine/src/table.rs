//! Placed tables.
//!
//! A table's rows never change: SQL that changes rows makes another table, which shares what stays.
//! What changes is the placement of its columns, whether scans stage them, and the planner's
//! statistics.

use crate::EngineError;
use crate::column::{ColumnFacts, PlacedColumn};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics};
use datafusion::logical_expr::Expr;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// How a scan returns a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Staging {
    /// As slices of the region, or decoded from it.
    InPlace,
    /// As a copy in DRAM, one batch at a time (the glossary's "staged").
    WorkingBuffer,
}

/// Rows of a sample that follow each other in the table: 64 codes take at most four cache lines.
pub(crate) const SAMPLED_RUN: usize = 64;

/// A table of columns in regions, each with its own placement.
#[derive(Debug)]
pub struct PlacedTable {
    name: String,
    schema: SchemaRef,
    columns: Vec<PlacedColumn>,
    /// Per column, whether scans copy it through a working buffer.
    ///
    /// Changes between queries with the placement.
    staged: Vec<AtomicBool>,
    rows: usize,
    statistics: RwLock<Arc<Statistics>>,
    shares: Shares,
    /// Rows that were added later: groups with columns of their own, in the order of the rows.
    later: Vec<Arc<PlacedTable>>,
}

impl PlacedTable {
    /// Creates a table of `columns`.
    ///
    /// # Errors
    /// If there is no column, two have the same name, or their lengths differ.
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
        let mut names = HashSet::new();
        if let Some(twice) = columns.iter().find(|c| !names.insert(c.name())) {
            return Err(EngineError::Table {
                table: name.into(),
                problem: format!("has two columns named {}", twice.name()),
            });
        }
        // All fields are declared nullable: the planner takes a scalar subquery over a NOT NULL
        // column as never NULL, even where it finds no row. Our own operators ask the column
        // (`PlacedColumn::nullable`).
        let fields: Vec<Field> = columns
            .iter()
            .map(|c| Field::new(c.name(), c.data_type().clone(), true))
            .collect();
        let facts = columns.iter().map(PlacedColumn::facts);
        let statistics = RwLock::new(Arc::new(statistics(rows, &columns, facts)));
        let staged = columns.iter().map(|_| AtomicBool::new(false)).collect();
        Ok(PlacedTable {
            name: name.into(),
            schema: Arc::new(Schema::new(fields)),
            columns,
            staged,
            rows,
            statistics,
            shares: Shares::default(),
            later: Vec::new(),
        })
    }

    /// A table of the columns of this one and, after its rows, those of `later`; nothing is copied.
    ///
    /// # Errors
    /// If columns of `later` have other names or types.
    pub fn with_later(&self, later: Vec<Arc<PlacedTable>>) -> Result<Self, EngineError> {
        if let Some(odd) = later.iter().find(|group| group.schema != self.schema) {
            return Err(EngineError::Table {
                table: self.name.clone(),
                problem: format!("gets rows of other columns: {}", odd.schema),
            });
        }
        let staged = self.staged.iter();
        let staged = staged.map(|staged| AtomicBool::new(staged.load(Ordering::Relaxed)));
        Ok(PlacedTable {
            name: self.name.clone(),
            schema: Arc::clone(&self.schema),
            columns: self.columns.clone(),
            staged: staged.collect(),
            rows: self.rows,
            statistics: RwLock::new(self.statistics()),
            shares: Shares::default(),
            later,
        })
    }

    /// Its groups of rows. Each has contiguous columns; a table that was loaded is one group, and
    /// what this type says of columns and rows is of the first one.
    pub fn groups(&self) -> impl Iterator<Item = &PlacedTable> {
        std::iter::once(self).chain(self.later.iter().map(AsRef::as_ref))
    }

    /// The groups after the first one.
    pub fn later(&self) -> &[Arc<PlacedTable>] {
        &self.later
    }

    /// Number of rows of all groups.
    pub fn all_rows(&self) -> usize {
        self.groups().map(PlacedTable::rows).sum()
    }

    /// Name under which it is registered.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Arrow schema; every field is nullable, see [`crate::PlacedColumn::nullable`] for the data.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The columns in schema order.
    pub fn columns(&self) -> &[PlacedColumn] {
        &self.columns
    }

    /// Number of rows of the first group, the same for all columns.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of all columns' values or codes.
    pub fn size_bytes(&self) -> u64 {
        let columns = self.groups().flat_map(|group| &group.columns);
        columns.map(PlacedColumn::size_bytes).sum()
    }

    /// Bytes on the heap outside the columns' regions: the values of their codes.
    pub fn domain_bytes(&self) -> u64 {
        let columns = self.groups().flat_map(|group| &group.columns);
        columns.map(PlacedColumn::domain_bytes).sum()
    }

    /// What samples have shown of filters.
    pub(crate) fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Statistics for the planner.
    pub fn statistics(&self) -> Arc<Statistics> {
        // The statistics are replaced as a whole, so a panic elsewhere leaves them consistent.
        Arc::clone(
            &self
                .statistics
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// Whether the planner's statistics are those that loading has found.
    pub(crate) fn has_statistics_of_load(&self) -> bool {
        let facts = self.columns.iter().map(PlacedColumn::facts);
        *self.statistics() == statistics(self.rows, &self.columns, facts)
    }

    /// Computes the planner's statistics again by reading all columns.
    ///
    /// They have exact bounds and NULL counts, and distinct counts where those are cheap.
    ///
    /// # Errors
    /// Arrow's or DataFusion's, from reading the columns.
    pub fn refresh_statistics(&self) -> Result<(), EngineError> {
        self.later
            .iter()
            .try_for_each(|group| group.refresh_statistics())?;
        let facts = self
            .columns
            .iter()
            .map(PlacedColumn::measured_facts)
            .collect::<Result<Vec<_>, _>>()?;
        let fresh = Arc::new(statistics(self.rows, &self.columns, facts.iter()));
        *self
            .statistics
            .write()
            .unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// Sets how scans that start from now on return column `index`.
    pub fn set_staging(&self, index: usize, staging: Staging) {
        for group in self.groups() {
            group.staged[index].store(staging == Staging::WorkingBuffer, Ordering::Relaxed);
        }
    }

    /// Whether scans copy column `index` through a working buffer.
    pub fn is_staged(&self, index: usize) -> bool {
        self.staged[index].load(Ordering::Relaxed)
    }

    /// Rows `start..start + len` of all columns, without a copy where the layout allows.
    ///
    /// # Errors
    /// Arrow's, from decoding columns.
    pub fn batch(&self, start: usize, len: usize) -> Result<RecordBatch, EngineError> {
        let columns: Result<Vec<ArrayRef>, _> =
            self.columns.iter().map(|c| c.slice(start, len)).collect();
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns?)?)
    }

    /// Up to about `rows` rows of the named columns, spread evenly over the table in runs of 64.
    ///
    /// The planner evaluates filters on this sample.
    ///
    /// # Errors
    /// An unknown column, or Arrow's errors.
    pub fn sample(&self, rows: usize, columns: &[&str]) -> Result<RecordBatch, EngineError> {
        let indices = columns
            .iter()
            .map(|name| self.schema.index_of(name))
            .collect::<Result<Vec<_>, _>>()?;
        let schema = Arc::new(self.schema.project(&indices)?);
        let part = |start: usize, len: usize| -> Result<RecordBatch, EngineError> {
            let values = indices.iter().map(|&i| self.columns[i].slice(start, len));
            let options = RecordBatchOptions::new().with_row_count(Some(len));
            let columns = values.collect::<Result<_, _>>()?;
            Ok(RecordBatch::try_new_with_options(
                Arc::clone(&schema),
                columns,
                &options,
            )?)
        };
        if self.rows <= rows.max(SAMPLED_RUN) {
            return part(0, self.rows);
        }
        let runs = rows.div_ceil(SAMPLED_RUN);
        let parts = (0..runs)
            .map(|i| part(i * (self.rows - SAMPLED_RUN) / runs, SAMPLED_RUN))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(arrow::compute::concat_batches(&schema, &parts)?)
    }
}

/// Shares of a table's rows that filters keep.
///
/// They are sampled once: rows never change, and planning asks for the same filter in every pass.
#[derive(Debug, Default)]
pub(crate) struct Shares(Mutex<HashMap<Expr, Option<f64>>>);

/// Filters whose shares are kept; beyond it all are sampled again.
const MOST_SHARES: usize = 256;

impl Shares {
    /// The share of `filter`, which `sampled` finds out if it is not known.
    pub fn of(&self, filter: &Expr, sampled: impl FnOnce() -> Option<f64>) -> Option<f64> {
        // Entries are added as a whole, so a panic elsewhere leaves them consistent.
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = known().get(filter) {
            return *share;
        }
        // Not under the lock: other statements plan meanwhile.
        let share = sampled();
        let mut known = known();
        if known.len() >= MOST_SHARES {
            known.clear();
        }
        known.insert(filter.clone(), share);
        share
    }
}

fn statistics<'a>(
    rows: usize,
    columns: &[PlacedColumn],
    facts: impl Iterator<Item = &'a ColumnFacts>,
) -> Statistics {
    Statistics {
        num_rows: Precision::Exact(rows),
        // Bytes as scanned, not as stored: the planner compares them with the output of other
        // operators.
        total_byte_size: Precision::Exact(columns.iter().map(|c| c.output_bytes() as usize).sum()),
        column_statistics: columns
            .iter()
            .zip(facts)
            .map(|(column, facts)| facts.statistics(rows, column.output_bytes()))
            .collect(),
    }
}
