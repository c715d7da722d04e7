//! Record batches from anywhere into placed columns.
//!
//! ```text
//!   batches ── kept as they come, column by column ──┐
//!   as many columns at a time as there are threads:  │ prepare: look at the values, choose the encoding   (in parallel)
//!                                                    │ reserve a region of the size that this takes      (one after the other)
//!                                                    └ place: write the codes or buffers, drop the source (in parallel)
//! ```
//! So the data exists once as it came, and the columns in work a second time. Regions are reserved in the order of the schema, which
//! keeps the weights of a placement over all columns together.

use super::encode::{self, Prepared};
use super::held::Held;
use super::place::ColumnPlacer;
use crate::EngineError;
use crate::column::PlacedColumn;
use crate::table::PlacedTable;
use arrow::array::{Array, ArrayData, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use tierloom_memory::Placement;
use tierloom_workloads::{Progress, WorkloadError};

/// Is told the bytes of all batches held so far, each allocation counted once, and ends the loading
/// by an error.
pub type MemoryCheck<'a> = &'a (dyn Fn(u64) -> Result<(), EngineError> + Sync);

/// How tables are loaded.
#[derive(Clone, Copy, Default)]
pub struct LoadOptions<'a> {
    /// Asked after every batch; without it loading goes on until memory cannot be had.
    pub check_memory: Option<MemoryCheck<'a>>,
}

/// Loads `batches` of `schema` as table `name`, its columns placed by `placement_of` (asked with "table.column").
///
/// The number of rows need not be known. `progress` hears of the rows of every batch and may cancel between two.
///
/// # Errors
/// The first error among the batches, a batch of another schema, what `check_memory` says, memory that cannot be had, or
/// [`WorkloadError::Cancelled`].
pub fn load_batches(
    name: &str,
    schema: SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch, EngineError>>,
    placer: &mut ColumnPlacer<'_>,
    placement_of: &dyn Fn(&str) -> Placement,
    progress: &dyn Progress,
    options: &LoadOptions<'_>,
) -> Result<PlacedTable, EngineError> {
    let mut collected = Collected::new(name, &schema);
    for batch in batches {
        if progress.cancelled() {
            return Err(WorkloadError::Cancelled.into());
        }
        let batch = batch?;
        progress.advance(batch.num_rows() as u64);
        collected.add(&batch, options)?;
    }
    collected.place(&schema, placer, placement_of, progress)
}

/// [`load_batches`] from several sources at once, each read by its own thread; rows are in the order of the sources.
///
/// # Errors
/// Those of [`load_batches`]. `check_memory` is told the bytes of one source at a time.
pub fn load_partitions<I>(
    name: &str,
    schema: SchemaRef,
    partitions: Vec<I>,
    placer: &mut ColumnPlacer<'_>,
    placement_of: &dyn Fn(&str) -> Placement,
    progress: &dyn Progress,
    options: &LoadOptions<'_>,
) -> Result<PlacedTable, EngineError>
where
    I: Iterator<Item = Result<RecordBatch, EngineError>> + Send,
{
    let parts = in_parallel(partitions, |batches| {
        let mut collected = Collected::new(name, &schema);
        for batch in batches {
            if progress.cancelled() {
                return Err(WorkloadError::Cancelled.into());
            }
            let batch = batch?;
            progress.advance(batch.num_rows() as u64);
            collected.add(&batch, options)?;
        }
        Ok(collected)
    })?;
    let mut all = Collected::new(name, &schema);
    for part in parts {
        for (chunks, more) in all.columns.iter_mut().zip(part.columns) {
            chunks.extend(more);
        }
    }
    all.place(&schema, placer, placement_of, progress)
}

/// The batches of a table, by column.
struct Collected<'a> {
    table: &'a str,
    schema: &'a SchemaRef,
    columns: Vec<Vec<ArrayRef>>,
    held: Held,
}

impl<'a> Collected<'a> {
    fn new(table: &'a str, schema: &'a SchemaRef) -> Self {
        Collected {
            table,
            schema,
            columns: vec![Vec::new(); schema.fields().len()],
            held: Held::default(),
        }
    }

    fn add(&mut self, batch: &RecordBatch, options: &LoadOptions<'_>) -> Result<(), EngineError> {
        if batch.num_columns() != self.columns.len() {
            return Err(EngineError::Table {
                table: self.table.into(),
                problem: format!(
                    "got a batch of {} columns where {} were announced",
                    batch.num_columns(),
                    self.columns.len()
                ),
            });
        }
        if batch.num_rows() > 0 {
            for (chunks, column) in self.columns.iter_mut().zip(batch.columns()) {
                chunks.push(ArrayRef::clone(column));
            }
        }
        if let Some(check) = options.check_memory {
            self.held.add(batch);
            check(self.held.bytes()).map_err(|error| self.with_largest(error))?;
        }
        Ok(())
    }

    /// What does not fit is told with the column that takes most.
    fn with_largest(&self, error: EngineError) -> EngineError {
        match (error, self.held.largest()) {
            (EngineError::Table { table, problem }, Some((index, bytes))) if bytes > 0 => {
                let column = self.schema.field(index).name();
                let mib = bytes as f64 / f64::from(1u32 << 20);
                EngineError::Table {
                    table,
                    problem: format!(
                        "{problem} (the largest column, {column}, takes {mib:.1} MiB)"
                    ),
                }
            }
            (error, _) => error,
        }
    }

    fn place(
        self,
        schema: &SchemaRef,
        placer: &mut ColumnPlacer<'_>,
        placement_of: &dyn Fn(&str) -> Placement,
        progress: &dyn Progress,
    ) -> Result<PlacedTable, EngineError> {
        let table = self.table;
        let mut waiting = schema.fields().iter().zip(self.columns);
        let mut placed = Vec::new();
        loop {
            let wave: Vec<_> = waiting.by_ref().take(placer.threads()).collect();
            if wave.is_empty() {
                return PlacedTable::new(table, placed);
            }
            if progress.cancelled() {
                return Err(WorkloadError::Cancelled.into());
            }
            let sources = wave
                .into_iter()
                .map(|(field, chunks)| Source {
                    table,
                    field,
                    chunks,
                })
                .collect();
            placed.extend(place_columns(sources, placer, placement_of)?);
        }
    }
}

/// A column as it came.
pub(super) struct Source<'a> {
    pub table: &'a str,
    pub field: &'a FieldRef,
    pub chunks: Vec<ArrayRef>,
}

/// Encodes and places columns, all at the same time.
pub(super) fn place_columns(
    sources: Vec<Source<'_>>,
    placer: &mut ColumnPlacer<'_>,
    placement_of: &dyn Fn(&str) -> Placement,
) -> Result<Vec<PlacedColumn>, EngineError> {
    let encoding = placer.encoding();
    let prepared = in_parallel(sources, |source| {
        let data_type = source.field.data_type();
        if let Some(odd) = source.chunks.iter().find(|c| c.data_type() != data_type) {
            return Err(EngineError::Table {
                table: source.table.into(),
                problem: format!(
                    "got {} for column {}, which was announced as {data_type}",
                    odd.data_type(),
                    source.field.name()
                ),
            });
        }
        let (data_type, chunks) = with_keys_for_all(data_type, source.chunks)?;
        let prepared = encode::prepare(&data_type, chunks, encoding)?;
        Ok((source.table, source.field.name(), prepared))
    })?;
    let mut reserved = Vec::new();
    for (table, column, prepared) in prepared {
        let region = reserve(table, column, &prepared, placer, placement_of)?;
        reserved.push((column, prepared, region));
    }
    in_parallel(reserved, |(column, prepared, region)| {
        prepared.place(column, region)
    })
}

/// Chunks of dictionaries with keys that can count the words of all chunks together: each chunk has
/// its own words, and keys of one byte run out soon. Other columns stay as they are.
fn with_keys_for_all(
    data_type: &DataType,
    chunks: Vec<ArrayRef>,
) -> Result<(DataType, Vec<ArrayRef>), EngineError> {
    let DataType::Dictionary(keys, words) = data_type else {
        return Ok((data_type.clone(), chunks));
    };
    let most = match **keys {
        DataType::Int8 => i8::MAX as usize + 1,
        DataType::UInt8 => u8::MAX as usize + 1,
        DataType::Int16 => i16::MAX as usize + 1,
        DataType::UInt16 => u16::MAX as usize + 1,
        _ => return Ok((data_type.clone(), chunks)),
    };
    let mut dictionaries: Vec<ArrayData> = Vec::new();
    for chunk in chunks.iter().filter_map(|c| c.as_any_dictionary_opt()) {
        let words = chunk.values().to_data();
        // Batches of one file mostly share their words.
        if !dictionaries.iter().any(|known| known.ptr_eq(&words)) {
            dictionaries.push(words);
        }
    }
    if dictionaries.iter().map(ArrayData::len).sum::<usize>() <= most {
        return Ok((data_type.clone(), chunks));
    }
    let wide = DataType::Dictionary(Box::new(DataType::Int32), words.clone());
    let chunks = chunks.iter().map(|chunk| cast(chunk, &wide));
    let chunks = chunks.collect::<Result<_, _>>()?;
    Ok((wide, chunks))
}

fn reserve(
    table: &str,
    column: &str,
    prepared: &Prepared,
    placer: &mut ColumnPlacer<'_>,
    placement_of: &dyn Fn(&str) -> Placement,
) -> Result<tierloom_memory::Region, EngineError> {
    let name = format!("{table}.{column}");
    placer.region(&name, prepared.size_bytes(), &placement_of(&name))
}

/// Does `work` with every item on a thread of its own; the first error in the order of the items wins.
pub(super) fn in_parallel<T: Send, R: Send>(
    items: Vec<T>,
    work: impl Fn(T) -> Result<R, EngineError> + Sync,
) -> Result<Vec<R>, EngineError> {
    let work = &work;
    if items.len() <= 1 {
        return items.into_iter().map(work).collect();
    }
    std::thread::scope(|scope| {
        let running: Vec<_> = items
            .into_iter()
            .map(|item| scope.spawn(move || work(item)))
            .collect();
        // All are joined before the first error is handed on.
        let done: Vec<_> = running.into_iter().map(|thread| thread.join()).collect();
        done.into_iter()
            .map(|outcome| outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}
