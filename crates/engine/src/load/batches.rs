//! Loads record batches from any source into placed columns.
//!
//! ```text
//!   batches ── kept as they come, column by column ──┐
//!   as many columns at a time as there are threads:  │
//!     prepare: read the values, choose the encoding  │  in parallel
//!     reserve: a region of the size that this takes  │  in schema order
//!     place:   write codes or buffers, drop source   ┘  in parallel
//! ```
//! At its peak the data exists once as it came, plus the columns in work a second time. Regions are
//! reserved in schema order, so that the columns together keep the weights of a placement.

use super::encode::{self, Encoding, ReadColumn};
use super::held::Held;
use super::pipeline::pipelined;
use super::place::ColumnPlacer;
use crate::EngineError;
use crate::column::PlacedColumn;
use crate::table::PlacedTable;
use arrow::array::{Array, ArrayData, ArrayRef, AsArray, RecordBatch, make_array};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, FieldRef, SchemaRef,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tierloom_corrections::with_one_nan;
use tierloom_memory::Placement;
use tierloom_workloads::{Progress, WorkloadError};

/// Checks the memory held by a load; an error aborts it.
///
/// It receives the bytes of all batches held so far, each allocation counted once.
pub type MemoryCheck<'a> = &'a (dyn Fn(u64) -> Result<(), EngineError> + Sync);

/// Optional behaviour of [`load_batches`] and [`load_partitions`].
#[derive(Clone, Copy, Default)]
pub struct LoadOptions<'a> {
    /// Called after every batch; `None` loads until an allocation fails.
    pub check_memory: Option<MemoryCheck<'a>>,
}

/// Loads `batches` of `schema` as table `name`.
///
/// `placement_of` receives "table.column".
///
/// The number of rows need not be known. `progress` receives the rows of every batch and may cancel
/// between two.
///
/// # Errors
/// The first error among the batches, a batch of another schema, an error of `check_memory`, a
/// failed allocation, or [`WorkloadError::Cancelled`].
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

/// [`load_batches`] from several sources at once, one thread each.
///
/// Rows are in the order of the sources.
///
/// # Errors
/// Same as [`load_batches`]. `check_memory` receives the bytes of one source at a time.
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
    // Sources are collected separately and appended in order, so row order does not depend on
    // timing.
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

/// The batches collected so far, by column.
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

    /// Adds the largest column to an error about memory.
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
        let columns = schema.fields().iter().zip(self.columns);
        let sources = columns
            .map(|(field, chunks)| ArrivedColumn {
                table,
                field,
                chunks,
            })
            .collect();
        PlacedTable::new(
            table,
            place_columns(sources, placer, placement_of, progress)?,
        )
    }
}

/// A column as it arrived.
pub(super) struct ArrivedColumn<'a> {
    pub table: &'a str,
    pub field: &'a FieldRef,
    pub chunks: Vec<ArrayRef>,
}

/// Encodes and places columns, as many at a time as there are threads, which bounds how many exist
/// in both forms.
pub(super) fn place_columns(
    sources: Vec<ArrivedColumn<'_>>,
    placer: &mut ColumnPlacer<'_>,
    placement_of: &dyn Fn(&str) -> Placement,
    progress: &dyn Progress,
) -> Result<Vec<PlacedColumn>, EngineError> {
    let encoding = placer.encoding();
    let busy_ns = AtomicU64::new(0);
    let count = |start: Instant| {
        busy_ns.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
    };
    let placed = pipelined(
        sources,
        placer.threads(),
        |source| {
            let start = Instant::now();
            let prepared = prepared(source.field, source.chunks, source.table, encoding)?;
            count(start);
            Ok((source.table, source.field.name(), prepared))
        },
        // In order: each region continues the round of weights where the last one ended.
        |(table, column, prepared)| {
            if progress.cancelled() {
                return Err(WorkloadError::Cancelled.into());
            }
            reserve(table, column, prepared, placer, placement_of)
        },
        |(_, column, prepared), region| {
            let start = Instant::now();
            let placed = prepared.place(column, region);
            count(start);
            placed
        },
    );
    placer.encoded(Duration::from_nanos(busy_ns.into_inner()));
    placed
}

/// Reads the values of a column and chooses its encoding.
fn prepared(
    field: &FieldRef,
    chunks: Vec<ArrayRef>,
    table: &str,
    encoding: Encoding,
) -> Result<ReadColumn, EngineError> {
    let data_type = field.data_type();
    if let Some(odd) = chunks.iter().find(|c| c.data_type() != data_type) {
        return Err(EngineError::Table {
            table: table.into(),
            problem: format!(
                "got {} for column {}, which was announced as {data_type}",
                odd.data_type(),
                field.name()
            ),
        });
    }
    let (data_type, chunks) = in_known_type(data_type, chunks)?;
    let chunks = chunks.into_iter().map(with_one_nan).collect();
    let (data_type, chunks) = with_keys_for_all(&data_type, chunks)?;
    encode::prepare(&data_type, chunks, encoding)
}

/// Chunks in a type that DataFusion 55 computes with rightly; most columns stay as they are.
///
/// * Floats in the place of dictionaries of floats: 0.0 and -0.0 are one value, but as words of a
///   dictionary they are compared and grouped by their bits.
/// * Decimals with a scale of 0 in the place of those with a negative one: the planner takes
///   constants that are compared with them for 0, or panics.
fn in_known_type(
    data_type: &DataType,
    chunks: Vec<ArrayRef>,
) -> Result<(DataType, Vec<ArrayRef>), EngineError> {
    let values = match data_type {
        DataType::Dictionary(_, words) => words.as_ref(),
        plain => plain,
    };
    let known = match values {
        float if float.is_floating() && values != data_type => Some(float.clone()),
        decimal => without_negative_scale(decimal),
    };
    let Some(known) = known else {
        return Ok((data_type.clone(), chunks));
    };
    // A value with more digits than its type has is an error, not NULL.
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let chunks = chunks.iter();
    let chunks = chunks.map(|chunk| cast_with_options(chunk, &known, &options));
    Ok((known.clone(), chunks.collect::<Result<_, _>>()?))
}

/// The decimals of a type with a negative scale as whole numbers; `None` for other types, and if
/// they have too many digits.
fn without_negative_scale(data_type: &DataType) -> Option<DataType> {
    let (DataType::Decimal32(digits, scale)
    | DataType::Decimal64(digits, scale)
    | DataType::Decimal128(digits, scale)
    | DataType::Decimal256(digits, scale)) = *data_type
    else {
        return None;
    };
    let zeros = u8::try_from(-i16::from(scale)).ok().filter(|z| *z > 0)?;
    match digits.checked_add(zeros)? {
        digits @ ..=DECIMAL128_MAX_PRECISION => Some(DataType::Decimal128(digits, 0)),
        digits @ ..=DECIMAL256_MAX_PRECISION => Some(DataType::Decimal256(digits, 0)),
        _ => None,
    }
}

/// A dictionary with NULLs as NULL keys only.
///
/// Arrow allows a NULL among the words too, but the joins of DataFusion 55 take that for a value:
/// `NOT IN` then keeps rows whose value is unknown.
fn without_null_words(chunk: ArrayRef) -> Result<ArrayRef, EngineError> {
    let dictionary = chunk.as_any_dictionary_opt();
    if dictionary.is_none_or(|d| d.values().logical_null_count() == 0) {
        return Ok(chunk);
    }
    let with_nulls = chunk.to_data().into_builder().nulls(chunk.logical_nulls());
    Ok(make_array(with_nulls.build()?))
}

/// Chunks of dictionaries with NULLs as NULL keys, and with keys that can count the words of all
/// chunks together: each chunk has its own words, and keys of one byte run out soon. Other columns
/// stay as they are.
fn with_keys_for_all(
    data_type: &DataType,
    chunks: Vec<ArrayRef>,
) -> Result<(DataType, Vec<ArrayRef>), EngineError> {
    let DataType::Dictionary(keys, words) = data_type else {
        return Ok((data_type.clone(), chunks));
    };
    let chunks = chunks.into_iter().map(without_null_words);
    let chunks = chunks.collect::<Result<Vec<_>, _>>()?;
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
    prepared: &ReadColumn,
    placer: &mut ColumnPlacer<'_>,
    placement_of: &dyn Fn(&str) -> Placement,
) -> Result<tierloom_memory::Region, EngineError> {
    let name = format!("{table}.{column}");
    placer.region(&name, prepared.size_bytes(), &placement_of(&name))
}

/// Applies `work` to every item on a separate thread.
///
/// Returns the first error in the order of the items.
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
        // Every handle is joined before the first error returns: the scope panics itself if a
        // panicked thread was not joined.
        let done: Vec<_> = running.into_iter().map(|thread| thread.join()).collect();
        done.into_iter()
            .map(|outcome| outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}
