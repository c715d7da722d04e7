//! TPC-H and TPC-DS straight into placed columns.

use crate::EngineError;
use crate::load::{ColumnPlacer, LoadOptions, LoadTimes, load_batches};
use crate::table::PlacedTable;
use std::sync::Arc;
use std::time::Instant;
use tierloom_memory::Placement;
use tierloom_tpc::Source;
use tierloom_workloads::Progress;

/// Rows of the batches that the generator hands over.
const BATCH_ROWS: usize = 16 * 1024;

/// The tables of a benchmark.
pub struct TpcData {
    /// In the order of the sources.
    pub tables: Vec<Arc<PlacedTable>>,
    /// What loading cost.
    pub times: LoadTimes,
}

/// Generates `sources` with `threads` threads into columns placed by `placement_of` (asked with "table.column").
///
/// One table at a time exists as it was generated while its columns are encoded and placed, each column's source going when the column
/// is there.
///
/// # Errors
/// Memory that cannot be had, or [`tierloom_workloads::WorkloadError::Cancelled`] if `progress` says so.
pub fn load_tpc(
    sources: &[Source],
    threads: usize,
    placer: &mut ColumnPlacer<'_>,
    placement_of: &dyn Fn(&str) -> Placement,
    progress: &dyn Progress,
) -> Result<TpcData, EngineError> {
    let start = Instant::now();
    let before = placer.times().placing;
    let mut tables = Vec::new();
    for source in sources {
        let batches = source
            .batches(BATCH_ROWS, threads)
            .map(|batch| batch.map_err(EngineError::from));
        let table = load_batches(
            source.table(),
            source.schema(),
            batches,
            placer,
            placement_of,
            progress,
            &LoadOptions::default(),
        )?;
        tables.push(Arc::new(table));
    }
    let placing = placer.times().placing.saturating_sub(before);
    Ok(TpcData {
        tables,
        times: LoadTimes {
            generating: start.elapsed().saturating_sub(placing),
            placing,
        },
    })
}
