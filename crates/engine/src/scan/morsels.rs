//! One partition's part of a scan: morsels from the shared cursor, filtered by codes.

use super::bound::Bounded;
use super::code_filter::{CodeFilter, kept_positions};
use super::patience::Patience;
use super::runtime::ExecutionKeys;
use crate::EngineError;
use crate::coded::zones_of;
use crate::table::PlacedTable;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::concat;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Morsels without a result that a partition processes before it returns an empty batch.
const MOST_WITHOUT_ROWS: u32 = 64;

/// The state of one partition.
pub(super) struct Morsels {
    pub table: Arc<PlacedTable>,
    pub projection: Vec<usize>,
    pub schema: SchemaRef,
    pub rows: usize,
    pub morsel_rows: usize,
    pub next: Arc<AtomicUsize>,
    /// Whether the last morsel comes first.
    pub from_end: bool,
    pub filters: Vec<CodeFilter>,
    /// Keys of joins above that are not known yet, by the table index of their column.
    pub awaited: Vec<(usize, Arc<ExecutionKeys>)>,
    /// Leaves out rows that a sort with a limit above does not ask for.
    pub bound: Option<Bounded>,
    /// Whether the codes of a morsel are evaluated.
    pub patience: Patience,
    pub rows_scanned: Count,
    pub rows_skipped: Count,
    pub metrics: BaselineMetrics,
}

impl Morsels {
    /// The next batch with rows.
    ///
    /// After many morsels without any, an empty one, so that the query can be cancelled.
    pub fn batch(&mut self) -> Option<Result<RecordBatch>> {
        let mut without = 0;
        loop {
            let Range { start, end } = match self.next_rows() {
                Ok(rows) => rows?,
                Err(error) => return Some(Err(error)),
            };
            let len = end - start;
            let compute = self.metrics.elapsed_compute().clone();
            let _timer = compute.timer();
            self.rows_scanned.add(len);
            let mut kept = self.kept(start, len);
            if let Some(bound) = &mut self.bound {
                kept = match bound.keep(&self.table, (start, len), kept) {
                    Ok(kept) => kept,
                    Err(error) => return Some(Err(error)),
                };
            }
            if kept.as_ref().is_some_and(Vec::is_empty) && without < MOST_WITHOUT_ROWS {
                without += 1;
                continue;
            }
            let batch = self.rows(start, len, kept.as_deref());
            self.metrics
                .record_output(kept.map_or(len, |kept| kept.len()));
            return Some(batch);
        }
    }

    /// The rows of the next morsel with zones that have codes which pass all filters.
    fn next_rows(&mut self) -> Result<Option<Range<usize>>> {
        loop {
            // Relaxed is enough: the columns are immutable while queries run, so only atomicity
            // matters.
            let start = self.next.fetch_add(self.morsel_rows, Ordering::Relaxed);
            if start >= self.rows {
                return Ok(None);
            }
            let start = match self.from_end {
                // The number of the morsel counts from the end.
                true => (self.rows - 1 - start) / self.morsel_rows * self.morsel_rows,
                false => start,
            };
            let morsel = start..self.rows.min(start + self.morsel_rows);
            self.take_keys();
            let Some(rows) = self.zones_that_may_pass(&morsel)? else {
                self.rows_skipped.add(morsel.len());
                continue;
            };
            self.rows_skipped.add(morsel.len() - rows.len());
            return Ok(Some(rows));
        }
    }

    /// The rows of `morsel` from the first zone with rows that may pass to the last.
    fn zones_that_may_pass(&mut self, morsel: &Range<usize>) -> Result<Option<Range<usize>>> {
        let bound = match &mut self.bound {
            Some(bound) => bound.codes(&self.table)?,
            None => None,
        };
        if self.filters.is_empty() && bound.is_none() {
            return Ok(Some(morsel.clone()));
        }
        let may_pass = |zone: &Range<usize>| {
            let mut filters = self.filters.iter().chain(bound);
            filters.all(|filter| filter.may_pass(&self.table, zone.clone()))
        };
        let mut zones = zones_of(morsel).filter(may_pass);
        let Some(first) = zones.next() else {
            return Ok(None);
        };
        let last = zones.last();
        Ok(Some(first.start..last.map_or(first.end, |last| last.end)))
    }

    /// Positions of the rows to return; `None` for all.
    fn kept(&mut self, start: usize, len: usize) -> Option<Vec<u32>> {
        if self.filters.is_empty() {
            return None;
        }
        if !self.patience.looks() {
            return None;
        }
        let kept = kept_positions(&self.filters, &self.table, start..start + len);
        self.patience.saw(kept.is_some());
        kept
    }

    /// Makes filters of the keys that have become known.
    fn take_keys(&mut self) {
        let Morsels {
            table,
            filters,
            awaited,
            patience,
            ..
        } = self;
        awaited.retain(|(column, run)| {
            let known = run.is_complete();
            if known && let Some(filter) = run.filter(table, *column) {
                filters.push(filter);
                filters.sort_by(|a, b| a.share().total_cmp(&b.share()));
                *patience = Patience::default();
            }
            !known
        });
    }

    /// The rows `start..start + len`, or those at the positions `kept` among them.
    fn rows(&self, start: usize, len: usize, kept: Option<&[u32]>) -> Result<RecordBatch> {
        let external = |e: EngineError| DataFusionError::External(Box::new(e));
        let columns: Result<Vec<ArrayRef>> = self
            .projection
            .iter()
            .map(|&index| match kept {
                Some(kept) => self.table.columns()[index]
                    .take(start, len, kept)
                    .map_err(external),
                None => self.column(index, start, len),
            })
            .collect();
        let options =
            RecordBatchOptions::new().with_row_count(Some(kept.map_or(len, <[u32]>::len)));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            columns?,
            &options,
        )?)
    }

    fn column(&self, index: usize, start: usize, len: usize) -> Result<ArrayRef> {
        let column = &self.table.columns()[index];
        let external = |e: EngineError| DataFusionError::External(Box::new(e));
        let view = column.slice(start, len).map_err(external)?;
        // A decoded column is already a copy in DRAM.
        if self.table.is_staged(index) && column.is_zero_copy() {
            // `concat` of a single array returns the same buffers; an empty second one forces the
            // copy.
            let nothing = view.slice(0, 0);
            Ok(concat(&[&view, &nothing])?)
        } else {
            Ok(view)
        }
    }
}
