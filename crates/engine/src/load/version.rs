//! New versions of tables: columns that stay where they are beside columns of new values.
//!
//! ```text
//!   kept:  the regions of the version before, shared
//!   made:  chunks, asked for when the column's turn comes ── encoded and placed like loaded ones
//! ```
//! As in a load, as many columns are made at a time as there are threads, so the values of a table
//! never exist as a whole beside its columns.

use super::batches::{ArrivedColumn, MemoryCheck, in_parallel, place_columns};
use super::place::ColumnPlacer;
use crate::EngineError;
use crate::column::PlacedColumn;
use crate::table::PlacedTable;
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field, FieldRef};
use std::sync::Arc;
use tierloom_memory::Placement;
use tierloom_workloads::{Progress, WorkloadError};

/// The values of a column in chunks of its type.
pub type Chunks<'a> = Box<dyn FnOnce() -> Result<Vec<ArrayRef>, EngineError> + Send + 'a>;

/// A column with new values.
pub struct MadeColumn<'a> {
    /// Its name.
    pub name: String,
    /// The type of all chunks.
    pub data_type: DataType,
    /// Where it is placed.
    pub placement: Placement,
    /// Its values.
    pub chunks: Chunks<'a>,
}

/// A column of a new version of a table.
pub enum NextColumn<'a> {
    /// As it is; both versions share its regions.
    Kept(Box<PlacedColumn>),
    /// With new values.
    Made(MadeColumn<'a>),
}

/// Makes a table of `columns`, in their order.
///
/// `check` receives the bytes of the chunks that exist at the same time, and can refuse them.
///
/// # Errors
/// The first error of the chunks or of `check`, a failed allocation, columns that make no table, or
/// [`WorkloadError::Cancelled`].
pub fn load_columns(
    table: &str,
    columns: Vec<NextColumn<'_>>,
    placer: &mut ColumnPlacer<'_>,
    progress: &dyn Progress,
    check: MemoryCheck<'_>,
) -> Result<PlacedTable, EngineError> {
    let mut placed: Vec<Option<PlacedColumn>> = Vec::with_capacity(columns.len());
    let mut waiting = Vec::new();
    for (index, column) in columns.into_iter().enumerate() {
        match column {
            NextColumn::Kept(column) => placed.push(Some(*column)),
            NextColumn::Made(column) => {
                placed.push(None);
                waiting.push((index, column));
            }
        }
    }
    let mut waiting = waiting.into_iter();
    loop {
        let wave: Vec<_> = waiting.by_ref().take(placer.threads()).collect();
        if wave.is_empty() {
            return PlacedTable::new(table, placed.into_iter().flatten().collect());
        }
        if progress.cancelled() {
            return Err(WorkloadError::Cancelled.into());
        }
        let (indices, wave): (Vec<usize>, Vec<_>) = wave.into_iter().unzip();
        for (index, column) in indices
            .into_iter()
            .zip(made(table, wave, placer, progress, check)?)
        {
            placed[index] = Some(column);
        }
    }
}

/// Makes several columns in parallel.
fn made(
    table: &str,
    wave: Vec<MadeColumn<'_>>,
    placer: &mut ColumnPlacer<'_>,
    progress: &dyn Progress,
    check: MemoryCheck<'_>,
) -> Result<Vec<PlacedColumn>, EngineError> {
    let mut places = Vec::new();
    let mut parts = Vec::new();
    for column in wave {
        places.push((format!("{table}.{}", column.name), column.placement));
        let field: FieldRef = Arc::new(Field::new(column.name, column.data_type, true));
        parts.push((field, column.chunks));
    }
    let (fields, chunks): (Vec<FieldRef>, Vec<_>) = parts.into_iter().unzip();
    let chunks = in_parallel(chunks, |chunks| chunks())?;
    check(chunks.iter().flatten().map(bytes_of).sum())?;
    let sources = fields.iter().zip(chunks);
    let sources = sources
        .map(|(field, chunks)| ArrivedColumn {
            table,
            field,
            chunks,
        })
        .collect();
    let placement_of = |name: &str| {
        let place = places.iter().find(|(known, _)| known == name);
        place.map_or_else(Placement::kernel_default, |(_, at)| at.clone())
    };
    place_columns(sources, placer, &placement_of, progress)
}

/// Bytes of the rows of a chunk; what it shares with a region counts too.
fn bytes_of(chunk: &ArrayRef) -> u64 {
    chunk.to_data().get_slice_memory_size().unwrap_or(0) as u64
}
